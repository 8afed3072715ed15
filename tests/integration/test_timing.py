"""Windows, bounds and catching up in the fire loop: what is due when, under which nominal time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fleet import OK, REFUSED, ScriptedRunner, fired, hire, history, keep, settle, with_config
from invariants import read_shard
from seeding import EVERY_MINUTE, MINUTE, NOW, ONE_OFF, job_ids, registration

from engine.clock import ManualClock
from engine.execution import SkipReason, SkipRecord
from engine.model import HttpTarget, JobState, Overlap, Rules
from engine.plan import Every, Misfire, Plan
from engine.registration import Registration, Timing, register
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.jobs import create_jobs, get_job

SPREAD = Plan("every", interval_ms=MINUTE, window_ms=MINUTE)
STEP_MS = 500


def at(minute: int) -> int:
    return NOW + minute * MINUTE


def spread(job_id: str) -> Registration:
    """Return a job of the plan that all such jobs share, due at its own place in the window."""
    due_at = NOW + SPREAD.offset_of(job_id)
    return registration(job_id, SPREAD, next_run_at=due_at, overlap=Overlap.ALLOW)


async def go_on(clock: ManualClock, keeper: ShardKeeper, scheduler: Scheduler, until: int) -> None:
    """Let time pass, and fire what is due on the way."""
    while clock.now_ms() <= until:
        await keeper.step()
        await scheduler.step()
        clock.advance(STEP_MS)


async def due_times(store: Store, job_id: str) -> dict[int, int]:
    """Return the due time of each execution of a job that was offered, by its nominal time."""
    space = await read_shard(store, store.layout.shard_of(job_id))
    offered = [event for event in space.get("ledger", []) if event[0] == "fired"]
    found = [(event[1].partition("@"), event[3]) for event in offered]
    return {int(nominal): due_at for (job, _, nominal), due_at in found if job == job_id}


async def test_jobs_of_one_plan_fire_each_at_its_own_place_in_the_window(store: Store) -> None:
    one, two = job_ids(store, 2)
    assert SPREAD.offset_of(one) != SPREAD.offset_of(two)
    await create_jobs(store, [spread(one), spread(two)])
    clock = ManualClock(NOW - STEP_MS)
    await go_on(clock, *keep(store, clock), until=at(3) - 1)
    for job_id in (one, two):
        offset_ms = SPREAD.offset_of(job_id)
        times = {at(n): at(n) + offset_ms for n in range(3)}
        assert await due_times(store, job_id) == times
        assert (await get_job(store, job_id)).job.next_run_at == at(3) + offset_ms
    plans = await store.client.hlen(store.layout.shard_of(one).plans)
    assert plans == 1


async def test_two_jobs_due_at_one_instant_keep_the_nominal_times_of_their_own(
    store: Store,
) -> None:
    """The places of two jobs in the window may be a whole interval apart."""
    plan = Plan("every", interval_ms=1_000, window_ms=MINUTE)
    ids = job_ids(store, 400)
    by_phase: dict[int, list[str]] = {}
    for job_id in ids:
        by_phase.setdefault(plan.offset_of(job_id) % 1_000, []).append(job_id)
    one, two = next(
        (a, b)
        for a, b, *_ in (found for found in by_phase.values() if len(found) > 1)
        if plan.offset_of(a) != plan.offset_of(b)
    )
    due_at = NOW + MINUTE + plan.offset_of(one) % 1_000
    await create_jobs(store, [registration(j, plan, next_run_at=due_at) for j in (one, two)])
    keeper, scheduler = keep(store, ManualClock(due_at))
    await keeper.step()
    await scheduler.step()
    wanted = {f"{job_id}@{due_at - plan.offset_of(job_id)}" for job_id in (one, two)}
    assert set(await fired(store)) == wanted


async def test_a_job_is_late_by_its_own_due_time_and_not_by_the_nominal_one(store: Store) -> None:
    """With a grace of a second, and nearly a minute into the window."""
    plan = replace(SPREAD, misfire=Misfire("skip", grace_ms=1_000))
    job_id = max((f"job-{n}" for n in range(100)), key=plan.offset_of)
    due_at = NOW + plan.offset_of(job_id)
    assert due_at > NOW + 50_000
    await create_jobs(store, [registration(job_id, plan, next_run_at=due_at)])
    keeper, scheduler = keep(store, ManualClock(due_at + 1_000))
    await keeper.step()
    await scheduler.step()
    assert await fired(store) == [f"{job_id}@{NOW}"]


async def test_a_job_fires_from_its_start_to_its_end_and_is_completed(store: Store) -> None:
    timing = Timing("every 1m", start_at=at(2), end_at=at(4) + 5)
    made = register(
        now=NOW,
        target=HttpTarget("https://a.test"),
        job_id="job-0",
        timing=timing,
        overlap=Overlap.ALLOW,
    )
    await create_jobs(store, [made])
    clock = ManualClock(NOW)
    await go_on(clock, *keep(store, clock), until=at(6))
    assert await fired(store) == [f"job-0@{at(n)}" for n in (2, 3, 4)]
    assert (await get_job(store, "job-0")).job.state is JobState.COMPLETED


async def test_after_downtime_past_the_end_the_last_time_fires(store: Store) -> None:
    plan = replace(EVERY_MINUTE, end_at=at(3))
    await create_jobs(store, [registration("job-0", plan)])
    keeper, scheduler = keep(store, ManualClock(at(60)))
    await keeper.step()
    await scheduler.step()
    assert await fired(store) == [f"job-0@{at(3)}"]
    assert await history(store, "job-0") == [SkipRecord(NOW, at(2), 3, SkipReason.LATE)]
    assert (await get_job(store, "job-0")).job.state is JobState.COMPLETED


async def test_fire_all_makes_up_for_so_many_times_and_records_the_older_ones(
    store: Store,
) -> None:
    plan = Plan.of(Every(MINUTE), Misfire("fire_all", grace_ms=0, max_catch_up=3))
    await create_jobs(store, [registration("job-0", plan, overlap=Overlap.ALLOW)])
    keeper, scheduler = keep(store, ManualClock(at(10) + 5))
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    assert await fired(store) == [f"job-0@{at(n)}" for n in (8, 9, 10)]
    assert await history(store, "job-0") == [SkipRecord(NOW, at(7), 8, SkipReason.LATE)]


@pytest.mark.parametrize(
    "due_at",
    [
        pytest.param(at(10), id="this minute"),
        pytest.param(at(10) - 20, id="the end of the last minute"),
    ],
)
async def test_catching_up_does_not_hold_up_what_is_on_time(store: Store, due_at: int) -> None:
    store = with_config(store, batch=1)
    *old, new = job_ids(store, 200)
    await create_jobs(
        store, [registration(name, ONE_OFF, next_run_at=at(n % 5)) for n, name in enumerate(old)]
    )
    await create_jobs(store, [registration(new, ONE_OFF, next_run_at=due_at)])
    keeper, scheduler = keep(store, ManualClock(at(10) + 5))
    await keeper.step()
    assert await scheduler.step() == 0
    done = await fired(store)
    assert f"{new}@{due_at}" in done[:3]
    assert len(done) < 200
    while await scheduler.step() == 0:
        pass
    assert len(await fired(store)) == 200


async def test_a_steady_stream_of_what_is_on_time_does_not_stop_catching_up(store: Store) -> None:
    store = with_config(store, batch=1)
    ids = job_ids(store, 80)
    old, new = ids[:40], ids[40:]
    await create_jobs(store, [registration(name, ONE_OFF, next_run_at=at(0)) for name in old])
    await create_jobs(store, [registration(name, ONE_OFF, next_run_at=at(9)) for name in new])
    keeper, scheduler = keep(store, ManualClock(at(9)))
    await keeper.step()
    await scheduler.step()
    done = [execution.partition("@")[0] for execution in await fired(store)]
    assert len(set(done) & set(old)) == len(set(done) & set(new)) > 10


async def test_a_job_whose_target_always_fails_pauses_itself(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, scheduler = keep(store, clock)
    runner = ScriptedRunner({"job-0": [REFUSED, OK, REFUSED, REFUSED]})
    worker, _ = hire(store, clock, runner)
    rules = Rules(pause_after_failures=2)
    await create_jobs(store, [registration("job-0", rules=rules)])
    await worker.fetch(block=False)  # makes the group
    for _ in range(6):
        await keeper.step()
        await scheduler.step()
        await worker.fetch(block=False)
        await settle(worker)
        await worker.report()
        clock.advance(MINUTE)
    assert [d.nominal_at for d in runner.seen] == [at(n) for n in range(4)]
    stored = (await get_job(store, "job-0")).job
    assert (stored.state, stored.next_run_at) == (JobState.PAUSED, at(4))
    assert stored.pause_note is not None
    assert stored.pause_note["by"] == "waterclock"


async def test_a_slow_job_that_queues_runs_every_time_in_order(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, scheduler = keep(store, clock)
    runner = ScriptedRunner()
    worker, _ = hire(store, clock, runner)
    await create_jobs(store, [registration("job-0", overlap=Overlap.QUEUE_ALL)])
    await worker.fetch(block=False)  # makes the group
    runner.gate.clear()
    for minute in range(5):
        clock.advance(at(minute) - clock.now_ms())
        await keeper.step()
        await scheduler.step()
        await worker.fetch(block=False)
    runner.gate.set()
    while (await get_job(store, "job-0")).live:
        await scheduler.step()
        await worker.fetch(block=False)
        await settle(worker)
        await worker.report()
    assert [delivery.nominal_at for delivery in runner.seen] == [at(n) for n in range(5)]
    assert runner.most == 1
