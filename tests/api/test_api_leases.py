"""Leases over HTTP: only who holds one ends its execution, and only once."""

from __future__ import annotations

import base64
import json
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, NOW, Read, claim, create, pointers, refused

from engine.clock import ManualClock
from engine.keys import GROUP
from engine.store import Store

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

EXECUTION = f"mail@{NOW}"
COMPLETE = f"/internal/executions/{EXECUTION}/complete"


async def let_leases_run_out(store: Store) -> None:
    """Make every delivery of the default queue as old as its lease: the server's clock is real."""
    for shard in store.layout.shards:
        ready = shard.ready("default")
        if not await store.client.exists(ready):
            continue
        for row in await store.client.xpending_range(ready, GROUP, "-", "+", 100):
            # JUSTID, or the claim would count as a delivery.
            await store.client.xclaim(
                ready,
                GROUP,
                row["consumer"],
                0,
                [row["message_id"]],
                idle=store.config.execution_lease_ms,
                justid=True,
            )


@pytest.mark.parametrize(("status", "shown"), [("succeeded", "succeeded"), ("failed", "retrying")])
async def test_the_same_outcome_sent_again_is_already_recorded(
    client: httpx.AsyncClient, keyspace: Read, status: str, shown: str
) -> None:
    await create(client, AT_ONCE)
    outcome = {"status": status, "lease": (await claim(client))["lease"]}
    await client.post(COMPLETE, json=outcome)
    before = await keyspace()
    answer = await client.post(COMPLETE, json=outcome)
    assert answer.status_code == 200
    assert answer.json() == {"execution_id": EXECUTION, "status": shown, "already": True}
    assert await keyspace() == before


