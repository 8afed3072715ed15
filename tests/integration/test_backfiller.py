"""Backfills, stepped: every time of the range once, beside the schedule, through any crash."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis.exceptions as driver
from filling import backfill_of, old_job, order, times
from fleet import (
    BUSY,
    REFUSED,
    ScriptedRunner,
    Wire,
    age,
    expire_leases,
    hire,
    history,
    keep,
    settle,
    with_config,
)
from invariants import read_shard
from seeding import MINUTE, NOW, job_ids, registration, take

from engine.backfill import Backfill, BackfillState, Order
from engine.backfiller import IDLE_MS, STARTS, Backfiller
from engine.backoff import Retry
from engine.clock import ManualClock
from engine.errors import WrongState
from engine.execution import Outcome, Record, SkipRecord
from engine.model import Overlap, Rules
from engine.registration import Registration
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.backfills import cancel_backfill, create_backfill
from engine.store.changes import replace_job
from engine.store.executions import reclaim_executions
from engine.store.jobs import create_jobs, delete_job, get_job
from engine.worker import Worker


class Fleet:
    """A scheduler with its backfiller and a worker, stepped in turn."""

    def __init__(self, store: Store, holder: str = "s1", *, at: int = NOW) -> None:
        self.store = store
        self.clock = ManualClock(at)
        self.runner = ScriptedRunner()
        self.keeper: ShardKeeper
        self.scheduler: Scheduler
        self.keeper, self.scheduler = keep(store, self.clock, holder)
        self.backfiller = Backfiller(store, self.clock, self.keeper)
        self.worker: Worker
        self.worker, _ = hire(store, self.clock, self.runner)

    async def work(self) -> None:
        """Run what waits in the queue to its end."""
        await self.worker.fetch(block=False)
        await settle(self.worker)
        await self.worker.report()

    async def finish(self) -> Backfill:
        """Step until job-0's backfill is at its end."""
        for _ in range(500):
            await self.keeper.step()
            await self.backfiller.step()
            await self.scheduler.step()
            await self.work()
            if not (found := await backfill_of(self.store)).is_open:
                return found
            self.clock.advance(self.store.config.tick_ms)
        raise AssertionError("the backfill never ends")

    @property
    def ran(self) -> list[int]:
        """The nominal times that the worker was given, in their order."""
        return [delivery.nominal_at for delivery in self.runner.seen]


async def begin(store: Store, asked: Order, made: Registration | None = None) -> Fleet:
    await create_jobs(store, [made or old_job(created_at=NOW)])
    await create_backfill(store, "job-0", asked, NOW)
    fleet = Fleet(store)
    await fleet.keeper.step()
    await fleet.worker.fetch(block=False)  # makes the group
    return fleet


@pytest.mark.parametrize("backwards", [False, True])
async def test_every_time_of_the_range_is_run_once_and_in_order(
    store: Store, backwards: bool
) -> None:
    fleet = await begin(store, order(-30, -1, backwards=backwards))
    done = await fleet.finish()
    assert fleet.ran == times(-30, -1)[:: -1 if backwards else 1]
    assert fleet.runner.most == 1
    assert (done.state, done.passed, done.succeeded) == (BackfillState.DONE, 30, 30)


async def test_as_many_as_were_asked_for_run_at_once(store: Store) -> None:
    fleet = await begin(store, order(-30, -1, concurrency=7))
    await fleet.backfiller.step()
    most = (await backfill_of(store)).live
    await fleet.backfiller.step()
    assert (await backfill_of(store)).live == most == 7
    await fleet.finish()
    assert sorted(fleet.ran) == times(-30, -1)


async def test_a_step_starts_a_few_only(store: Store) -> None:
    fleet = await begin(store, order(-60, -1, concurrency=100))
    assert await fleet.backfiller.step() == store.config.tick_ms
    assert (await backfill_of(store)).live == STARTS


async def test_it_looks_seldom_while_there_is_nothing_to_do(store: Store) -> None:
    fleet = Fleet(store)
    assert await fleet.backfiller.step() == IDLE_MS
    await fleet.keeper.step()
    assert await fleet.backfiller.step() == IDLE_MS


async def test_a_failing_execution_is_tried_again_before_the_next_one_starts(store: Store) -> None:
    made = old_job(created_at=NOW)
    retrying = replace(made, job=replace(made.job, retry=Retry(2, base_ms=10, jitter="none")))
    fleet = await begin(store, order(-3, -1), retrying)
    fleet.runner.answers["job-0"] = [BUSY, BUSY, BUSY]
    done = await fleet.finish()
    first, second, third = times(-3, -1)
    assert fleet.ran == [first, first, second, second, third]
    assert (done.succeeded, done.dead) == (2, 1)


