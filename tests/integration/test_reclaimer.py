"""The reclaimer, stepped: what a silent worker held is run by another, and no slot is overrun."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import redis.exceptions as driver
from fleet import (
    ScriptedRunner,
    Wire,
    age,
    eventually,
    hire,
    history,
    outcomes,
    settle,
    with_config,
)
from seeding import AT_ONCE, NOW, QUEUE, job_ids, registration

from engine import reclaimer as module
from engine.clock import ManualClock
from engine.execution import Delivery, Outcome, Record
from engine.keys import GROUP
from engine.reclaimer import RETURN_MS, SWEEP_MS, Reclaimer
from engine.store import Store
from engine.store.executions import RECLAIM_LIMIT, ensure_groups, read_ready
from engine.store.jobs import create_jobs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW + 700)


async def abandon(store: Store, *ids: str, is_stale: bool = True) -> list[Delivery]:
    """Return deliveries of these jobs to worker w0, which has been silent for an hour."""
    await ensure_groups(store, QUEUE)
    await create_jobs(
        store, [registration(name, AT_ONCE, next_run_at=None, run_at=NOW) for name in ids]
    )
    found = await read_ready(
        store, [(QUEUE, shard) for shard in store.layout.shards], "w0", len(ids), block=False
    )
    assert len(found) == len(ids)
    if is_stale:
        await age(store, found)
    return found


@dataclass
class BusyWorker:
    """A worker without a free slot, except one for whoever waits."""

    queues: tuple[str, ...] = (QUEUE,)
    consumer: str = "w1"
    free: int = 0
    waits: int = 0
    refreshed: int = 0
    taken: list[Delivery] = field(default_factory=list)

    async def wait_for_slot(self) -> bool:
        self.waits += 1
        self.free = 1
        return True

    def take(self, delivery: Delivery) -> None:
        self.taken.append(delivery)
        self.free -= 1

    async def refresh(self) -> None:
        self.refreshed += 1


async def test_what_a_silent_worker_held_is_run_and_recorded_once(
    store: Store, clock: ManualClock
) -> None:
    ids = [f"job-{n}" for n in range(20)]
    await abandon(store, *ids)
    runner = ScriptedRunner()
    worker, reclaimer = hire(store, clock, runner)
    for _ in range(3):
        await reclaimer.step()
        await settle(worker)
    await worker.report()
    assert reclaimer.taken == 20
    assert sorted(delivery.job_id for delivery in runner.seen) == sorted(ids)
    assert {delivery.deliveries for delivery in runner.seen} == {2}
    for name in ids:
        assert await outcomes(store, name) == [(1, Outcome.SUCCEEDED)]


async def test_what_a_living_worker_holds_is_left_alone(store: Store, clock: ManualClock) -> None:
    held = await abandon(store, "job-0", is_stale=False)
    worker, reclaimer = hire(store, clock, ScriptedRunner())
    await age(store, held, by_ms=store.config.execution_lease_ms // 2)
    assert await reclaimer.step() == SWEEP_MS
    assert (reclaimer.taken, worker.free) == (0, 100)


async def test_it_never_reclaims_from_itself(store: Store, clock: ManualClock) -> None:
    held = await abandon(store, "job-0")
    runner = ScriptedRunner()
    runner.gate.clear()
    worker, reclaimer = hire(store, clock, runner)
    await reclaimer.step()
    await age(store, [replace(held[0], consumer="w1")])
    await reclaimer.step()
    assert reclaimer.taken == 1
    runner.gate.set()
    await settle(worker)
    await worker.report()
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert record.deliveries == 2


async def test_what_was_delivered_too_often_is_dead(store: Store, clock: ManualClock) -> None:
    store = with_config(store, max_deliveries=2)
    held = await abandon(store, "job-0")
    runner = ScriptedRunner()
    runner.gate.clear()
    _, first = hire(store, clock, runner, "w1")
    await first.step()
    await age(store, [replace(held[0], consumer="w1")])
    heir, second = hire(store, clock, ScriptedRunner(), "w2")

    await second.step()

    assert (second.taken, second.poisoned) == (0, 1)
    assert heir.free == 100
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert record.outcome is Outcome.DEAD
    assert "poison" in (record.error or "")
    runner.gate.set()


async def test_it_takes_no_more_than_there_are_slots(store: Store, clock: ManualClock) -> None:
    await abandon(store, *job_ids(store, 12))
    runner = ScriptedRunner()
    runner.gate.clear()
    worker, reclaimer = hire(store, clock, runner, concurrency=5)
    assert await reclaimer.step() == 0
    assert reclaimer.taken == 5
    runner.gate.set()
    reported = 0
    while reclaimer.taken < 12:
        await settle(worker)
        reported += await worker.report()
        await reclaimer.step()
    await settle(worker)
    assert reported + await worker.report() == 12
    assert runner.most <= 5


async def test_a_worker_that_is_never_idle_takes_over_from_every_shard(
    store: Store, clock: ManualClock
) -> None:
    held = await abandon(store, *(f"job-{n}" for n in range(24)))
    worker = BusyWorker()
    reclaimer = Reclaimer(store, clock, worker)
    for _ in range(len(held) + len(store.layout.shards)):
        await reclaimer.step()
    assert sorted(d.job_id for d in worker.taken) == sorted(d.job_id for d in held)
    assert {delivery.shard for delivery in worker.taken} == {0, 1, 2, 3}


async def test_many_healthy_deliveries_are_swept_in_one_step_and_then_it_sleeps(
    store: Store, clock: ManualClock
) -> None:
    """Streams of different lengths must not keep each other's sweeps going for ever."""
    long = job_ids(store, RECLAIM_LIMIT + 20)
    other = [name for name in (f"more-{n}" for n in range(500)) if not is_home(store, name)]
    await abandon(store, *long, *other, is_stale=False)
    stale = await abandon(store, "job-late", "more-late")
    worker, reclaimer = hire(store, clock, ScriptedRunner())
    assert await reclaimer.step() == SWEEP_MS
    assert reclaimer.taken == len(stale)
    await settle(worker)
    await worker.report()