async def test_another_outcome_after_the_first_is_stale(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await create(client, AT_ONCE)
    lease = (await claim(client))["lease"]
    await client.post(COMPLETE, json={"status": "failed", "lease": lease})
    before = await keyspace()
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": lease})
    refused(answer, 409, "stale_delivery")
    assert await keyspace() == before


async def test_who_lost_the_lease_changes_nothing_and_the_new_holder_completes(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await create(client, AT_ONCE)
    lost = await claim(client, "slow")
    await let_leases_run_out(store)
    taken = await claim(client, "quick")
    assert taken["execution_id"] == lost["execution_id"]
    assert (taken["attempt"], taken["deliveries"]) == (1, 2)
    before = await keyspace()
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": lost["lease"]})
    refused(answer, 409, "stale_delivery")
    assert await keyspace() == before
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": taken["lease"]})
    assert answer.json()["already"] is False


async def test_a_worker_that_takes_its_own_execution_over_cannot_end_the_old_delivery(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, AT_ONCE)
    lost = await claim(client, "w1")
    await let_leases_run_out(store)
    await claim(client, "w1")
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": lost["lease"]})
    refused(answer, 409, "stale_delivery")


async def test_stale_deliveries_are_handed_over_before_new_ones_and_one_at_a_time(
    client: httpx.AsyncClient, store: Store
) -> None:
    for n in range(3):
        await create(client, {**AT_ONCE, "job_id": f"old-{n}"})
        await claim(client)
    await let_leases_run_out(store)
    for n in range(3):
        await create(client, {**AT_ONCE, "job_id": f"new-{n}"})
    taken = [await claim(client, "w2") for _ in range(6)]
    assert [claimed["deliveries"] for claimed in taken] == [2, 2, 2, 1, 1, 1]
    assert len({claimed["job_id"] for claimed in taken}) == 6


async def test_a_lease_that_has_not_run_out_is_not_taken_over(client: httpx.AsyncClient) -> None:
    await create(client, AT_ONCE)
    await claim(client)
    answer = await client.post("/internal/executions/claim", json={"worker": "w2"})
    assert answer.status_code == 204


async def test_a_lease_opens_no_other_execution(client: httpx.AsyncClient, keyspace: Read) -> None:
    await create(client, AT_ONCE)
    lease = (await claim(client))["lease"]
    before = await keyspace()
    for other in (f"mail@{NOW + 1}", "other@1", "@"):
        answer = await client.post(
            f"/internal/executions/{other}/complete", json={"status": "succeeded", "lease": lease}
        )
        refused(answer, 409, "stale_delivery")
    assert await keyspace() == before


async def test_a_lease_of_before_a_flush_is_stale(client: httpx.AsyncClient, store: Store) -> None:
    await create(client, AT_ONCE)
    lease = (await claim(client))["lease"]
    await store.client.flushdb()
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": lease})
    refused(answer, 409, "stale_delivery")


PROOF = [0, "default", "1-0", "w1", 1, EXECUTION, 1, NOW, None, None, 0]
"""Of a lease: shard, stream, entry, consumer, deliveries, execution, attempt, due time, retry, when
the first attempt began, attempts that do not count."""


def forged(store: Store, changed: dict[int, Any]) -> str:
    proof = [*PROOF]
    proof[0] = store.layout.shard_of("mail").index
    for place, value in changed.items():
        proof[place] = value
    text = base64.urlsafe_b64encode(json.dumps(proof).encode()).decode().rstrip("=")
    return f"{text}.{NOW}"


@pytest.mark.parametrize("stream", ["default", "default:high", "default:low"])
async def test_a_lease_that_was_never_given_is_stale(
    client: httpx.AsyncClient, store: Store, keyspace: Read, stream: str
) -> None:
    await create(client, AT_ONCE)
    await claim(client)
    before = await keyspace()
    lease = forged(store, {1: stream})
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": lease})
    refused(answer, 409, "stale_delivery")
    assert await keyspace() == before


@pytest.mark.parametrize(
    "changed",
    [
        {0: 99},
        {0: -1},
        {0: True},
        {1: "a}b"},
        {1: ""},
        {1: "default:urgent"},
        {1: "default:high:low"},
        {2: "newest"},
        {2: "-"},
        {3: 'w"1'},
        {4: 0},
        {4: 2**40},
        {5: "mail"},
        {5: "mail@x"},
        {6: 0},
        {6: "1"},
        {8: {"max_attempts": 0}},
        {8: {"unknown": 1}},
        {8: [1]},
        {9: -1},
        {9: 10**15},
        {9: "1"},
        {10: -1},
        {10: 1},
        {10: None},
    ],
)
async def test_what_cannot_be_a_lease_is_bad_input(
    client: httpx.AsyncClient, store: Store, keyspace: Read, changed: dict[int, Any]
) -> None:
    await create(client, AT_ONCE)
    before = await keyspace()
    body = {"status": "succeeded", "lease": forged(store, changed)}
    assert pointers(refused(await client.post(COMPLETE, json=body), 400, "bad_input")) == ["/lease"]
    assert await keyspace() == before


@pytest.mark.parametrize("lease", ["", ".", "x", "!.1", "é.1", "W10.1", "W10.", "bnVsbA.1"])
async def test_garbage_is_no_lease(client: httpx.AsyncClient, lease: str) -> None:
    answer = await client.post(COMPLETE, json={"status": "failed", "lease": lease})
    assert pointers(refused(answer, 400, "bad_input")) == ["/lease"]


async def test_a_heartbeat_keeps_the_lease_and_a_lost_one_is_told(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await create(client, AT_ONCE)
    held = await claim(client, "slow")
    await let_leases_run_out(store)
    beat = f"/internal/executions/{EXECUTION}/heartbeat"
    answer = await client.post(beat, json={"lease": held["lease"]})
    assert (answer.status_code, answer.json()) == (200, {"lease_ms": held["lease_ms"]})
    nothing = await client.post("/internal/executions/claim", json={"worker": "quick"})
    assert nothing.status_code == 204
    await let_leases_run_out(store)
    await claim(client, "quick")
    before = await keyspace()
    refused(await client.post(beat, json={"lease": held["lease"]}), 409, "stale_delivery")
    other = f"/internal/executions/other@{NOW}/heartbeat"
    refused(await client.post(other, json={"lease": held["lease"]}), 409, "stale_delivery")
    refused(await client.post(beat, json={"lease": "nonsense"}), 400, "bad_input")
    assert await keyspace() == before


async def test_an_execution_that_expired_is_recorded_and_not_handed_over(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, {**AT_ONCE, "expires_after_ms": 1_000})
    await create(client, {**AT_ONCE, "job_id": "other"})
    clock.advance(1_000)
    assert (await claim(client))["job_id"] == "other"
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    assert (execution["status"], execution["reason"]) == ("skipped", "expired")
