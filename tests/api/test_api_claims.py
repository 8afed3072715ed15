"""Claims over HTTP: many at once, several queues, priorities, and what a claim ends."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import (
    AT_ONCE,
    MINUTE,
    NOW,
    Read,
    claim,
    claims,
    create,
    create_many,
    job_ids,
    let_lease_run_out,
    pointers,
    refused,
)
from seeding import fire

from engine.clock import ManualClock
from engine.store import Store
from engine.store.executions import Answer, complete_executions, ensure_groups, read_ready
from engine.store.limits import QueueSettings, write_queue
from engine.store.outcomes import accepted

clock = calling.clock
keyspace = calling.keyspace
client = calling.client

CLAIM = "/internal/executions/claim"


# Many at once


async def test_a_claim_of_several_is_answered_with_an_array_of_no_more(
    client: httpx.AsyncClient,
) -> None:
    await create_many(client, 5)
    first = await claims(client, max=3)
    rest = await claims(client, max=3)
    assert (len(first), len(rest)) == (3, 2)
    assert sorted(job_ids(first + rest)) == [f"mail-{n}" for n in range(5)]
    assert await claims(client) == []


async def test_each_of_several_ends_by_its_own_lease(client: httpx.AsyncClient) -> None:
    await create_many(client, 2)
    for claimed in await claims(client):
        answer = await client.post(
            f"/internal/executions/{claimed['execution_id']}/complete",
            json={"status": "succeeded", "lease": claimed["lease"]},
        )
        assert answer.json()["already"] is False


async def test_the_urgent_are_handed_over_first(client: httpx.AsyncClient, store: Store) -> None:
    for priority in ("low", "normal", "high"):
        await create_many(client, 4, priority, priority=priority)
    ids = [name.partition("-")[0] for name in job_ids(await claims(client))]
    assert ids == ["high"] * 4 + ["normal"] * 4 + ["low"] * 4


async def test_the_urgent_go_before_what_others_left_of_the_rest(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, {**AT_ONCE, "priority": "low"})
    await claim(client)
    await let_lease_run_out(store, "default:low")
    await create(client, {**AT_ONCE, "job_id": "urgent", "priority": "high"})
    await create(client, {**AT_ONCE, "job_id": "idle", "priority": "low"})
    assert job_ids(await claims(client, worker="w2")) == ["urgent", "mail", "idle"]


@pytest.mark.parametrize("priority", ["high", "low"])
async def test_an_execution_of_any_priority_is_kept_and_completed(
    client: httpx.AsyncClient, priority: str
) -> None:
    await create(client, {**AT_ONCE, "priority": priority})
    claimed = await claim(client)
    path = f"/internal/executions/{claimed['execution_id']}"
    lease = {"lease": claimed["lease"]}
    assert (await client.post(f"{path}/heartbeat", json=lease)).status_code == 200
    answer = await client.post(f"{path}/complete", json={"status": "succeeded", **lease})
    assert answer.json()["status"] == "succeeded"


# Several queues


async def test_queues_take_turns(client: httpx.AsyncClient) -> None:
    for queue in ("a", "b"):
        await create_many(client, 4, queue, queue=queue)
    taken = [job_ids(await claims(client, queues=["a", "b"], max=1))[0][0] for _ in range(6)]
    assert taken in (["a", "b"] * 3, ["b", "a"] * 3)


async def test_a_claim_of_several_goes_on_in_the_next_queue(client: httpx.AsyncClient) -> None:
    await create_many(client, 1, "a", queue="a")
    await create_many(client, 1, "b", queue="b")
    assert sorted(job_ids(await claims(client, queues=["a", "none", "b"]))) == ["a-0", "b-0"]


async def test_no_shard_is_served_last_for_ever(client: httpx.AsyncClient, store: Store) -> None:
    # More than enough for each shard, and two queues, so that turns of both are mixed.
    await create_many(client, 40)
    first = [job_ids(await claims(client, queues=["default", "other"], max=1)) for _ in range(16)]
    shards = {store.layout.shard_of(job_id).index for [job_id] in first}
    assert shards == set(range(len(store.layout.shards)))


async def test_a_paused_queue_hands_out_nothing(client: httpx.AsyncClient, store: Store) -> None:
    await create(client, AT_ONCE)
    await write_queue(store, "default", QueueSettings(paused=True))
    assert (await client.post(CLAIM, json={"worker": "w1"})).status_code == 204
    await write_queue(store, "default", QueueSettings())
    store.limits = None
    assert (await claim(client))["job_id"] == "mail"


# Refusals


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"max": 0}, "/max"),
        ({"max": 101}, "/max"),
        ({"max": "5"}, "/max"),
        ({"wait_ms": -1}, "/wait_ms"),
        ({"wait_ms": 30_001}, "/wait_ms"),
        ({"queues": []}, "/queues"),
        ({"queues": ["a"] * 2}, "/queues"),
        ({"queues": [f"q{n}" for n in range(21)]}, "/queues"),
        ({"queues": ["a", "b:high"]}, "/queues/1"),
        ({"queue": "a", "queues": ["b"]}, "/queues"),
        ({"queue": "a:high"}, "/queue"),
    ],
)
async def test_a_wrong_claim_names_the_field_and_takes_nothing(
    client: httpx.AsyncClient, keyspace: Read, body: dict[str, Any], pointer: str
) -> None:
    await create(client, AT_ONCE)
    before = await keyspace()
    answer = await client.post(CLAIM, json={"worker": "w1", **body})
    assert pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert await keyspace() == before


# What a claim ends by itself


HTTP = {"type": "http", "url": "https://example.com/", "respond_async": True}


async def lapse(client: httpx.AsyncClient, store: Store, clock: ManualClock, **retry: Any) -> None:
    """Create a job whose target has promised to report on its attempt, and let that lapse."""
    policy = {"base_ms": 5_000, "jitter": "none", **retry}
    await create(client, {**AT_ONCE, "target": HTTP, "retry": policy})
    shard = store.layout.shard_of("mail")
    await ensure_groups(store, "http")
    [delivery] = await read_ready(store, [("http", shard)], "w0", 1, block=False)
    promised = accepted(
        delivery, started_at=NOW, duration_ms=5, status_code=202, lapses_at=NOW + MINUTE
    )
    assert await complete_executions(store, [promised], NOW) == [Answer.DONE]
    clock.advance(MINUTE)
    await fire(store, shard, NOW + MINUTE)


async def test_what_lapsed_is_ended_as_failed_and_never_handed_over(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await lapse(client, store, clock)
    await create(client, {**AT_ONCE, "job_id": "other", "target": HTTP})
    assert job_ids(await claims(client, queue="http")) == ["other"]
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    [attempt] = execution["attempts"]
    assert attempt["error"] == "timeout: the target fell silent"
    assert (execution["status"], attempt["outcome"]) == ("retrying", "failed")
    assert execution["retry_at"] == "2027-01-15T08:01:05.000Z"


async def test_what_lapsed_counts_as_a_timeout_for_the_retry_policy(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await lapse(client, store, clock, on=["5xx"])
    assert await claims(client, queue="http") == []
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    assert execution["status"] == "dead"


async def test_a_full_claim_makes_up_for_what_it_ended_itself(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create_many(client, 8, "late", expires_after_ms=1_000)
    await create_many(client, 8, "good")
    clock.advance(1_000)
    found = job_ids(await claims(client, max=8))
    assert sorted(found) == [f"good-{n}" for n in range(8)]
