"""The graph of jobs over HTTP: around a job, one time over it, and running a part of it again."""

from __future__ import annotations

from typing import Any

import calling
import flowing
import httpx
import pytest
from calling import NOW, NOW_TEXT, Read, refused
from flowing import FAR, Flow, after, diamond, root

from engine.clock import ManualClock
from engine.store import Store, graphs

client = calling.client
clock = calling.clock
keyspace = calling.keyspace
flow = flowing.flow

DEAD = {"status": "failed", "final": True, "error": "no"}


async def around(client: httpx.AsyncClient, job_id: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"/v1/jobs/{job_id}/graph", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(graph: dict[str, Any]) -> list[str]:
    return [node["job_id"] for node in graph["nodes"]]


async def run_of(client: httpx.AsyncClient, job_id: str, time: int | str) -> dict[str, Any]:
    """Return what became of a time by job."""
    answer = await client.get(f"/v1/graphs/{job_id}/runs/{time}")
    assert answer.status_code == 200, answer.text
    return {run["job_id"]: run for run in answer.json()["runs"]}


async def states(client: httpx.AsyncClient, job_id: str, time: int | str) -> dict[str, str]:
    return {name: run["status"] for name, run in (await run_of(client, job_id, time)).items()}


async def again(client: httpx.AsyncClient, job_id: str, time: int, **body: Any) -> httpx.Response:
    return await client.post(f"/v1/executions/{job_id}@{time}/rerun", json=body)


# Around a job


async def test_a_graph_shows_what_is_above_and_below_and_not_beside(
    client: httpx.AsyncClient,
) -> None:
    await diamond(client)
    await root(client, "x")
    await after(client, "e", {"job": "d", "condition": "failed"}, "x", join="any")
    graph = await around(client, "d")
    assert graph["job_id"] == "d"
    assert names(graph) == ["d", "b", "c", "e", "a"]
    assert not graph["is_cut"]
    found = [(edge["from"], edge["to"], edge["condition"]) for edge in graph["edges"]]
    assert sorted(found) == [
        ("a", "b", "succeeded"),
        ("a", "c", "succeeded"),
        ("b", "d", "succeeded"),
        ("c", "d", "succeeded"),
        ("d", "e", "failed"),
    ]
    nodes = {node["job_id"]: node for node in graph["nodes"]}
    assert nodes["a"] == {
        "job_id": "a",
        "state": "active",
        "next_run_at": "2030-01-01T00:00:00.000Z",
        "join": "all",
        "match": None,
        "gate": False,
    }
    assert (nodes["e"]["join"], nodes["e"]["match"]) == ("any", "latest")
    assert nodes["e"]["next_run_at"] is None


async def test_a_graph_goes_as_deep_as_is_asked(client: httpx.AsyncClient) -> None:
    await diamond(client)
    assert names(await around(client, "a", depth=0)) == ["a"]
    assert names(await around(client, "a", depth=1)) == ["a", "b", "c"]
    assert names(await around(client, "d", depth=1)) == ["d", "b", "c"]


async def test_an_upstream_job_that_is_not_there_is_shown_as_missing(
    client: httpx.AsyncClient,
) -> None:
    await after(client, "b", "a", allow_missing=True)
    graph = await around(client, "b")
    assert graph["nodes"][1] == {"job_id": "a", "state": "missing"}
    assert graph["edges"] == [{"from": "a", "to": "b", "condition": "succeeded"}]


async def test_a_graph_that_is_too_large_says_that_it_is_cut(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "MOST_SHOWN", 4)
    await diamond(client)
    assert (await around(client, "a"))["is_cut"] is False
    await after(client, "e", "d")
    cut = await around(client, "a")
    assert (cut["is_cut"], names(cut)) == (True, ["a", "b", "c", "d"])
    # Nothing more is found below those that are shown.
    monkeypatch.setattr(graphs, "MOST_SHOWN", 2)
    await root(client, "x")
    for name in ("y", "z"):
        await after(client, name, "x")
    cut = await around(client, "x")
    assert (cut["is_cut"], names(cut)) == (True, ["x", "y"])


async def test_a_job_that_depends_on_it_no_longer_is_not_shown(
    client: httpx.AsyncClient, store: Store
) -> None:
    await root(client, "a")
    await after(client, "b", "a")
    await root(client, "x")
    # As a crash in the middle of an edit leaves it.
    await store.client.zadd(store.layout.shard_of("a").dependents("a"), {"x": 0, "ghost": 0})
    assert names(await around(client, "a")) == ["a", "b"]
    assert [*await states(client, "a", NOW)] == ["a", "b"]


async def test_what_is_no_graph_is_refused(client: httpx.AsyncClient) -> None:
    refused(await client.get("/v1/jobs/nobody/graph"), 404, "not_found")
    refused(await client.get("/v1/graphs/nobody/runs/5"), 404, "not_found")
    await root(client, "a")
    for time in ("yesterday", "1" * 16, "2027-01-15T08:00:00"):
        refused(await client.get(f"/v1/graphs/a/runs/{time}"), 404, "not_found")
    wrong = await client.get("/v1/jobs/a/graph", params={"depth": -1})
    assert refused(wrong, 400, "bad_input")["errors"][0]["parameter"] == "depth"


# One time over it


async def test_a_run_shows_each_state_as_it_comes(client: httpx.AsyncClient, flow: Flow) -> None:
    await diamond(client)
    assert await states(client, "a", NOW) == dict.fromkeys("abcd", "not_started")
    await flow.start("a")
    assert (await states(client, "a", NOW))["a"] == "waiting"
    await flow.work({"b": {}, "c": {"status": "failed"}})
    run = await run_of(client, "a", NOW_TEXT)
    assert run["a"] == {
        "job_id": "a",
        "execution_id": f"a@{NOW}",
        "status": "succeeded",
        "attempt_count": 1,
    }
    assert {name: one["status"] for name, one in run.items()} == {
        "a": "succeeded",
        "b": "running",
        "c": "retrying",
        "d": "not_started",
    }
    assert run["c"]["attempt_count"] == 1
    [held] = [claimed for claimed in flow.claimed if claimed["job_id"] == "b"]
    await flow.end(held, status="succeeded")
    await flow.work()
    waiting = (await run_of(client, "a", NOW))["d"]
    assert (waiting["status"], waiting["awaited"]) == ("waiting_for_upstream", ["c"])
    assert waiting["heard"] == {"b": {"outcome": "succeeded", "is_met": True}}


async def test_a_run_says_down_the_chain_whose_failure_it_was(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await after(client, "e", "d")
    await flow.start("a")
    await flow.work({"b": DEAD})
    run = await run_of(client, "a", NOW)
    assert {name: one["status"] for name, one in run.items()} == {
        "a": "succeeded",
        "b": "dead",
        "c": "succeeded",
        "d": "skipped",
        "e": "skipped",
    }
    assert run["d"]["reason"] == run["e"]["reason"] == f"upstream_failed: b@{NOW}"
    assert "heard" not in run["d"]


async def test_a_run_leaves_out_what_has_times_of_its_own(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await after(client, "e", "d", match="latest")
    await after(client, "f", "e")
    assert [*await states(client, "a", NOW)] == ["a", "b", "c", "d"]
    assert [*await states(client, "b", NOW)] == ["b", "d"]


async def test_a_gated_run_waits_for_its_upstream_jobs(
    client: httpx.AsyncClient, flow: Flow, clock: ManualClock
) -> None:
    await root(client, "a")
    due = "2027-01-15T08:00:01Z"
    await after(client, "g", "a", schedule_expr=due, gate=True, gate_deadline_ms=60_000)
    clock.advance(1_000)
    await flow.work()
    run = (await run_of(client, "a", due))["g"]
    assert (run["status"], run["heard"], run["awaited"]) == ("waiting_for_upstream", {}, ["a"])
    await flow.start("a")
    await flow.work()
    assert await states(client, "a", due) == {"a": "succeeded", "g": "succeeded"}


async def test_a_run_is_cut_where_it_is_too_large(client: httpx.AsyncClient, store: Store) -> None:
    await diamond(client)
    cut = await graphs.read_descent(store, "a", 3)
    assert (cut.is_cut, [*cut.nodes]) == (True, ["a", "b", "c"])


# Running it again


async def test_an_execution_is_run_again_alone(client: httpx.AsyncClient, flow: Flow) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work()
    flow.take()
    answer = await again(client, "b", NOW)
    assert (answer.status_code, answer.json()) == (
        202,
        {"execution_id": f"b@{NOW}", "attempt": 2, "downstream": []},
    )
    await flow.work()
    assert flow.ran == [("b", 2)]
    assert await states(client, "a", NOW) == dict.fromkeys("abcd", "succeeded")


async def test_what_is_below_runs_again_once_with_the_next_attempt(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await after(client, "e", "d")
    await flow.start("a")
    await flow.work()
    flow.take()
    answer = await again(client, "a", NOW, downstream=True)
    assert answer.json()["downstream"] == ["b", "c", "d", "e"]
    waits = await states(client, "a", NOW)
    assert waits == {"a": "retrying", **dict.fromkeys("bcde", "waiting_for_upstream")}
    await flow.work()
    assert sorted(flow.ran) == [(name, 2) for name in "abcde"]
    assert await states(client, "a", NOW) == dict.fromkeys("abcde", "succeeded")
    flow.take()
    await flow.work()
    assert flow.ran == []


async def test_a_rerun_from_the_middle_takes_the_rest_as_it_was(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work()
    flow.take()
    assert (await again(client, "b", NOW, downstream=True)).json()["downstream"] == ["d"]
    await flow.work({"b": {"status": "succeeded", "result": 7}})
    assert flow.ran == [("b", 2), ("d", 2)]
    assert flow.claimed[-1]["upstream"] == {"b": 7}


async def test_a_rerun_that_ends_well_releases_what_had_failed_below(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work({"b": DEAD})
    flow.take()
    assert (await again(client, "b", NOW, downstream=True)).status_code == 202
    await flow.work()
    assert flow.ran == [("b", 2), ("d", 1)]
    assert (await client.get("/v1/dead")).json() == []
    assert await states(client, "a", NOW) == dict.fromkeys("abcd", "succeeded")


async def test_a_rerun_that_fails_this_time_keeps_what_is_below_from_running(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work()
    flow.take()
    await again(client, "b", NOW, downstream=True)
    await flow.work({"b": DEAD})
    assert flow.ran == [("b", 2)]
    assert await states(client, "a", NOW) == {
        "a": "succeeded",
        "b": "dead",
        "c": "succeeded",
        "d": "skipped",
    }


async def test_a_rerun_counts_a_failed_upstream_job_for_what_waits_for_failures(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await after(client, "b", "a")
    await after(client, "c", "a")
    await after(client, "d", "b", {"job": "c", "condition": "failed"})
    await flow.start("a")
    await flow.work({"c": DEAD})
    assert flow.take() == ["a", "b", "c", "d"]
    await again(client, "b", NOW, downstream=True)
    await flow.work()
    assert flow.ran == [("b", 2), ("d", 2)]


async def test_a_rerun_takes_it_that_what_has_left_the_history_was_as_it_had_to_be(
    client: httpx.AsyncClient, flow: Flow, store: Store
) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work()
    flow.take()
    await store.client.delete(store.layout.shard_of("c").runs("c"))
    await again(client, "b", NOW, downstream=True)
    await flow.work()
    assert flow.ran == [("b", 2), ("d", 2)]


async def test_a_skipped_execution_can_be_run_after_all(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work({"b": DEAD})
    flow.take()
    assert (await again(client, "d", NOW)).json()["attempt"] == 1
    await flow.work()
    assert flow.ran == [("d", 1)]
    assert (await states(client, "a", NOW))["d"] == "succeeded"


async def test_a_rerun_is_refused_while_any_of_it_is_live(
    client: httpx.AsyncClient, flow: Flow, keyspace: Read
) -> None:
    await diamond(client)
    await flow.start("a")
    await flow.work({"b": {}})
    before = await keyspace()
    answer = await again(client, "a", NOW, downstream=True)
    assert f"b@{NOW}" in refused(answer, 409, "wrong_state")["detail"]
    refused(await again(client, "b", NOW, downstream=True), 409, "wrong_state")
    assert await keyspace() == before
    assert (await again(client, "a", NOW)).status_code == 202


async def test_a_rerun_leaves_gated_jobs_and_those_below_them_alone(
    client: httpx.AsyncClient, flow: Flow
) -> None:
    await root(client, "a")
    await after(client, "g", "a", schedule_expr=FAR, gate=True)
    await after(client, "h", "g")
    await after(client, "b", "a")
    await flow.start("a")
    await flow.work()
    answer = await again(client, "a", NOW, downstream=True)
    assert answer.json()["downstream"] == ["b"]


@pytest.mark.parametrize(
    ("execution", "status", "code"),
    [
        (f"a@{NOW}", 409, "wrong_state"),
        (f"nobody@{NOW}", 404, "not_found"),
        ("a", 404, "not_found"),
    ],
)
async def test_what_has_not_run_is_not_run_again(
    client: httpx.AsyncClient, keyspace: Read, execution: str, status: int, code: str
) -> None:
    await root(client, "a")
    before = await keyspace()
    refused(await client.post(f"/v1/executions/{execution}/rerun"), status, code)
    assert await keyspace() == before