def is_home(store: Store, job_id: str) -> bool:
    return store.layout.shard_of(job_id) is store.layout.shard_of("job-0")


async def test_leases_that_are_short_are_looked_at_more_often(
    store: Store, clock: ManualClock
) -> None:
    _, reclaimer = hire(with_config(store, execution_lease_ms=400), clock, ScriptedRunner())
    assert await reclaimer.step() == 100


async def test_after_a_failure_a_round_begins_with_the_workers_own_leases(
    store: Store, clock: ManualClock
) -> None:
    await abandon(store, *job_ids(store, 3))
    wire = Wire(store)
    worker = BusyWorker()
    reclaimer = Reclaimer(replace(store, scripts=wire), clock, worker)
    await reclaimer.step()
    await reclaimer.step()
    assert (worker.refreshed, len(worker.taken)) == (1, 2)
    wire.down = True
    with pytest.raises(driver.ConnectionError):
        await reclaimer.step()
    wire.down = False
    await reclaimer.step()
    assert worker.refreshed == 2


async def test_after_a_failure_the_others_have_time_to_come_back_with_what_they_hold(
    store: Store, clock: ManualClock
) -> None:
    [held] = await abandon(store, "job-0")
    wire = Wire(store)
    worker = BusyWorker(free=1)
    reclaimer = Reclaimer(replace(store, scripts=wire), clock, worker)
    wire.down = True
    with pytest.raises(driver.ConnectionError):
        await reclaimer.step()
    wire.down = False
    assert await reclaimer.step() == RETURN_MS
    assert worker.taken == []
    assert await reclaimer.step() == SWEEP_MS
    assert [delivery.entry_id for delivery in worker.taken] == [held.entry_id]
    assert await reclaimer.step() == SWEEP_MS


async def test_consumers_that_hold_nothing_are_forgotten_once_in_a_while(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORGET_AFTER_MS", 1)
    [held] = await abandon(store, "job-0", is_stale=False)
    ready = store.layout.shards[held.shard].ready(QUEUE)
    _, reclaimer = hire(store, clock, ScriptedRunner())
    for is_time, left in [(True, {"w0"}), (False, {"w0", "gone"}), (True, {"w0"})]:
        await store.client.xgroup_createconsumer(ready, GROUP, "gone")
        await eventually(lambda: is_idle(store, ready))
        clock.advance(int(is_time))
        await reclaimer.step()
        assert {row["name"].decode() for row in await consumers(store, ready)} == left


async def consumers(store: Store, ready: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await store.client.xinfo_consumers(ready, GROUP)
    return found


async def is_idle(store: Store, ready: str) -> bool:
    """Return whether the server has seen nothing of any consumer for a millisecond."""
    return all(row["idle"] >= 1 for row in await consumers(store, ready))
