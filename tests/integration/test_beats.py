"""Leases kept from a thread: what is held keeps its lease, what is lost is told, what hangs is let
go. The clock is moved by hand; the server sees real beats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from fleet import age, eventually, with_config
from seeding import NOW, start

from engine.backoff import Retry
from engine.beats import GRACE_MS, Beats
from engine.clock import ManualClock
from engine.codec import dump_retry, dump_target
from engine.errors import Unusable
from engine.execution import Delivery
from engine.holding import Held, Holding
from engine.keys import GROUP
from engine.model import WorkerTarget
from engine.store import Store
from engine.store.executions import reclaim_executions

LEASE_MS = 300
"""Short, so that the thread looks often; what is due is for the clock."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@asynccontextmanager
async def beating(
    store: Store, clock: ManualClock, holding: Holding, lost: list[Held]
) -> AsyncIterator[Beats]:
    beats = Beats(
        with_config(store, execution_lease_ms=LEASE_MS).config, clock, holding, lost.append
    )
    stop = asyncio.Event()
    running = asyncio.create_task(beats.run(stop))
    yield beats
    stop.set()
    await running


async def idle_ms(store: Store, delivery: Delivery) -> int:
    shard = store.layout.shards[delivery.shard]
    [row] = await store.client.xpending_range(
        shard.ready(delivery.queue), GROUP, delivery.entry_id, delivery.entry_id, 1
    )
    return int(row["time_since_delivered"])


async def is_extended(store: Store, delivery: Delivery) -> bool:
    return await idle_ms(store, delivery) < 3_000_000


async def test_a_lease_is_extended_when_a_third_of_it_is_over_and_not_before(
    store: Store, clock: ManualClock
) -> None:
    first = await start(store, "job-0")
    second = await start(store, "job-1")
    holding = Holding()
    holding.add(first, clock.monotonic_ms())
    await age(store, [first, second])
    async with beating(store, clock, holding, []):
        clock.advance(LEASE_MS // 3)
        holding.add(second, clock.monotonic_ms())
        await eventually(lambda: is_extended(store, first))
        await age(store, [first])
        clock.advance(LEASE_MS // 3)
        await eventually(lambda: is_extended(store, second))
        # Both were due in the same step.
        assert await is_extended(store, first)


async def test_what_has_just_been_extended_is_not_extended_again(
    store: Store, clock: ManualClock
) -> None:
    first, second = await start(store, "job-0"), await start(store, "job-1")
    holding = Holding()
    holding.add(first, clock.monotonic_ms())
    await age(store, [first, second])
    clock.advance(LEASE_MS // 3)
    async with beating(store, clock, holding, []):
        await eventually(lambda: is_extended(store, first))
        await age(store, [first])
        holding.add(second, 0)
        await eventually(lambda: is_extended(store, second))
        assert not await is_extended(store, first)


async def test_what_is_young_is_not_extended(store: Store, clock: ManualClock) -> None:
    young, old = await start(store, "job-0"), await start(store, "job-1")
    holding = Holding()
    holding.add(old, clock.monotonic_ms())
    clock.advance(LEASE_MS // 3)
    holding.add(young, clock.monotonic_ms())
    await age(store, [young, old])
    async with beating(store, clock, holding, []):
        await eventually(lambda: is_extended(store, old))
        assert not await is_extended(store, young)


async def test_what_was_taken_over_is_told_once_and_beaten_no_more(
    store: Store, clock: ManualClock
) -> None:
    delivery = await start(store, "job-0")
    holding, lost = Holding(), list[Held]()
    held = holding.add(delivery, clock.monotonic_ms())
    await age(store, [delivery])
    shard = store.layout.shards[delivery.shard]
    await reclaim_executions(store, delivery.queue, shard, "w2", NOW)
    clock.advance(LEASE_MS)
    async with beating(store, clock, holding, lost) as beats:
        await eventually(lambda: is_told(lost))
        clock.advance(LEASE_MS)
        await eventually(lambda: is_fresh(beats))
    assert held.is_lost
    assert lost == [held]


async def is_told(lost: list[Held]) -> bool:
    return bool(lost)


async def is_fresh(beats: Beats) -> bool:
    return beats.is_fresh


async def test_a_proof_that_moves_on_while_a_beat_is_out_is_not_lost(
    store: Store, clock: ManualClock
) -> None:
    delivery = await start(store, "job-0")
    held = Holding().add(delivery, 0)
    held.delivery = replace(delivery, deliveries=2)
    assert not held.lose(delivery)
    assert not held.is_lost


@pytest.mark.parametrize(
    ("target", "retry"),
    [(WorkerTarget(timeout_ms=1_000), Retry()), (WorkerTarget(), Retry(deadline_ms=1_000))],
)
async def test_an_attempt_that_hangs_past_its_time_is_given_up(
    store: Store,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    target: WorkerTarget,
    retry: Retry,
) -> None:
    delivery = await start(store, "job-0")
    told = replace(delivery, target=dump_target(target), retry=dump_retry(retry))
    holding, lost = Holding(), list[Held]()
    held = holding.add(told, clock.monotonic_ms())
    async with beating(store, clock, holding, lost):
        await age(store, [delivery])
        clock.advance(1_000 + GRACE_MS - 1)
        await eventually(lambda: is_extended(store, delivery))
        assert lost == []
        await age(store, [delivery])
        clock.advance(LEASE_MS)
        await eventually(lambda: is_told(lost))
    assert lost == [held]
    assert not await is_extended(store, delivery)
    assert "it hangs, giving it up" in caplog.text


async def test_an_outcome_that_waits_to_be_reported_does_not_hang(
    store: Store, clock: ManualClock
) -> None:
    delivery = await start(store, "job-0")
    told = replace(delivery, target=dump_target(WorkerTarget(timeout_ms=1_000)))
    holding = Holding()
    holding.add(told, clock.monotonic_ms()).has_ended = True
    await age(store, [delivery])
    clock.advance(86_400_000)
    lost: list[Held] = []
    async with beating(store, clock, holding, lost):
        await eventually(lambda: is_extended(store, delivery))
    assert lost == []


async def test_its_leases_are_fresh_only_while_it_beats(store: Store, clock: ManualClock) -> None:
    async with beating(store, clock, Holding(), []) as beats:
        assert not beats.is_fresh
        await eventually(lambda: is_fresh(beats))
        clock.advance(LEASE_MS // 3)  # as if the process had been stopped for so long
        await eventually(lambda: is_fresh(beats))
    assert beats.is_fresh
    clock.advance(LEASE_MS // 3)
    assert not beats.is_fresh


async def test_a_server_that_cannot_be_worked_with_ends_it_with_the_reason(
    store: Store, clock: ManualClock
) -> None:
    config = store.config.model_copy(update={"redis_url": "http://a.test"})
    beats = Beats(config, clock, Holding(), lambda held: None)
    with pytest.raises(Unusable, match="URL"):
        await beats.run(asyncio.Event())
