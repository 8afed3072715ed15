"""heartbeat_executions: only who holds a delivery extends it."""

from __future__ import annotations

from dataclasses import replace

from invariants import read_shard
from seeding import result, start

from engine.execution import Delivery
from engine.keys import Shard
from engine.store import Store
from engine.store.executions import complete_executions, heartbeat_executions

LONG_MS = 60_000


async def fall_silent(store: Store, delivery: Delivery) -> None:
    """Make the delivery look as if nobody had extended it for a minute."""
    await store.client.xclaim(
        shard_of(store, delivery).ready(delivery.queue),
        "workers",
        delivery.consumer,
        0,
        [delivery.entry_id],
        idle=LONG_MS,
        justid=True,
    )


async def idle_ms(store: Store, delivery: Delivery) -> int:
    ready = shard_of(store, delivery).ready(delivery.queue)
    [row] = await store.client.xpending_range(ready, "workers", "-", "+", 1)
    return int(row["time_since_delivered"])


def shard_of(store: Store, delivery: Delivery) -> Shard:
    return store.layout.shards[delivery.shard]


async def test_a_heartbeat_starts_the_lease_anew_and_keeps_the_proof(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await fall_silent(any_store, delivery)
    before = await read_shard(any_store, shard_of(any_store, delivery))
    assert await heartbeat_executions(any_store, [delivery]) == [True]
    assert await idle_ms(any_store, delivery) < LONG_MS
    assert await read_shard(any_store, shard_of(any_store, delivery)) == before


async def test_a_heartbeat_does_not_steal_a_delivery_back(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    ready = shard_of(any_store, delivery).ready("default")
    await any_store.client.xclaim(ready, "workers", "w2", 0, [delivery.entry_id])
    await fall_silent(any_store, replace(delivery, consumer="w2"))
    before = await read_shard(any_store, shard_of(any_store, delivery))
    assert await heartbeat_executions(any_store, [delivery]) == [False]
    assert await idle_ms(any_store, delivery) >= LONG_MS
    assert await read_shard(any_store, shard_of(any_store, delivery)) == before


async def test_a_heartbeat_with_an_old_delivery_count_extends_nothing(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await fall_silent(any_store, delivery)
    assert await heartbeat_executions(any_store, [replace(delivery, deliveries=2)]) == [False]
    assert await idle_ms(any_store, delivery) >= LONG_MS


async def test_an_ended_execution_has_no_heartbeat(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery)], delivery.nominal_at)
    before = await read_shard(any_store, shard_of(any_store, delivery))
    assert await heartbeat_executions(any_store, [delivery]) == [False]
    assert await read_shard(any_store, shard_of(any_store, delivery)) == before


async def test_heartbeats_go_over_shards_and_answer_in_their_order(any_store: Store) -> None:
    started = [await start(any_store, f"job-{n}") for n in range(6)]
    assert len({delivery.shard for delivery in started}) > 1
    started[2] = replace(started[2], consumer="w2")
    held = await heartbeat_executions(any_store, started)
    assert held == [True, True, False, True, True, True]


async def test_a_heartbeat_for_a_queue_that_nobody_has_read_is_refused(any_store: Store) -> None:
    delivery = replace(await start(any_store, "job-0"), queue="unheard")
    assert await heartbeat_executions(any_store, [delivery]) == [False]