async def test_failed_ones_are_run_again_under_the_same_id_and_the_next_attempt(
    store: Store,
) -> None:
    fleet = await begin(store, order(-5, -1))
    fleet.runner.answers["job-0"] = [REFUSED, REFUSED]
    assert (await fleet.finish()).dead == 2

    await create_backfill(store, "job-0", order(-5, -1, "failed"), NOW)
    again = await fleet.finish()

    assert (again.number, again.started, again.succeeded) == (2, 2, 2)
    tries = [(d.nominal_at, d.attempt) for d in fleet.runner.seen[5:]]
    assert tries == [(at, 2) for at in times(-5, -4)]
    space = await read_shard(store, store.layout.shard_of("job-0"))
    assert "dead" not in space


async def test_a_second_backfill_of_a_range_runs_nothing(store: Store) -> None:
    fleet = await begin(store, order(-5, -1))
    await fleet.finish()
    await create_backfill(store, "job-0", order(-5, -1), NOW)
    again = await fleet.finish()
    assert (again.passed, again.started) == (5, 0)
    assert len(fleet.ran) == 5


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.REPLACE])
async def test_a_backfill_holds_up_nothing_of_the_schedule(store: Store, overlap: Overlap) -> None:
    fleet = await begin(store, order(-3, -1), old_job(created_at=NOW, overlap=overlap))
    await fleet.backfiller.step()
    fleet.clock.advance(MINUTE)
    await fleet.keeper.step()
    await fleet.scheduler.step()
    await fleet.work()
    assert sorted(fleet.ran) == [NOW - 3 * MINUTE, NOW + MINUTE]
    assert all(isinstance(record, Record) for record in await history(store, "job-0"))


async def test_replacing_ends_older_fires_and_no_backfill(store: Store) -> None:
    made = old_job(created_at=NOW, overlap=Overlap.REPLACE)
    fleet = await begin(store, order(-3, -1), made)
    await fleet.backfiller.step()
    for _ in range(2):
        fleet.clock.advance(MINUTE)
        await fleet.keeper.step()
        await fleet.scheduler.step()
    await fleet.work()
    assert sorted(fleet.ran) == [NOW - 3 * MINUTE, NOW + 2 * MINUTE]
    [skipped] = [r for r in await history(store, "job-0") if isinstance(r, SkipRecord)]
    assert (skipped.first_at, skipped.reason) == (NOW + MINUTE, "replaced")


async def test_a_cancelled_backfill_lets_what_is_live_end(store: Store) -> None:
    fleet = await begin(store, order(-30, -1, concurrency=3))
    await fleet.backfiller.step()
    await cancel_backfill(store, "job-0")
    done = await fleet.finish()
    assert (done.state, done.succeeded) == (BackfillState.CANCELLED, 3)
    assert fleet.ran == times(-30, -28)


async def test_what_a_cancelled_backfill_left_is_run_by_the_next_one(store: Store) -> None:
    fleet = await begin(store, order(-10, -1, concurrency=3))
    await fleet.backfiller.step()
    await cancel_backfill(store, "job-0")
    await fleet.finish()
    await create_backfill(store, "job-0", order(-10, -1, concurrency=3), NOW)
    assert (await fleet.finish()).started == 7
    assert sorted(fleet.ran) == times(-10, -1)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("cut", ["down", "deaf"])
async def test_a_crash_between_any_two_steps_runs_nothing_twice_and_loses_nothing(
    store: Store, cut: str, backwards: bool
) -> None:
    """Each pass is made by a new process; every second one loses its wire, before the server got
    the call or after."""
    first = await begin(store, order(-12, -1, concurrency=2, backwards=backwards))
    for crash in range(100):
        wire = Wire(store)
        fleet = Fleet(replace(store, scripts=wire), "s1", at=first.clock.now_ms())
        await fleet.keeper.step()
        setattr(wire, cut, crash % 2 == 0)
        if crash % 2 == 0:
            try:
                await fleet.backfiller.step()
            except driver.ConnectionError:
                pass
        else:
            await fleet.backfiller.step()
            await first.work()
        if not (await backfill_of(store)).is_open:
            break
    done = await backfill_of(store)
    assert (done.state, done.succeeded) == (BackfillState.DONE, 12)
    assert sorted(first.ran) == times(-12, -1)


async def test_two_schedulers_run_a_backfill_once(store: Store) -> None:
    one = await begin(store, order(-40, -1, concurrency=5))
    two = Fleet(store, "s2")
    for _ in range(60):
        for fleet in (one, two):
            await fleet.keeper.step()
            await fleet.backfiller.step()
        await one.work()
    assert (await backfill_of(store)).state is BackfillState.DONE
    assert sorted(one.ran) == times(-40, -1)


