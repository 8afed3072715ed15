"""Jobs that depend on jobs over HTTP: registered, changed, deleted, and what they are given."""

from __future__ import annotations

import asyncio
from typing import Any

import calling
import flowing
import httpx
import pytest
from calling import CRON, Read, create, pointers, refused
from fleet import history
from flowing import FAR, WORKER, Flow, after, diamond, edges, root

from engine.model import MAX_RESULT_BYTES
from engine.store import Store, registering

client = calling.client
clock = calling.clock
keyspace = calling.keyspace
flow = flowing.flow

DAY_MS = 86_400_000


async def show(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    job: dict[str, Any] = (await client.get(f"/v1/jobs/{job_id}")).json()
    return job


# Registering


async def test_a_dependent_shows_what_was_sent_and_waits_as_active(
    client: httpx.AsyncClient, store: Store
) -> None:
    await root(client, "a")
    await root(client, "b")
    asked: list[str | dict[str, str]] = [{"job": "b", "condition": "finished"}, "a"]
    job = await after(client, "c", *asked, join="any", match="latest", overlap="skip")
    assert job == await show(client, "c")
    assert job["depends_on"] == [
        {"job": "b", "condition": "finished"},
        {"job": "a", "condition": "succeeded"},
    ]
    assert (job["join"], job["match"], job["gate"]) == ("any", "latest", False)
    assert (job["state"], job["next_run_at"], job["overlap"]) == ("active", None, "skip")
    assert job["live_executions"] == 0
    assert "execution_id" not in job
    assert await edges(store) == {"c": {"a", "b"}}


async def test_a_dependent_is_matched_by_time_where_all_descend_from_one_root(
    client: httpx.AsyncClient,
) -> None:
    await diamond(client)
    await root(client, "x")
    mixed = await after(client, "e", "d", "x")
    assert [(await show(client, name))["match"] for name in "bcd"] == ["same_time"] * 3
    assert mixed["match"] == "latest"


async def test_each_time_of_a_dependent_is_a_run_of_its_own_unless_overlap_is_named(
    client: httpx.AsyncClient,
) -> None:
    await root(client, "a")
    assert (await after(client, "b", "a"))["overlap"] == "allow"
    gated = await after(client, "g", "a", schedule_expr=FAR, gate=True)
    assert gated["overlap"] == "skip"
    assert (await create(client, CRON))["overlap"] == "skip"


async def test_a_gate_has_a_deadline_of_a_day_unless_it_is_named(
    client: httpx.AsyncClient,
) -> None:
    await root(client, "a")
    usual = await after(client, "g", "a", schedule_expr=FAR, gate=True)
    assert (usual["gate"], usual["gate_deadline_ms"]) == (True, DAY_MS)
    assert usual["next_run_at"] == "2030-01-01T00:00:00.000Z"
    own = await after(client, "h", "a", schedule_expr=FAR, gate=True, gate_deadline_ms=5)
    assert own["gate_deadline_ms"] == 5


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"depends_on": "a"}, "/depends_on"),
        ({"depends_on": {"job": "a"}}, "/depends_on"),
        ({"depends_on": None}, "/depends_on"),
        ({"depends_on": ["a", 5]}, "/depends_on/1"),
        ({"depends_on": ["a", "b c"]}, "/depends_on/1"),
        ({"depends_on": [{"job": ""}]}, "/depends_on/0/job"),
        ({"depends_on": [{"condition": "failed"}]}, "/depends_on/0/job"),
        ({"depends_on": ["a", {"job": "b", "condition": "dead"}]}, "/depends_on/1/condition"),
        ({"depends_on": [{"job": "a", "when": 1}]}, "/depends_on/0/when"),
        ({"depends_on": ["a", "b", {"job": "a"}]}, "/depends_on/2"),
        ({"depends_on": ["new"]}, "/depends_on"),
        ({"depends_on": ["a", "nobody", "b"]}, "/depends_on/1"),
        ({"depends_on": [f"job-{n}" for n in range(1_001)]}, "/depends_on"),
        ({"depends_on": ["a"], "join": "some"}, "/join"),
        ({"depends_on": ["a"], "match": "newest"}, "/match"),
        ({"depends_on": ["a"], "gate": 1}, "/gate"),
        ({"depends_on": ["a"], "gate": True}, "/gate"),
        ({"depends_on": ["a"], "gate_deadline_ms": 5}, "/gate_deadline_ms"),
        ({"depends_on": ["a"], "schedule_expr": FAR}, "/gate"),
        ({"depends_on": ["a"], "schedule_expr": FAR, "gate": True, "match": "latest"}, "/match"),
        (
            {"depends_on": ["a"], "schedule_expr": FAR, "gate": True, "gate_deadline_ms": 0},
            "/gate_deadline_ms",
        ),
        ({"join": "any"}, "/join"),
        ({"match": "latest"}, "/match"),
        ({"gate": True, "schedule_expr": FAR}, "/gate"),
        ({"allow_missing": True}, "/allow_missing"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_stored(
    client: httpx.AsyncClient,
    store: Store,
    keyspace: Read,
    given: dict[str, Any],
    pointer: str,
) -> None:
    await root(client, "a")
    await root(client, "b")
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={**WORKER, "job_id": "new", **given})
    assert pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert await keyspace() == before
    assert await edges(store) == {}


