"""Keys that are restricted to groups: what they make, and what they meet of others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from burying import delivered, die
from calling import NOW, Read, refused
from calling import clock as clock
from calling import keyspace as keyspace
from keyed import (
    ABSENT,
    FOREIGN,
    World,
    bearer,
    job,
    link,
    make_key,
    move_to,
    settle_foreign,
    told,
)
from keyed import world as world
from test_api_events import Ear
from test_api_server import serving

from api import events, gate
from engine.clock import ManualClock
from engine.store import Store

# Making things


async def test_a_job_is_of_the_keys_one_group_unless_it_says_so(world: World) -> None:
    client, key = world.client, bearer(world.keys["a"])
    for body in (job("one"), job("two", group="a")):
        made = await client.post("/v1/jobs", json=body, headers=key)
        assert (made.status_code, made.json()["group"]) == (201, "a")
    refused(await client.post("/v1/jobs", json=job("x", group="b"), headers=key), 403, "forbidden")


async def test_a_key_of_several_groups_names_one(world: World) -> None:
    client, key = world.client, bearer(world.keys["a and c"])
    answer = await client.post("/v1/jobs", json=job("one"), headers=key)
    problem = refused(answer, 400, "bad_input")
    assert problem["errors"][0]["pointer"] == "/group"
    assert "a, c" in problem["detail"]
    made = await client.post("/v1/jobs", json=job("one", group="c"), headers=key)
    assert made.json()["group"] == "c"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_job_is_not_moved_into_a_group_of_others(world: World, method: str) -> None:
    client, key = world.client, bearer(world.keys["a"])
    await client.post("/v1/jobs", json=job("mine"), headers=key)
    for group in ("b", "z"):
        body = job("mine", group=group) if method == "PUT" else {"group": group}
        answer = await client.request(method, "/v1/jobs/mine", json=body, headers=key)
        refused(answer, 403, "forbidden")
    kept = await client.patch("/v1/jobs/mine", json={"group": None}, headers=key)
    assert kept.json()["group"] == "a"


@pytest.mark.parametrize("line", [False, True], ids=["put", "bulk"])
async def test_an_id_of_others_is_taken_and_their_job_stays(
    world: World, store: Store, keyspace: Read, line: bool
) -> None:
    await settle_foreign(world, store)
    before, client, key = await keyspace(), world.client, bearer(world.keys["a"])
    refused(await client.post("/v1/jobs", json=job(FOREIGN), headers=key), 409, "job_exists")
    if line:
        key["Content-Type"] = "application/x-ndjson"
        content = httpx.Request("POST", "http://x", json=job(FOREIGN)).content
        path = "/v1/jobs/bulk?on_conflict=replace"
        answer = await client.post(path, content=content, headers=key)
        assert (answer.json()["status"], answer.json()["code"]) == (409, "job_exists")
    else:
        answer = await client.put(f"/v1/jobs/{FOREIGN}", json=job(FOREIGN), headers=key)
        refused(answer, 409, "job_exists")
    assert await keyspace() == before


async def test_bulk_keeps_to_groups_line_by_line(world: World, store: Store) -> None:
    key = {**bearer(world.keys["a"]), "Content-Type": "application/x-ndjson"}
    bodies = [job("one"), job("two", group="b"), job("three", group="a")]
    content = b"\n".join(httpx.Request("POST", "http://x", json=body).content for body in bodies)
    answer = await world.client.post("/v1/jobs/bulk", content=content, headers=key)
    assert [line.count('"status":201') for line in answer.text.splitlines()] == [1, 0, 1]
    assert '"code":"forbidden"' in answer.text.splitlines()[1]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_job_of_others_cannot_be_depended_on(
    world: World, store: Store, keyspace: Read, method: str
) -> None:
    await settle_foreign(world, store)
    client, key = world.client, bearer(world.keys["a"])
    if method != "POST":
        await client.post("/v1/jobs", json=job("mine"), headers=key)
    before, answers = await keyspace(), []
    for upstream in (FOREIGN, ABSENT):
        path = "/v1/jobs" if method == "POST" else "/v1/jobs/mine"
        body: dict[str, Any] = {"depends_on": [upstream], "schedule_expr": None}
        body = body if method == "PATCH" else {**job("mine"), **body}
        answer = await client.request(method, path, json=body, headers=key)
        assert refused(answer, 400, "bad_input")["errors"][0]["pointer"] == "/depends_on/0"
        answers.append(told(answer, upstream))
    assert answers[0] == answers[1]
    body = {**job("mine"), "schedule_expr": None, "depends_on": [ABSENT], "allow_missing": True}
    refused(await client.put("/v1/jobs/mine", json=body, headers=key), 403, "forbidden")
    assert await keyspace() == before


# The graph


async def test_a_graph_shows_own_jobs_alone(world: World) -> None:
    await link(world, "top", "a")
    await link(world, "theirs", "b", "top")
    await link(world, "mine", "a", "top")
    client, key = world.client, bearer(world.keys["a"])
    around = (await client.get("/v1/jobs/top/graph", headers=key)).json()
    assert [node["job_id"] for node in around["nodes"]] == ["top", "mine"]
    assert [(edge["from"], edge["to"]) for edge in around["edges"]] == [("top", "mine")]
    run = await client.get(f"/v1/graphs/top/runs/{NOW}", headers=key)
    assert "theirs" not in run.text
    assert "mine" in run.text


async def test_a_job_is_not_deleted_under_jobs_of_others(world: World, keyspace: Read) -> None:
    await link(world, "top", "a")
    await link(world, "middle", "a", "top")
    await link(world, "theirs", "b", "middle")
    client, key, before = world.client, bearer(world.keys["a"]), await keyspace()
    for path in ("top?dependents=cascade", "middle?dependents=detach", "middle"):
        answer = await client.delete(f"/v1/jobs/{path}", headers=key)
        assert "theirs" not in refused(answer, 409, "has_dependents")["detail"]
    assert await keyspace() == before


async def test_a_rerun_goes_past_jobs_of_others(world: World, store: Store) -> None:
    await link(world, "top", "a")
    await link(world, "theirs", "b", "top")
    await link(world, "mine", "a", "top")
    client, key = world.client, bearer(world.keys["a"])
    run = (await client.post("/v1/jobs/top/run", headers=key)).json()["execution_id"]
    await die(store, await delivered(store, "top"))
    answer = await client.post(
        f"/v1/executions/{run}/rerun", json={"downstream": True}, headers=key
    )
    assert (answer.status_code, answer.json()["downstream"]) == (202, ["mine"])
    theirs = store.layout.shard_of("theirs").arrivals("theirs", run.partition("@")[2])
    assert not await store.client.exists(theirs)


async def test_letters_of_a_deleted_job_are_not_of_the_next_one_of_its_id(
    world: World, store: Store, clock: ManualClock
) -> None:
    await settle_foreign(world, store)
    client, key = world.client, bearer(world.keys["a"])
    await client.delete(f"/v1/jobs/{FOREIGN}", headers=bearer(world.keys["b"]))
    move_to(clock, NOW + 1_000)
    assert (await client.post("/v1/jobs", json=job(FOREIGN), headers=key)).status_code == 201
    assert (await client.get("/v1/dead", headers=key)).json() == []
    refused(await client.get(f"/v1/dead/{FOREIGN}@{NOW}", headers=key), 404, "not_found")


@pytest.mark.parametrize("method", ["POST", "PUT", "BULK"])
async def test_a_circle_through_jobs_of_others_is_refused_and_not_spelled_out(
    world: World, method: str
) -> None:
    await link(world, "mine", "a")
    await link(world, "theirs", "b", "mine")
    await link(world, "own", "a", "theirs")
    client, admin = world.client, bearer(world.keys["admin"])
    if method != "PUT":
        assert (await client.delete("/v1/jobs/mine?dependents=detach", headers=admin)).is_success
        body = {**job("theirs", group="b"), "schedule_expr": None}
        body |= {"depends_on": ["mine"], "allow_missing": True}
        assert (await client.put("/v1/jobs/theirs", json=body, headers=admin)).is_success
    circle = {**job("mine"), "schedule_expr": None, "depends_on": ["own"]}
    key = bearer(world.keys["a"])
    if method == "BULK":
        key["Content-Type"] = "application/x-ndjson"
        content = httpx.Request("POST", "http://x", json=circle).content
        answer = await client.post("/v1/jobs/bulk", content=content, headers=key)
        assert '"code":"cycle"' in answer.text
    else:
        path = "/v1/jobs/mine" if method == "PUT" else "/v1/jobs"
        answer = await client.request(method, path, json=circle, headers=key)
        refused(answer, 409, "cycle")
    assert "theirs" not in answer.text


# A stream


async def test_a_listener_hears_of_its_groups_alone_and_only_while_its_key_is_good(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "LOOK_S", 0)
    monkeypatch.setattr(events, "PULSE_S", 0.01)
    admin, listening = await make_key(store), await make_key(store, "read", groups=("b",))
    keyed = replace(store, config=store.config.model_copy(update={"auth": "required"}))
    async with (
        serving(keyed, asyncio.Event()) as (port, _),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=bearer(admin)) as client,
        client.stream("GET", "/v1/events", headers=bearer(listening)) as stream,
    ):
        ear = Ear(stream)
        for name, group in (("mine", "a"), ("theirs", "b")):
            answer = await client.post("/v1/jobs", json=job(name, group=group))
            assert answer.status_code == 201
        [(_, event, _)] = await ear.next()
        assert event["job_id"] == "theirs"
        await client.delete(f"/v1/keys/{listening[4:20]}")
        assert await ear.next() == []  # it has ended
