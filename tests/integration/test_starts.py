"""Jobs that fire at each start of the deployment, with schedulers that are stepped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fleet import (
    ScriptedRunner,
    already_set,
    expire_leases,
    fired,
    hire,
    history,
    keep,
    settle,
    with_config,
)
from invariants import read_shard
from seeding import MINUTE, NOW, registration, small, take

from engine.clock import ManualClock
from engine.execution import SkipReason, SkipRecord
from engine.keys import SCHEDULERS
from engine.model import JobState, Overlap, Rules
from engine.plan import CatchUp, MisfirePolicy, Plan, Reboot, Skipped, wait_from
from engine.registration import Timing, register
from engine.scheduler import SETTLED_MS, STARTS_MS, Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.audit import audit_shard
from engine.store.changes import pause_job, preview_resume, replace_job, resume_job
from engine.store.due import Fired
from engine.store.fleet import read_oldest_due
from engine.store.group_changes import pause_group, resume_group
from engine.store.jobs import create_jobs, delete_job, get_job
from engine.store.search import Search, find_ids

AT_START = Plan.of(Reboot())


async def wait(store: Store, count: int = 1, since: int = NOW - 1, **more: Any) -> None:
    """Store jobs in all shards that wait for a start since then."""
    jobs = (
        registration(f"job-{n}", AT_START, next_run_at=wait_from(since), **more)
        for n in range(count)
    )
    assert all(await create_jobs(store, [*jobs]))


async def start(
    store: Store, clock: ManualClock, holder: str = "s1"
) -> tuple[ShardKeeper, Scheduler]:
    """Return a scheduler that has begun, and fired what its beginning makes due."""
    keeper, scheduler = keep(store, clock, holder)
    await keeper.step()
    await run(scheduler)
    return keeper, scheduler


async def run(scheduler: Scheduler) -> None:
    while await scheduler.step() == 0:
        pass


async def stop(keeper: ShardKeeper) -> None:
    await keeper.run(already_set())


def skip(at: int, reason: SkipReason) -> SkipRecord:
    return SkipRecord(at, at, 1, reason)


async def test_a_start_fires_each_such_job_once_with_its_own_time(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, 20)
    _, scheduler = await start(store, clock)
    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(20))
    assert scheduler.totals == Fired(fired=20)
    job = (await get_job(store, "job-3")).job
    assert (job.state, job.next_run_at) == (JobState.ACTIVE, wait_from(NOW))


async def test_what_fires_was_due_at_the_start(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store)
    await start(store, clock)
    [delivery] = await take(store)
    assert (delivery.execution_id, delivery.due_at) == (f"job-0@{NOW}", NOW)
    space = await read_shard(store, store.layout.shard_of("job-0"))
    assert ["fired", f"job-0@{NOW}", 1, NOW, "default"] in space["ledger"]


async def test_many_fire_a_batch_at_a_time(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, 50)
    keeper, scheduler = keep(with_config(store, batch=3), clock)
    await keeper.step()
    await scheduler.step()
    assert scheduler.totals.fired == 3 * len(store.layout.shards)
    await run(scheduler)
    assert len(await fired(store)) == len(set(await fired(store))) == 50


async def test_a_scheduler_that_joins_or_takes_over_fires_nothing(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, 20)
    await start(store, clock)
    clock.advance(1)
    keeper, _ = await start(store, clock, "s2")
    clock.advance(store.config.lease_ttl_ms - 2)
    await keeper.step()
    clock.advance(2)
    await expire_leases(store, "s1")
    _, heir = await start(store, clock, "s3")
    await keeper.step()
    await run(heir)
    assert len(await fired(store)) == 20


async def test_after_all_have_stopped_the_next_start_fires_once_more(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, overlap=Overlap.ALLOW)
    keeper, _ = await start(store, clock)
    await stop(keeper)
    clock.advance(5)
    await start(store, clock, "s2")
    assert sorted(await fired(store)) == [f"job-0@{NOW}", f"job-0@{NOW + 5}"]


async def test_schedulers_that_outlive_their_server_fire_nothing(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, overlap=Overlap.ALLOW)
    keeper, scheduler = await start(store, clock)
    await store.client.delete(SCHEDULERS)
    await expire_leases(store, "s1")
    clock.advance(5 * MINUTE)
    await keeper.step()
    await run(scheduler)
    assert await fired(store) == [f"job-0@{NOW}"]


async def test_a_start_that_a_crash_interrupted_is_carried_out_by_the_others(
    store: Store,
) -> None:
    clock = ManualClock(NOW)
    await wait(store, 50)
    keeper, scheduler = keep(with_config(store, batch=3), clock)
    await keeper.step()
    await scheduler.step()
    clock.advance(3)
    heirs, heir = keep(store, clock, "s2")
    await heirs.step()
    await expire_leases(store, "s1")
    await heirs.step()
    await heirs.step()
    await run(heir)
    # Its leases are gone; that it does not know yet changes nothing.
    await run(scheduler)
    clock.advance(STARTS_MS)
    await keeper.step()
    await heirs.step()
    await run(heir)
    await run(scheduler)
    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(50))


async def test_a_start_that_nobody_carried_out_is_recorded_at_the_next(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store)
    keeper, _ = keep(store, clock)
    await keeper.step()
    await stop(keeper)
    clock.advance(5)
    await start(store, clock, "s2")
    assert await fired(store) == [f"job-0@{NOW + 5}"]
    assert await history(store, "job-0") == [skip(NOW, SkipReason.LATE)]


@pytest.mark.parametrize("since", [NOW, NOW + 1])
async def test_a_job_that_is_registered_after_the_start_waits_for_the_next(
    store: Store, since: int
) -> None:
    clock = ManualClock(NOW)
    keeper, scheduler = await start(store, clock)
    await wait(store, since=since)
    clock.advance(STARTS_MS)
    await run(scheduler)
    assert await fired(store) == []
    await stop(keeper)
    await start(store, clock)
    assert await fired(store) == [f"job-0@{NOW + STARTS_MS}"]


async def test_a_job_that_was_on_its_way_at_the_start_still_fires(store: Store) -> None:
    clock = ManualClock(NOW)
    _, scheduler = await start(store, clock)
    await wait(store, since=NOW - 1)
    clock.advance(STARTS_MS)
    await run(scheduler)
    assert await fired(store) == [f"job-0@{NOW}"]


async def test_a_start_that_is_carried_out_is_not_looked_for_for_ever(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, scheduler = await start(store, clock)
    clock.advance(SETTLED_MS + 1)
    await keeper.step()
    await run(scheduler)
    await wait(store, since=NOW - 1)
    clock.advance(STARTS_MS)
    await run(scheduler)
    assert await fired(store) == []


async def test_jobs_with_clock_times_fire_beside_a_start(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, 4)
    await create_jobs(store, [registration("minutely", next_run_at=NOW)])
    await start(store, clock)
    assert f"minutely@{NOW}" in await fired(store)
    assert len(await fired(store)) == 5
    later = (await get_job(store, "minutely")).job.next_run_at
    assert later == NOW + MINUTE


async def test_what_is_still_live_of_the_start_before_decides_as_for_any_time(
    store: Store,
) -> None:
    clock = ManualClock(NOW)
    await wait(store)
    keeper, _ = await start(store, clock)
    await stop(keeper)
    clock.advance(5)
    await start(store, clock)
    assert await fired(store) == [f"job-0@{NOW}"]
    assert await history(store, "job-0") == [skip(NOW + 5, SkipReason.OVERLAP)]
    assert (await get_job(store, "job-0")).job.next_run_at == wait_from(NOW + 5)


async def test_a_full_queue_holds_a_start_back_and_loses_nothing(store: Store) -> None:
    clock = ManualClock(NOW)
    narrow = small(store, 1)
    await wait(narrow, 40)
    _, scheduler = await start(narrow, clock)
    assert len(await fired(store)) == len(store.layout.shards)
    worker, _ = hire(narrow, clock, ScriptedRunner())
    while await worker.fetch(block=False):
        await settle(worker)
        await worker.report()
        await run(scheduler)
    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(40))


async def test_the_last_run_completes_the_job(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, rules=Rules(max_runs=1))
    keeper, _ = await start(store, clock)
    assert (await get_job(store, "job-0")).job.state is JobState.COMPLETED
    await stop(keeper)
    clock.advance(5)
    await start(store, clock)
    assert await fired(store) == [f"job-0@{NOW}"]


async def paused_over_a_start(store: Store, clock: ManualClock, **more: Any) -> ShardKeeper:
    """Leave job-0 paused before NOW, which is a start."""
    await wait(store, **more)
    await pause_job(store, "job-0", NOW - 1)
    keeper, _ = await start(store, clock)
    clock.advance(5)
    return keeper


async def test_a_paused_job_fires_at_no_start_and_its_resuming_says_so(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper = await paused_over_a_start(store, clock)
    assert await fired(store) == []
    missed = await resume_job(store, "job-0", clock.now_ms())
    assert missed == CatchUp([], Skipped("late", NOW, NOW, 1, True), wait_from(NOW + 5))
    assert await history(store, "job-0") == [skip(NOW, SkipReason.PAUSED)]
    assert (await get_job(store, "job-0")).job.state is JobState.ACTIVE
    await stop(keeper)
    clock.advance(5)
    await start(store, clock)
    assert await fired(store) == [f"job-0@{NOW + 10}"]


@pytest.mark.parametrize("policy", ["fire_once", "fire_all"])
async def test_a_start_that_a_pause_held_back_runs_if_that_is_asked_for(
    store: Store, policy: MisfirePolicy
) -> None:
    clock = ManualClock(NOW)
    await paused_over_a_start(store, clock)
    expected = CatchUp([NOW], None, wait_from(NOW + 5))
    assert await preview_resume(store, "job-0", clock.now_ms(), policy) == expected
    assert await resume_job(store, "job-0", clock.now_ms(), policy) == expected
    _, scheduler = await start(store, clock, "s2")
    await expire_leases(store, "s1")
    await run((await start(store, clock, "s3"))[1])
    await run(scheduler)
    assert await history(store, "job-0") == []
    assert [one.nominal_at for one in (await get_job(store, "job-0")).live] == [NOW]


async def test_a_group_is_resumed_as_each_job_is(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store, 3, group="nightly")
    await pause_group(store, "nightly", NOW - 1)
    await start(store, clock)
    fresh = replace(store, starts=[])
    step = await resume_group(fresh, "nightly", NOW + 5)
    assert (step.changed, step.starts, step.skipped) == (3, 0, 3)
    assert await history(store, "job-2") == [skip(NOW, SkipReason.PAUSED)]


async def test_an_edit_of_anything_else_keeps_the_place_in_the_line(store: Store) -> None:
    clock = ManualClock(NOW)
    made = register(
        now=NOW - 9,
        target=registration("x").job.target,
        job_id="job-0",
        timing=Timing("@reboot"),
    )
    await create_jobs(store, [made])
    edited = register(
        now=NOW + 1,
        target=made.job.target,
        job_id="job-0",
        timing=Timing("@reboot"),
        payload=b"2",
    )
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    await replace_job(store, await get_job(store, "job-0"), edited, NOW + 1)
    await run(scheduler)
    assert await fired(store) == [f"job-0@{NOW}"]


async def test_a_job_that_gets_clock_times_leaves_the_line(store: Store) -> None:
    clock = ManualClock(NOW)
    await wait(store)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    timed = register(
        now=NOW + 1,
        target=registration("x").job.target,
        job_id="job-0",
        timing=Timing("every 1h"),
    )
    await replace_job(store, await get_job(store, "job-0"), timed, NOW + 1)
    await run(scheduler)
    assert await fired(store) == []
    assert await history(store, "job-0") == [skip(NOW, SkipReason.EDITED)]


async def test_a_deleted_job_leaves_nothing_behind(store: Store) -> None:
    await wait(store)
    await delete_job(store, "job-0")
    await start(store, ManualClock(NOW))
    assert await fired(store) == []


async def test_such_jobs_are_sound_to_an_audit_and_late_to_nobody(store: Store) -> None:
    await wait(store, 3)
    for shard in store.layout.shards:
        assert (await audit_shard(store, shard)).faults == Counter()
    assert await read_oldest_due(store) == [None] * len(store.layout.shards)
    await create_jobs(store, [registration("minutely", next_run_at=NOW)])
    assert [at for at in await read_oldest_due(store) if at is not None] == [NOW]


async def test_a_search_by_time_does_not_find_them(store: Store) -> None:
    await wait(store)
    await create_jobs(store, [registration("minutely", next_run_at=NOW)])
    found, _ = await find_ids(store, Search(due_from=NOW - MINUTE), limit=10)
    assert found == ["minutely"]
    assert sorted((await find_ids(store, Search(state=JobState.ACTIVE), limit=10))[0]) == [
        "job-0",
        "minutely",
    ]
