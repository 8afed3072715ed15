"""The fire loop, stepped: every due time once, whoever steps, and nothing lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from fleet import (
    BUSY,
    OK,
    REFUSED,
    ScriptedRunner,
    expire_leases,
    fired,
    hire,
    history,
    keep,
    outcomes,
    settle,
    with_config,
)
from invariants import read_shard
from seeding import (
    EVERY_MINUTE,
    MINUTE,
    NOW,
    ONE_OFF,
    job_ids,
    registration,
    small,
)

from engine.backoff import Retry
from engine.clock import ManualClock
from engine.execution import Outcome, SkipReason, SkipRecord
from engine.model import JobState, Overlap
from engine.plan import Every, Misfire, Plan
from engine.plan.plan import MisfirePolicy
from engine.registration import Registration
from engine.scheduler import Scheduler
from engine.scripts import Call, Scripts
from engine.store import Store
from engine.store.jobs import create_jobs, get_job


def jobs(count: int, plan: Plan = EVERY_MINUTE, **more: Any) -> list[Registration]:
    """Return registrations of jobs in all shards."""
    return [registration(f"job-{n}", plan, **more) for n in range(count)]


async def fire_all(*schedulers: Scheduler) -> None:
    """Step the schedulers in turn until nothing is due."""
    while min([await scheduler.step() for scheduler in schedulers]) == 0:
        pass


async def test_a_thousand_jobs_due_at_once_all_fire_once(store: Store) -> None:
    clock = ManualClock(NOW)
    await create_jobs(store, jobs(1_000))
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    await fire_all(scheduler)
    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(1_000))
    assert scheduler.totals.fired == 1_000


async def test_jobs_of_many_plans_all_fire_once(store: Store) -> None:
    plans = [Plan.of(Every(MINUTE + n)) for n in range(300)]
    await create_jobs(store, [registration(f"job-{n}", plan) for n, plan in enumerate(plans)])
    keeper, scheduler = keep(store, ManualClock(NOW))
    await keeper.step()
    await fire_all(scheduler)
    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(300))
    assert (await get_job(store, "job-7")).job.next_run_at == NOW + MINUTE + 7


async def test_nothing_fires_before_its_time(store: Store) -> None:
    clock = ManualClock(NOW - 1)
    await create_jobs(store, jobs(8))
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    assert await scheduler.step() == 1
    assert await fired(store) == []
    clock.advance(1)
    await scheduler.step()
    assert len(await fired(store)) == 8


async def test_it_sleeps_until_the_next_due_time_and_a_tick_at_the_most(store: Store) -> None:
    clock = ManualClock(NOW - 20)
    keeper, scheduler = keep(store, clock)
    assert await scheduler.step() == store.config.tick_ms
    await keeper.step()
    assert await scheduler.step() == store.config.tick_ms
    await create_jobs(store, jobs(1))
    assert await scheduler.step() == 20
    clock.advance(20)
    await scheduler.step()
    assert await scheduler.step() == store.config.tick_ms


async def test_a_nominal_time_fires_once_with_two_schedulers_in_turn(store: Store) -> None:
    clock = ManualClock(NOW)
    await create_jobs(store, jobs(40, overlap=Overlap.ALLOW))
    (one, first), (two, second) = keep(store, clock, "s1"), keep(store, clock, "s2")
    for _ in range(3):
        await one.step()
        await two.step()
    for _ in range(3):
        await fire_all(first, second)
        clock.advance(MINUTE // 3)
        await one.step()
        await two.step()
        clock.advance(MINUTE - MINUTE // 3)
        await one.step()
        await two.step()
    wanted = [f"job-{n}@{NOW + k * MINUTE}" for n in range(40) for k in range(3)]
    assert sorted(await fired(store)) == sorted(wanted)
    assert first.totals.fired + second.totals.fired == 120
    assert 0 < first.totals.fired < 120


async def test_a_fenced_scheduler_changes_nothing_and_stops_trying(store: Store) -> None:
    frozen, zombie = keep(store, ManualClock(NOW), "s1")
    await frozen.step()
    await create_jobs(store, jobs(8))
    await expire_leases(store, "s1")
    heir, _ = keep(store, ManualClock(NOW + store.config.lease_ttl_ms), "s2")
    await heir.step()
    before = [await read_shard(store, shard) for shard in store.layout.shards]
    assert len(frozen.trusted()) == 4

    await zombie.step()

    assert [await read_shard(store, shard) for shard in store.layout.shards] == before
    assert zombie.totals.fired == 0
    assert frozen.trusted() == []


async def test_another_scheduler_goes_on_where_a_dead_one_stopped(store: Store) -> None:
    store = with_config(store, batch=1)
    keeper, scheduler = keep(store, ManualClock(NOW), "s1")
    await keeper.step()
    await create_jobs(store, jobs(120))
    await scheduler.step()
    done = scheduler.totals.fired
    assert 0 < done < 120

    await expire_leases(store, "s1")
    heir, follower = keep(store, ManualClock(NOW + store.config.lease_ttl_ms), "s2")
    await heir.step()
    await fire_all(follower)

    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(120))
    assert follower.totals.fired == 120 - done


async def test_an_untrusted_lease_is_not_used(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    await create_jobs(store, jobs(8))
    clock.advance(store.config.lease_ttl_ms)
    assert await scheduler.step() == store.config.tick_ms
    assert await fired(store) == []


async def test_a_lease_whose_trust_ends_during_a_step_is_not_used_any_more(store: Store) -> None:
    clock = ManualClock(NOW)

    class Slow(Scripts):
        async def run_many(self, calls: Sequence[Call]) -> list[Any]:
            if calls[0][0] == "fire_due":
                clock.advance(store.config.lease_ttl_ms)
            return await super().run_many(calls)

    ids = job_ids(store, 3)
    await create_jobs(store, [registration(name) for name in ids])
    slow = replace(with_config(store, batch=1), scripts=Slow(store.client))
    keeper, scheduler = keep(slow, clock)
    await keeper.step()
    await scheduler.step()
    assert len(await fired(store)) == 1


async def test_a_lost_answer_to_a_commit_fires_nothing_twice(store: Store) -> None:
    class DeafOnce(Scripts):
        is_deaf = True

        async def run_many(self, calls: Sequence[Call]) -> list[Any]:
            replies = await super().run_many(calls)
            if calls[0][0] == "fire_due" and self.is_deaf:
                self.is_deaf = False
                raise ConnectionError("cut")
            return replies

    keeper, scheduler = keep(replace(store, scripts=DeafOnce(store.client)), ManualClock(NOW))
    await keeper.step()
    await create_jobs(store, jobs(40))
    with pytest.raises(ConnectionError):
        await scheduler.step()
    await fire_all(scheduler)
    assert sorted(await fired(store)) == sorted(f"job-{n}@{NOW}" for n in range(40))


async def test_a_plan_that_is_unknown_is_told_once_holds_up_nothing_else_and_does_not_spin(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Plan.of(Every(7 * MINUTE))
    ids = job_ids(store, 6)
    await create_jobs(
        store, [registration(name, odd if name in ids[:3] else EVERY_MINUTE) for name in ids]
    )
    plans = store.layout.shard_of("job-0").plans
    await store.client.hdel(plans, odd.id)
    keeper, scheduler = keep(store, ManualClock(NOW))
    await keeper.step()

    pauses = [await scheduler.step() for _ in range(4)]

    assert pauses == [0, 0, store.config.tick_ms, store.config.tick_ms]
    assert sorted(await fired(store)) == sorted(f"{name}@{NOW}" for name in ids[3:])
    assert caplog.text.count(odd.id) == 1
    await store.client.hset(plans, odd.id, odd.canonical)
    await fire_all(scheduler)
    assert len(await fired(store)) == 6


async def test_a_shard_that_fails_is_told_after_the_others_had_their_turn(store: Store) -> None:
    broken = store.layout.shards[0]

    class Broken(Scripts):
        async def run_many(self, calls: Sequence[Call]) -> list[Any]:
            broken_ones = [name == "fire_due" and broken.fence in keys for name, keys, _ in calls]
            sound = [c for c, is_broken in zip(calls, broken_ones, strict=True) if not is_broken]
            replies = iter(await super().run_many(sound) if sound else [])
            cut = ConnectionError("cut")
            return [cut if is_broken else next(replies) for is_broken in broken_ones]

    await create_jobs(store, jobs(40))
    keeper, scheduler = keep(replace(store, scripts=Broken(store.client)), ManualClock(NOW))
    await keeper.step()

    before = asyncio.all_tasks()
    with pytest.raises(ConnectionError):
        await scheduler.step()

    assert asyncio.all_tasks() == before
    ids = {f"job-{n}" for n in range(40)}
    sound = {name for name in ids if store.layout.shard_of(name) is not broken}
    assert {execution.partition("@")[0] for execution in await fired(store)} == sound < ids


async def test_a_clock_that_was_set_back_between_look_and_proposal_fires_all_the_same(
    store: Store,
) -> None:
    class Back(ManualClock):
        looks: Sequence[int] = (NOW,)

        def now_ms(self) -> int:
            first, *self.looks = self.looks or [NOW - 5]
            return first

    await create_jobs(store, jobs(1))
    clock = Back(NOW)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    clock.looks = [NOW]
    await scheduler.step()
    assert await fired(store) == [f"job-0@{NOW}"]


async def test_backlog_waits_for_room_and_is_released_in_the_order_of_its_times(
    store: Store,
) -> None:
    store = small(store, max_ready=2)
    ids = job_ids(store, 9)
    await create_jobs(
        store, [registration(name, ONE_OFF, next_run_at=NOW + n) for n, name in enumerate(ids)]
    )
    keeper, scheduler = keep(store, ManualClock(NOW + 10))
    await keeper.step()
    done: list[str] = []
    while len(done) < len(ids):
        await scheduler.step()
        assert await scheduler.step() == store.config.tick_ms
        runner = ScriptedRunner()
        worker, _ = hire(store, ManualClock(NOW + 10), runner)
        await worker.fetch(block=False)  # makes the group
        await worker.fetch(block=False)
        await settle(worker)
        assert 0 < await worker.report() <= 2
        done += [delivery.job_id for delivery in runner.seen]
    assert done == ids
    assert scheduler.totals.fired == 9


async def test_a_full_queue_holds_up_no_other_queue(store: Store) -> None:
    store = small(store, max_ready=1)
    full, also, other = job_ids(store, 3)
    keeper, scheduler = keep(store, ManualClock(NOW))
    await keeper.step()
    await create_jobs(store, [registration(full), registration(also)])
    await create_jobs(store, [registration(other, queue="quick")])
    await scheduler.step()
    assert set(await fired(store)) in ({f"{full}@{NOW}", f"{other}@{NOW}"},)
    assert scheduler.totals.held == 1


@pytest.mark.parametrize(
    ("policy", "nominal", "skipped", "next_at"),
    [
        ("fire_once", [10], (0, 9, 10), 11),
        ("fire_all", list(range(11)), None, 11),
        ("skip", [10], (0, 9, 10), 11),
    ],
)
async def test_after_downtime_the_misfire_policy_decides(
    store: Store,
    policy: MisfirePolicy,
    nominal: list[int],
    skipped: tuple[int, int, int] | None,
    next_at: int,
) -> None:
    """Ten and a half minutes late, with a grace of half a minute: the tenth minute is on time."""
    plan = Plan.of(Every(MINUTE), Misfire(policy, grace_ms=30_000))
    await create_jobs(store, [registration("job-0", plan, overlap=Overlap.ALLOW)])
    keeper, scheduler = keep(store, ManualClock(NOW + 10 * MINUTE + 30_000))
    await keeper.step()
    await fire_all(scheduler)
    assert await fired(store) == [f"job-0@{NOW + n * MINUTE}" for n in nominal]
    records = await history(store, "job-0")
    if skipped is None:
        assert records == []
    else:
        first, last, count = skipped
        assert records == [
            SkipRecord(NOW + first * MINUTE, NOW + last * MINUTE, count, SkipReason.LATE)
        ]
    assert (await get_job(store, "job-0")).job.next_run_at == NOW + next_at * MINUTE


async def test_a_job_that_still_runs_is_skipped_with_a_record(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, scheduler = keep(store, clock)
    await create_jobs(store, jobs(1))
    await keeper.step()
    await scheduler.step()
    clock.advance(MINUTE)
    await keeper.step()
    await scheduler.step()
    assert await fired(store) == [f"job-0@{NOW}"]
    at = NOW + MINUTE
    assert await history(store, "job-0") == [SkipRecord(at, at, 1, SkipReason.OVERLAP)]


async def test_a_one_off_fires_and_its_job_is_completed(store: Store) -> None:
    await create_jobs(store, jobs(1, ONE_OFF))
    keeper, scheduler = keep(store, ManualClock(NOW + 5))
    await keeper.step()
    await fire_all(scheduler)
    assert await fired(store) == [f"job-0@{NOW}"]
    assert (await get_job(store, "job-0")).job.state is JobState.COMPLETED


async def run_through(store: Store, runner: ScriptedRunner, retry: Retry) -> list[int]:
    """Fire one job and make its attempts, each when it is due; return when each one began."""
    clock = ManualClock(NOW)
    keeper, scheduler = keep(store, clock)
    worker, _ = hire(store, clock, runner)
    one_off = registration("job-0", ONE_OFF)
    await create_jobs(store, [replace(one_off, job=replace(one_off.job, retry=retry))])
    await worker.fetch(block=False)  # makes the group
    began: list[int] = []
    while (await get_job(store, "job-0")).live or not began:
        await keeper.step()
        pause_ms = await scheduler.step()
        if await worker.fetch(block=False):
            began.append(clock.now_ms())
            await settle(worker)
            await worker.report()
        clock.advance(int(pause_ms))
    return began


async def test_a_failing_execution_is_tried_again_after_its_backoff_until_it_succeeds(
    store: Store,
) -> None:
    runner = ScriptedRunner({"job-0": [BUSY, RuntimeError("a bug"), OK]})
    retry = Retry(max_attempts=5, base_ms=100, jitter="none")
    assert await run_through(store, runner, retry) == [NOW, NOW + 100, NOW + 300]
    assert await outcomes(store, "job-0") == [
        (1, Outcome.FAILED),
        (2, Outcome.FAILED),
        (3, Outcome.SUCCEEDED),
    ]
    assert len({delivery.execution_id for delivery in runner.seen}) == 1
    assert await dead(store) == []


@pytest.mark.parametrize(
    ("answers", "attempts"), [([BUSY, BUSY, BUSY, OK], 3), ([BUSY, REFUSED, OK], 2)]
)
async def test_an_execution_is_dead_after_its_last_attempt_or_a_final_answer(
    store: Store, answers: list[Any], attempts: int
) -> None:
    runner = ScriptedRunner({"job-0": answers})
    began = await run_through(store, runner, Retry(max_attempts=3, base_ms=10, jitter="none"))
    assert len(began) == attempts
    *before, last = await outcomes(store, "job-0")
    assert {outcome for _, outcome in before} == {Outcome.FAILED}
    assert last == (attempts, Outcome.DEAD)
    assert await dead(store) == [f"job-0@{NOW}"]


async def dead(store: Store) -> list[str]:
    """Return the dead-lettered executions of the shard of job-0."""
    found = await store.client.zrange(store.layout.shard_of("job-0").dead, 0, -1)
    return [execution_id.decode() for execution_id in found]
