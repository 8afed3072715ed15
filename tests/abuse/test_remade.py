"""Jobs made anew while an execution of the old one runs: row 64 of the list of abuses."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from calling import AT_ONCE, claim, create, eventually, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace

from engine.store import Store

Claimed = dict[str, Any]


async def again(client: httpx.AsyncClient, store: Store) -> tuple[Claimed, dict[str, Any]]:
    """Claim a job's execution, delete the job, and make it anew in the same millisecond, where what
    keeps their ids apart is lost, as on a server whose clock is far behind the last one's: its
    execution has the very id of the one that still runs. Return what was claimed, and the new
    job."""
    await create(client, AT_ONCE)
    old = await claim(client)
    assert (await client.delete("/v1/jobs/mail")).status_code == 204
    await store.client.delete(store.layout.shard_of("mail").ran_at)
    new = await create(client, AT_ONCE)
    assert new["execution_id"] == old["execution_id"]
    return old, new


async def end(client: httpx.AsyncClient, claimed: Claimed, status: str) -> httpx.Response:
    path = f"/internal/executions/{claimed['execution_id']}/complete"
    return await client.post(path, json={"status": status, "lease": claimed["lease"]})


@pytest.mark.parametrize("method", ["POST", "PUT", "bulk"])
async def test_row_64_a_job_made_anew_while_its_execution_runs_has_another_one(
    client: httpx.AsyncClient, method: str
) -> None:
    await create(client, AT_ONCE)
    old = await claim(client)
    by_hand = (await client.post("/v1/jobs/mail/run")).json()["execution_id"]
    assert (await client.delete("/v1/jobs/mail")).status_code == 204
    if method == "bulk":
        lines = {"Content-Type": "application/x-ndjson"}
        answer = await client.post("/v1/jobs/bulk", content=json.dumps(AT_ONCE), headers=lines)
        assert answer.json()["status"] == 201
    else:
        path = "/v1/jobs" if method == "POST" else "/v1/jobs/mail"
        answer = await client.request(method, path, json=AT_ONCE)
        assert answer.status_code == 201
    new = await claim(client, "w2")
    if method != "bulk":
        assert answer.json()["execution_id"] == new["execution_id"]
    again = (await client.post("/v1/jobs/mail/run")).json()["execution_id"]
    assert len({old["execution_id"], by_hand, new["execution_id"], again}) == 4
    await end(client, old, "failed")
    shown = (await client.get(f"/v1/executions/{new['execution_id']}")).json()
    assert (shown["status"], shown["attempts"]) == ("running", [])
    refused(await client.get(f"/v1/executions/{old['execution_id']}"), 404, "not_found")


@pytest.mark.parametrize("status", ["succeeded", "failed"])
async def test_row_64_the_end_of_a_deleted_jobs_execution_is_not_that_of_the_new_one(
    client: httpx.AsyncClient, store: Store, status: str
) -> None:
    old, _ = await again(client, store)
    before = (await client.get("/v1/jobs/mail")).json()
    await end(client, old, status)
    assert (await client.get("/v1/jobs/mail")).json() == before
    shown = (await client.get(f"/v1/executions/{old['execution_id']}")).json()
    assert (shown["status"], shown["attempts"]) == ("waiting", [])
    new = await claim(client, "w2")
    assert (new["execution_id"], new["deliveries"]) == (old["execution_id"], 1)
    assert (await end(client, new, "succeeded")).status_code == 200
    shown = (await client.get(f"/v1/executions/{old['execution_id']}")).json()
    assert [one["worker"] for one in shown["attempts"]] == ["w2"]


async def test_row_64_the_lease_of_a_deleted_jobs_execution_is_none_of_the_new_one(
    client: httpx.AsyncClient,
    store: Store,
) -> None:
    old, _ = await again(client, store)
    new = await claim(client, "w2")
    assert new["lease"] != old["lease"]
    assert (await end(client, new, "succeeded")).status_code == 200
    await end(client, old, "failed")
    shown = (await client.get(f"/v1/executions/{old['execution_id']}")).json()
    assert (shown["status"], len(shown["attempts"])) == ("succeeded", 1)


async def test_row_64_cancelling_the_new_one_leaves_the_old_ones_worker_nothing_to_end(
    client: httpx.AsyncClient,
    store: Store,
) -> None:
    old, _ = await again(client, store)
    answer = await client.post(f"/v1/executions/{old['execution_id']}/cancel")
    assert answer.status_code == 200, answer.text
    await end(client, old, "succeeded")
    shown = (await client.get(f"/v1/executions/{old['execution_id']}")).json()
    assert shown["status"] == "cancelled"
    empty = await client.post("/internal/executions/claim", json={"worker": "w2"})
    assert empty.status_code == 204


async def test_row_64_a_run_by_hand_in_the_same_millisecond_is_another_execution(
    client: httpx.AsyncClient,
    store: Store,
) -> None:
    await again(client, store)
    run = (await client.post("/v1/jobs/mail/run")).json()["execution_id"]
    claimed = {(await claim(client, worker))["execution_id"] for worker in ("w2", "w3")}
    assert len(claimed) == 2
    assert run in claimed


async def test_row_64_what_a_silent_worker_held_of_the_old_one_is_given_to_nobody(
    client: httpx.AsyncClient, store: Store
) -> None:
    old, _ = await again(client, store)
    ready = store.layout.shard_of("mail").ready("default")
    [row] = await store.client.xpending_range(ready, "workers", "-", "+", 1)
    held = [row["message_id"]]
    await store.client.xclaim(ready, "workers", "w1", 0, held, idle=60_000, justid=True)
    taken = [await claim(client, "w2")]

    async def nothing_is_left() -> bool:
        answer = await client.post("/internal/executions/claim", json={"worker": "w2"})
        if answer.status_code == 200:
            taken.append(answer.json())
        return answer.status_code == 204

    await eventually(nothing_is_left)
    fresh = [one for one in taken if one["deliveries"] == 1]
    assert [one["execution_id"] for one in fresh] == [old["execution_id"]]
    for one in taken:
        await end(client, one, "succeeded")
    shown = (await client.get(f"/v1/executions/{old['execution_id']}")).json()
    assert (shown["status"], len(shown["attempts"])) == ("succeeded", 1)