async def test_a_fenced_scheduler_starts_nothing_and_the_heir_goes_on(store: Store) -> None:
    zombie = await begin(store, order(-5, -1))
    await expire_leases(store, "s1")
    heir = Fleet(store, "s2", at=NOW + store.config.lease_ttl_ms)
    await heir.keeper.step()
    shard = store.layout.shard_of("job-0")
    before = await read_shard(store, shard)
    await zombie.backfiller.step()
    assert await read_shard(store, shard) == before
    assert shard not in [lease.shard for lease in zombie.keeper.trusted()]
    await heir.finish()
    assert heir.ran == times(-5, -1)


async def test_an_edited_job_goes_on_with_the_times_of_the_order(store: Store) -> None:
    fleet = await begin(store, order(-5, -1))
    await fleet.backfiller.step()
    stored = await get_job(store, "job-0")
    other = registration("job-0", next_run_at=NOW + 7 * MINUTE)
    edited = replace(other, job=replace(other.job, payload=b'"new"', schedule_expr="every 7m"))
    await replace_job(store, stored, edited, NOW)
    await fleet.finish()
    assert fleet.ran == times(-5, -1)
    assert {delivery.payload for delivery in fleet.runner.seen[1:]} == {b'"new"'}


async def test_the_queue_stays_while_a_backfill_has_something_live(store: Store) -> None:
    fleet = await begin(store, order(-5, -1))
    await fleet.backfiller.step()
    stored = await get_job(store, "job-0")
    moved = registration("job-0", next_run_at=NOW + MINUTE, queue="other")
    with pytest.raises(WrongState, match="queue"):
        await replace_job(store, stored, moved, NOW)


async def test_an_execution_that_no_worker_completes_is_dead_and_the_next_one_starts(
    store: Store,
) -> None:
    """Its failures do not count for the job."""
    made = old_job(created_at=NOW)
    strict = replace(made, job=replace(made.job, rules=Rules(pause_after_failures=1)))
    fleet = await begin(with_config(store, max_deliveries=1), order(-2, -1), strict)
    await fleet.backfiller.step()
    [delivery] = await take(store)
    await age(store, [delivery])
    where = store.layout.shards[delivery.shard]
    taken = await reclaim_executions(fleet.store, "default", where, "w2", NOW)
    assert (taken.poisoned, taken.deliveries) == (1, [])
    assert ((await backfill_of(store)).dead, (await get_job(store, "job-0")).job.failures) == (1, 0)
    await fleet.finish()
    assert fleet.ran == [NOW - MINUTE]


async def test_a_deleted_jobs_backfill_is_gone(store: Store) -> None:
    fleet = await begin(store, order(-5, -1))
    await fleet.backfiller.step()
    await delete_job(store, "job-0")
    await fleet.backfiller.step()
    await fleet.work()
    assert fleet.ran == []


async def test_many_backfills_of_a_shard_all_come_to_their_turn(store: Store) -> None:
    fleet = await begin(store, order(-3, -1))
    others = job_ids(store, 25)[1:]
    await create_jobs(store, [old_job(name, created_at=NOW) for name in others])
    for name in others:
        await create_backfill(store, name, order(-3, -1), NOW)
    for _ in range(200):
        await fleet.backfiller.step()
        await fleet.work()
        if len(fleet.ran) == 75:
            break
    assert len({d.execution_id for d in fleet.runner.seen}) == len(fleet.ran) == 75


async def test_a_backfill_that_fails_is_told_after_the_others_had_their_turn(
    store: Store,
) -> None:
    fleet = await begin(store, order(-3, -1))
    ill = job_ids(store, 2)[1]
    await create_jobs(store, [old_job(ill, created_at=NOW)])
    await create_backfill(store, ill, order(-3, -1), NOW)
    await store.client.lpush(store.layout.shard_of(ill).runs(ill), b"no record")
    with pytest.raises(ValueError, match="invalid literal"):
        await fleet.backfiller.step()
    await fleet.work()
    await store.client.delete(store.layout.shard_of(ill).runs(ill))
    assert [d.job_id for d in fleet.runner.seen] == ["job-0"]


async def test_the_records_of_a_backfill_are_the_jobs(store: Store) -> None:
    fleet = await begin(store, order(-3, -1))
    await fleet.finish()
    records = await history(store, "job-0")
    assert [record.outcome for record in records if isinstance(record, Record)] == [
        Outcome.SUCCEEDED
    ] * 3