async def test_missing_upstream_jobs_are_named_unless_they_are_allowed(
    client: httpx.AsyncClient, store: Store, flow: Flow
) -> None:
    body = {**WORKER, "job_id": "c", "depends_on": ["a", "b"]}
    problem = refused(await client.post("/v1/jobs", json=body), 400, "bad_input")
    assert "not there: jobs a, b;" in problem["detail"]
    await create(client, {**body, "allow_missing": True, "match": "same_time"})
    await root(client, "a")
    await after(client, "b", "a")
    await flow.start("a")
    await flow.work()
    assert flow.take() == ["a", "b", "c"]
    assert await edges(store) == {"b": {"a"}, "c": {"a", "b"}}


async def test_a_circle_is_spelled_out_and_leaves_nothing_behind(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await after(client, "a", "c", allow_missing=True)
    await after(client, "b", "a")
    before = await keyspace()
    body = {**WORKER, "job_id": "c", "depends_on": ["b"]}
    problem = refused(await client.post("/v1/jobs", json=body), 409, "cycle")
    for step in ("a depends on c", "b depends on a", "c depends on b"):
        assert step in problem["detail"]
    assert pointers(problem) == ["/depends_on"]
    assert await keyspace() == before
    assert await edges(store) == {"a": {"c"}, "b": {"a"}}


async def test_of_registrations_that_race_into_a_circle_one_is_refused(
    client: httpx.AsyncClient, store: Store
) -> None:
    for turn in range(10):
        names = [f"{name}{turn}" for name in "abc"]
        bodies = [
            {**WORKER, "job_id": name, "depends_on": [names[at - 1]], "allow_missing": True}
            for at, name in enumerate(names)
        ]
        answers = await asyncio.gather(*(client.post("/v1/jobs", json=body) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [201, 201, 409]
    assert len(await edges(store)) == 20


async def test_of_registrations_of_one_id_that_race_one_counts_with_its_edges(
    client: httpx.AsyncClient, store: Store
) -> None:
    for name in "abcd":
        await root(client, name)
    for turn in range(10):
        bodies = [{**WORKER, "job_id": f"x{turn}", "depends_on": [name]} for name in "abcd"]
        answers = await asyncio.gather(*(client.post("/v1/jobs", json=body) for body in bodies))
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
        [won] = [body for body, one in zip(bodies, answers, strict=True) if one.is_success]
        assert (await edges(store))[f"x{turn}"] == {*won["depends_on"]}


async def test_a_job_that_exists_keeps_its_edges_when_its_id_is_taken_again(
    client: httpx.AsyncClient, store: Store
) -> None:
    await diamond(client)
    for upstream in ("c", "d", "nobody"):
        body = {**WORKER, "job_id": "b", "depends_on": [upstream]}
        refused(await client.post("/v1/jobs", json=body), 409, "job_exists")
    assert (await edges(store))["b"] == {"a"}


# Changing


async def test_a_put_and_a_patch_change_what_a_job_depends_on(
    client: httpx.AsyncClient, store: Store, flow: Flow
) -> None:
    await diamond(client)
    await root(client, "x")
    put = await client.put("/v1/jobs/d", json={**WORKER, "depends_on": ["a"], "join": "any"})
    assert (put.status_code, put.json()["match"], put.json()["join"]) == (200, "same_time", "any")
    assert (await edges(store))["d"] == {"a"}
    patched = (await client.patch("/v1/jobs/d", json={"depends_on": ["c", "x"]})).json()
    assert (patched["match"], patched["join"]) == ("latest", "any")
    assert (await edges(store))["d"] == {"c", "x"}
    await flow.start("x")
    await flow.work()
    assert flow.take() == ["d", "x"]


async def test_a_condition_can_change_while_the_graph_stays(
    client: httpx.AsyncClient, store: Store, flow: Flow
) -> None:
    await diamond(client)
    changed = {"depends_on": ["b", {"job": "c", "condition": "failed"}], "retry": {}}
    assert (await client.patch("/v1/jobs/d", json=changed)).status_code == 200
    await flow.start("a")
    await flow.work({"c": {"status": "failed", "final": True}})
    assert flow.take() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("nothing", [None, []])
async def test_a_job_whose_dependencies_go_becomes_an_ordinary_one(
    client: httpx.AsyncClient, store: Store, flow: Flow, nothing: Any
) -> None:
    await root(client, "a")
    await after(client, "b", "a", join="any", match="same_time")
    job = (await client.patch("/v1/jobs/b", json={"depends_on": nothing})).json()
    assert (job["depends_on"], job["match"], job["join"]) == ([], None, "all")
    assert job["state"] == "completed"
    assert await edges(store) == {}
    await flow.start("a")
    await flow.work()
    assert flow.take() == ["a"]


async def test_an_ordinary_job_becomes_a_dependent_one_and_keeps_its_version_count(
    client: httpx.AsyncClient, store: Store
) -> None:
    await root(client, "a")
    await create(client, {**WORKER, "job_id": "b", "schedule_expr": FAR})
    changed = {"schedule_expr": None, "depends_on": ["a"]}
    job = (await client.patch("/v1/jobs/b", json=changed)).json()
    assert (job["state"], job["version"], job["next_run_at"]) == ("active", 2, None)
    assert await edges(store) == {"b": {"a"}}


async def test_an_edit_leaves_a_dependent_the_runs_that_it_has_left(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await after(client, "b", "a", max_runs=3)
    await flow.start("a")
    await flow.work()
    job = (await client.patch("/v1/jobs/b", json={"payload": 1})).json()
    assert (job["max_runs"], job["runs_left"]) == (3, 2)


async def test_an_edit_that_closes_a_circle_changes_nothing(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await diamond(client)
    before, stood = await keyspace(), await edges(store)
    answer = await client.patch("/v1/jobs/b", json={"depends_on": ["a", "d"]})
    assert "d depends on b" in refused(answer, 409, "cycle")["detail"]
    assert (await keyspace(), await edges(store)) == (before, stood)


async def test_an_edit_to_a_job_that_is_not_there_changes_nothing(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await diamond(client)
    before, stood = await keyspace(), await edges(store)
    answer = await client.patch("/v1/jobs/b", json={"depends_on": ["a", "nobody"]})
    assert pointers(refused(answer, 400, "bad_input")) == ["/depends_on/1"]
    assert (await keyspace(), await edges(store)) == (before, stood)


async def test_a_patch_of_something_else_does_not_ask_for_upstream_jobs_that_are_missing(
    client: httpx.AsyncClient, store: Store
) -> None:
    await after(client, "b", "a", allow_missing=True)
    job = (await client.patch("/v1/jobs/b", json={"payload": 1})).json()
    assert (job["payload"], job["depends_on"][0]["job"]) == (1, "a")
    await root(client, "c")
    more = (await client.patch("/v1/jobs/b", json={"depends_on": ["a", "c"]})).json()
    assert len(more["depends_on"]) == 2


async def test_edits_that_race_leave_graph_and_job_of_one_mind(
    client: httpx.AsyncClient, store: Store
) -> None:
    await diamond(client)
    for name in "xyz":
        await root(client, name)
    for _ in range(5):
        patches = [{"depends_on": [*names]} for names in ("ax", "ay", "xyz", "a")]
        await asyncio.gather(*(client.patch("/v1/jobs/b", json=patch) for patch in patches))
        shown = {one["job"] for one in (await show(client, "b"))["depends_on"]}
        assert (await edges(store))["b"] == shown


async def test_edits_that_race_into_a_circle_are_not_both_taken(
    client: httpx.AsyncClient, store: Store
) -> None:
    for turn in range(5):
        b, c = f"b{turn}", f"c{turn}"
        await root(client, f"a{turn}")
        for name in (b, c):
            await after(client, name, f"a{turn}")
        answers = await asyncio.gather(
            client.patch(f"/v1/jobs/{b}", json={"depends_on": [c]}),
            client.patch(f"/v1/jobs/{c}", json={"depends_on": [b]}),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        found = await edges(store)
        assert {*found[b], *found[c]} & {f"a{turn}"}


# Deleting


async def test_a_job_with_dependents_stays_and_says_who_they_are(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await diamond(client)
    before = await keyspace()
    problem = refused(await client.delete("/v1/jobs/a"), 409, "has_dependents")
    assert "jobs b, c depend on job a" in problem["detail"]
    wrong = await client.delete("/v1/jobs/a", params={"dependents": "all"})
    assert refused(wrong, 400, "bad_input")["errors"][0]["parameter"] == "dependents"
    assert await keyspace() == before


async def test_a_dependent_that_goes_takes_its_edges_with_it(
    client: httpx.AsyncClient, store: Store
) -> None:
    await diamond(client)
    assert (await client.delete("/v1/jobs/d")).status_code == 204
    assert await edges(store) == {"b": {"a"}, "c": {"a"}}
    for name in "bca":
        assert (await client.delete(f"/v1/jobs/{name}")).status_code == 204
    assert await edges(store) == {}


async def test_a_cascade_deletes_all_that_is_below(client: httpx.AsyncClient, store: Store) -> None:
    await diamond(client)
    await root(client, "x")
    await after(client, "e", "d", "x")
    await after(client, "y", "x")
    answer = await client.delete("/v1/jobs/b", params={"dependents": "cascade"})
    assert answer.status_code == 204
    left = (await client.get("/v1/jobs")).json()["jobs"]
    assert [job["job_id"] for job in left] == ["a", "c", "x", "y"]
    assert await edges(store) == {"c": {"a"}, "y": {"x"}}


async def test_dependents_that_are_detached_depend_on_what_is_left(
    client: httpx.AsyncClient, store: Store, flow: Flow
) -> None:
    await diamond(client)
    answer = await client.delete("/v1/jobs/b", params={"dependents": "detach"})
    assert answer.status_code == 204
    assert await edges(store) == {"c": {"a"}, "d": {"c"}}
    await flow.start("a")
    await flow.work()
    assert flow.take() == ["a", "c", "d"]
    await client.delete("/v1/jobs/c", params={"dependents": "detach"})
    assert (await show(client, "d"))["state"] == "completed"
    assert (await edges(store)) == {}


async def test_a_gated_job_that_is_detached_runs_by_its_schedule_alone(
    client: httpx.AsyncClient,
) -> None:
    await root(client, "a")
    await after(client, "g", "a", schedule_expr=FAR, gate=True)
    await client.delete("/v1/jobs/a", params={"dependents": "detach"})
    job = await show(client, "g")
    assert (job["state"], job["gate"]) == ("active", False)
    assert job["next_run_at"] == "2030-01-01T00:00:00.000Z"


@pytest.mark.parametrize("how", ["cascade", "detach"])
async def test_a_dependent_that_is_listed_and_gone_does_not_keep_a_job_for_ever(
    client: httpx.AsyncClient, store: Store, how: str
) -> None:
    await root(client, "a")
    await after(client, "b", "a")
    shard = store.layout.shard_of("a")
    await store.client.zadd(shard.dependents("a"), {"ghost": 0})
    refused(await client.delete("/v1/jobs/a"), 409, "has_dependents")
    answer = await client.delete("/v1/jobs/a", params={"dependents": how})
    assert answer.status_code == 204
    assert await edges(store) == {}
    assert await store.client.exists(shard.dependents("a")) == 0


async def test_a_dependent_that_is_listed_and_depends_on_others_keeps_those(
    client: httpx.AsyncClient, store: Store
) -> None:
    await root(client, "a")
    await root(client, "x")
    await after(client, "y", "x")
    shard = store.layout.shard_of("a")
    await store.client.zadd(shard.dependents("a"), {"y": 0})
    answer = await client.delete("/v1/jobs/a", params={"dependents": "detach"})
    assert answer.status_code == 204
    assert await edges(store) == {"y": {"x"}}


async def test_a_cascade_that_is_too_large_deletes_nothing(
    client: httpx.AsyncClient, keyspace: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registering, "MOST_BELOW", 2)
    await diamond(client)
    before = await keyspace()
    answer = await client.delete("/v1/jobs/a", params={"dependents": "cascade"})
    assert "more than 2 jobs" in refused(answer, 409, "conflict")["detail"]
    assert await keyspace() == before


async def test_deleting_what_is_not_there_is_not_found(client: httpx.AsyncClient) -> None:
    for how in ({}, {"dependents": "cascade"}, {"dependents": "detach"}):
        refused(await client.delete("/v1/jobs/nobody", params=how), 404, "not_found")


# What is given


async def test_a_result_is_given_to_those_that_depend_on_it(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await flow.start("a")
    results = {"b": {"rows": [1, 2.5, None, "ü"]}, "c": 0}
    await flow.work(
        {name: {"status": "succeeded", "result": result} for name, result in results.items()}
    )
    given = {claimed["job_id"]: claimed["upstream"] for claimed in flow.claimed}
    assert given == {"a": {}, "b": {}, "c": {}, "d": results}


async def test_a_result_is_given_again_to_a_second_attempt(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await after(client, "b", "a", retry={"base_ms": 0, "jitter": "none"})
    await flow.start("a")
    await flow.work({"a": {"status": "succeeded", "result": [1]}, "b": {"status": "failed"}})
    given = [(one["job_id"], one["attempt"], one["upstream"]) for one in flow.claimed]
    assert given[0] == ("a", 1, {})
    assert given[1:] == [("b", attempt, {"a": [1]}) for attempt in (1, 2, 3)]


async def test_a_result_that_is_too_large_is_refused_and_the_attempt_goes_on(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await after(client, "b", "a")
    await flow.start("a")
    await flow.work({"a": {}})
    [claimed] = flow.claimed
    path = f"/internal/executions/{claimed['execution_id']}/complete"
    body = {"lease": claimed["lease"], "status": "succeeded"}
    answer = await client.post(path, json={**body, "result": "x" * (MAX_RESULT_BYTES - 1)})
    problem = refused(answer, 400, "bad_input")
    assert pointers(problem) == ["/result"]
    assert "16384 bytes" in problem["detail"]
    assert await history(flow.store, "a") == []
    most = "x" * (MAX_RESULT_BYTES - 2)
    await flow.end(claimed, status="succeeded", result=most)
    await flow.work()
    assert flow.claimed[-1]["upstream"] == {"a": most}


async def test_only_a_success_has_a_result(client: httpx.AsyncClient, flow: Flow) -> None:
    await root(client, "a")
    await flow.start("a")
    await flow.work({"a": {}})
    [claimed] = flow.claimed
    for path, body in [("complete", {"status": "failed"}), ("fail", {})]:
        answer = await client.post(
            f"/internal/executions/{claimed['execution_id']}/{path}",
            json={"lease": claimed["lease"], "result": 1, **body},
        )
        assert pointers(refused(answer, 400, "bad_input")) == ["/result"]


async def test_a_batch_names_the_result_that_is_too_large(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await flow.start("a")
    await flow.work({"a": {}})
    [claimed] = flow.claimed
    one = {name: claimed[name] for name in ("execution_id", "lease")} | {"status": "succeeded"}
    answer = await client.post(
        "/internal/executions/complete", json=[{**one, "result": "x" * MAX_RESULT_BYTES}]
    )
    assert pointers(refused(answer, 400, "bad_input")) == ["/0/result"]


async def test_a_run_by_hand_of_a_dependent_has_a_time_of_its_own_and_nothing_given(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await after(client, "b", "a")
    await client.post("/v1/jobs/b/run")
    await flow.work()
    assert [(one["job_id"], one["upstream"]) for one in flow.claimed] == [("b", {})]
