"""Calendars in Redis, and what a change of one does to jobs that fire meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date

import pytest
from fleet import fired, history, keep
from seeding import MINUTE, NOW

from engine.clock import ManualClock
from engine.errors import Conflict, NotFound
from engine.execution import SkipReason, SkipRecord
from engine.model import JobState, Overlap, WorkerTarget
from engine.plan import Calendar, Misfire
from engine.plan.roll import Roll
from engine.registration import Registration, Timing, register
from engine.roles import ServerWatch
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.calendars import (
    MOST_CALENDARS,
    delete_calendar,
    get_calendar,
    put_calendar,
    replan_jobs,
)
from engine.store.changes import pause_job, preview_resume, resume_job
from engine.store.jobs import create_jobs, delete_job, get_job, run_job
from engine.store.replanning import BATCH
from engine.store.snapshot import read_calendars

HOUR, DAY = 60 * MINUTE, 1440 * MINUTE
FRIDAY = date(2027, 1, 15)
"""The day of NOW, 08:00."""
SATURDAY, SUNDAY, MONDAY = (date(2027, 1, day) for day in (16, 17, 18))
WEEKEND = Calendar("workdays", weekdays=frozenset(range(5)))
OPEN = Calendar("workdays")


def without(*days: date) -> Calendar:
    return Calendar("workdays", exclude=frozenset(days))


def asked(
    store: Store,
    job_id: str = "job-0",
    expr: str = "0 9 * * *",
    *,
    roll: Roll = "skip",
    misfire: Misfire | None = None,
    window_ms: int = 0,
) -> Registration:
    timing = Timing(
        expr,
        calendars=("workdays",),
        roll=roll,
        misfire=misfire or Misfire(),
        window_ms=window_ms,
    )
    return register(
        now=NOW,
        target=WorkerTarget(),
        job_id=job_id,
        timing=timing,
        overlap=Overlap.ALLOW,
        calendars=store.calendars,
    )


async def created(store: Store, *registrations: Registration) -> None:
    assert all(await create_jobs(store, registrations))


async def run_until(
    fleet: tuple[ShardKeeper, Scheduler], clock: ManualClock, at: int, step_ms: int
) -> None:
    """Let time pass in steps, and fire what is due in each."""
    keeper, scheduler = fleet
    while clock.now_ms() < at:
        clock.advance(step_ms)
        await keeper.step()
        while await scheduler.step() == 0:
            pass


async def next_at(store: Store, job_id: str = "job-0") -> int | None:
    return (await get_job(store, job_id)).job.next_run_at


# Stored


async def test_a_calendar_is_read_as_it_was_put(any_store: Store) -> None:
    given = Calendar(
        "a", timezone="Asia/Tokyo", hours=((540, 1020),), include=frozenset({SATURDAY})
    )
    stored = await put_calendar(any_store, given, NOW)
    assert stored == replace(given, version=1)
    assert await get_calendar(any_store, "a") == stored


async def test_versions_grow_over_all_calendars(any_store: Store) -> None:
    versions = [(await put_calendar(any_store, Calendar(name), NOW)).version for name in "aba"]
    assert versions == [1, 2, 3]
    await delete_calendar(any_store, "a")
    assert (await put_calendar(any_store, Calendar("a"), NOW)).version == 5


async def test_a_version_that_is_old_changes_nothing(any_store: Store) -> None:
    first = await put_calendar(any_store, OPEN, NOW)
    second = await put_calendar(any_store, WEEKEND, NOW, first.version)
    with pytest.raises(Conflict, match="has changed"):
        await put_calendar(any_store, OPEN, NOW, first.version)
    with pytest.raises(Conflict, match="has changed"):
        await delete_calendar(any_store, "workdays", first.version)
    assert await get_calendar(any_store, "workdays") == second
    with pytest.raises(NotFound):
        await put_calendar(any_store, Calendar("b"), NOW, 1)
    await delete_calendar(any_store, "workdays", second.version)
    assert (await read_calendars(any_store)).by_name == {}


async def test_what_is_not_there_is_not_found(any_store: Store) -> None:
    with pytest.raises(NotFound):
        await get_calendar(any_store, "a")
    with pytest.raises(NotFound):
        await delete_calendar(any_store, "a")


async def test_there_is_a_most_of_calendars(any_store: Store) -> None:
    await put_calendar(any_store, OPEN, NOW)
    many = {str(n): OPEN for n in range(MOST_CALENDARS)}
    any_store.calendars = replace(any_store.calendars, by_name=many)
    with pytest.raises(Conflict, match="already"):
        await put_calendar(any_store, WEEKEND, NOW)


async def test_a_calendar_that_a_job_names_is_kept(any_store: Store) -> None:
    await put_calendar(any_store, WEEKEND, NOW)
    await created(any_store, asked(any_store))
    with pytest.raises(Conflict, match="job-0"):
        await delete_calendar(any_store, "workdays")
    await delete_job(any_store, "job-0")
    # The plan is still there, and no job has it.
    assert await any_store.client.hlen(any_store.layout.shard_of("job-0").plans) == 1
    await delete_calendar(any_store, "workdays")


async def test_a_process_sees_the_calendars_of_another_within_a_second(store: Store) -> None:
    other = await Store.open(store.config)
    clock = ManualClock(NOW)
    watch = ServerWatch(other, clock)
    async with other:
        await watch.step()
        await put_calendar(store, WEEKEND, NOW)
        assert other.calendars.by_name == {}
        assert await watch.step() <= 1_000
        assert other.calendars == store.calendars
        seen = other.calendars
        await watch.step()
        assert other.calendars is seen


# Skip


async def test_a_closed_time_is_skipped_with_the_calendars_name(any_store: Store) -> None:
    clock = ManualClock(NOW)
    await put_calendar(any_store, WEEKEND, NOW)
    await created(any_store, asked(any_store))
    fleet = keep(any_store, clock)
    await run_until(fleet, clock, NOW + 4 * DAY, HOUR)
    nine = NOW + HOUR
    assert await fired(any_store) == [f"job-0@{nine}", f"job-0@{nine + 3 * DAY}"]
    closed = [nine + DAY, nine + 2 * DAY]
    assert await history(any_store, "job-0") == [
        SkipRecord(at, at, 1, SkipReason.CALENDAR, detail="workdays") for at in closed
    ]


async def test_the_ledger_says_calendar_and_name(any_store: Store) -> None:
    clock = ManualClock(NOW)
    await put_calendar(any_store, without(FRIDAY), NOW)
    await created(any_store, asked(any_store))
    fleet = keep(any_store, clock)
    await run_until(fleet, clock, NOW + HOUR, HOUR)
    [ledger] = [
        await any_store.client.xrange(shard.ledger)
        for shard in any_store.layout.shards
        if await any_store.client.exists(shard.ledger)
    ]
    at = NOW + HOUR
    record = f'["skipped","job-0",[{at},"skipped",{at},1,1,"calendar: workdays"]]'
    assert record.encode() in b"\n".join(fields[b"events"] for _, fields in ledger)


async def test_a_changed_calendar_decides_at_the_due_time(any_store: Store) -> None:
    clock = ManualClock(NOW)
    await put_calendar(any_store, WEEKEND, NOW)
    await created(any_store, asked(any_store))
    fleet = keep(any_store, clock)
    await run_until(fleet, clock, NOW + DAY, HOUR)
    due = await next_at(any_store)
    await put_calendar(any_store, without(SUNDAY), clock.now_ms())
    assert await next_at(any_store) == due
    await run_until(fleet, clock, NOW + 3 * DAY, HOUR)
    assert (await fired(any_store))[1:] == [f"job-0@{NOW + HOUR + DAY}"]
    [sunday] = await history(any_store, "job-0")
    assert isinstance(sunday, SkipRecord)
    assert (sunday.first_at, sunday.told) == (NOW + HOUR + 2 * DAY, "calendar: workdays")


async def test_a_scheduler_looks_for_a_calendar_that_is_younger_than_its_snapshot(
    store: Store,
) -> None:
    clock = ManualClock(NOW)
    other = await Store.open(store.config)
    async with other:
        fleet = keep(other, clock)
        await put_calendar(store, without(FRIDAY), NOW)
        await created(store, asked(store))
        assert other.calendars.by_name == {}
        await run_until(fleet, clock, NOW + HOUR, HOUR)
    assert await fired(store) == []
    assert await next_at(store) == NOW + HOUR + DAY


async def test_after_downtime_every_time_has_its_reason(any_store: Store) -> None:
    clock = ManualClock(NOW)
    await put_calendar(any_store, WEEKEND, NOW)
    await created(any_store, asked(any_store, expr="0 * * * *", misfire=Misfire("fire_once")))
    clock.advance(3 * DAY + HOUR + MINUTE)
    keeper, scheduler = keep(any_store, clock)
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    monday_nine = NOW + 3 * DAY + HOUR
    assert await fired(any_store) == [f"job-0@{monday_nine}"]
    told = [
        (record.first_at, record.count, record.told)
        for record in await history(any_store, "job-0")
        if isinstance(record, SkipRecord)
    ]
    saturday, monday = NOW + 16 * HOUR, NOW + 64 * HOUR
    assert told == [
        (NOW + HOUR, 15, "late"),
        (saturday, 48, "calendar: workdays"),
        (monday, 9, "late"),
    ]


async def test_resuming_runs_open_times_and_records_closed_ones(any_store: Store) -> None:
    await put_calendar(any_store, without(SATURDAY, SUNDAY), NOW)
    await created(any_store, asked(any_store, misfire=Misfire("fire_all")))
    await pause_job(any_store, "job-0", NOW)
    nine, now = NOW + HOUR, NOW + 3 * DAY + 2 * HOUR
    previewed = await preview_resume(any_store, "job-0", now)
    assert previewed.run == [nine, nine + 3 * DAY]
    assert await resume_job(any_store, "job-0", now) == previewed
    assert await history(any_store, "job-0") == [
        SkipRecord(nine + DAY, nine + 2 * DAY, 2, SkipReason.CALENDAR, detail="workdays")
    ]


# Roll


@pytest.mark.parametrize(
    ("roll", "calendar", "expected"),
    [
        ("next_business_day", WEEKEND, NOW + HOUR + 3 * DAY),
        ("next_business_day", without(SATURDAY), NOW + HOUR + 2 * DAY),
        ("next_business_day", OPEN, NOW + HOUR + DAY),
        ("previous_business_day", WEEKEND, NOW + HOUR),
        ("previous_business_day", OPEN, NOW + HOUR + DAY),
    ],
)
async def test_a_changed_calendar_moves_the_next_time(
    any_store: Store, roll: Roll, calendar: Calendar, expected: int
) -> None:
    await put_calendar(any_store, without(MONDAY), NOW)
    await created(any_store, asked(any_store, expr="0 9 16 1 *", roll=roll))
    assert await next_at(any_store) == NOW + HOUR + DAY
    await put_calendar(any_store, calendar, NOW)
    assert await next_at(any_store) == expected
    assert await replan_jobs(any_store, "workdays", NOW) == 0
    assert await history(any_store, "job-0") == []


async def test_a_time_that_moves_into_the_past_is_skipped_by_name(any_store: Store) -> None:
    await put_calendar(any_store, OPEN, NOW)
    saturday = NOW + HOUR + DAY
    await created(any_store, asked(any_store, expr="0 9 16 * *", roll="previous_business_day"))
    await put_calendar(any_store, without(SATURDAY), NOW + 2 * HOUR)
    assert await history(any_store, "job-0") == [
        SkipRecord(saturday, saturday, 1, SkipReason.CALENDAR, detail="workdays")
    ]
    later = await next_at(any_store)
    assert later is not None
    assert later > saturday


async def test_a_time_that_is_due_is_judged_as_it_comes(any_store: Store) -> None:
    clock = ManualClock(NOW + DAY + HOUR)
    await put_calendar(any_store, OPEN, NOW)
    await created(any_store, asked(any_store, expr="0 9 16 * *", roll="next_business_day"))
    await put_calendar(any_store, without(SATURDAY), clock.now_ms())
    assert await next_at(any_store) == NOW + DAY + HOUR
    fleet = keep(any_store, clock)
    for each in fleet:
        await each.step()
    assert await next_at(any_store) == NOW + 2 * DAY + HOUR
    assert await fired(any_store) == []
    assert await history(any_store, "job-0") == []
    await run_until(fleet, clock, NOW + 2 * DAY + HOUR, DAY)
    assert await fired(any_store) == [f"job-0@{NOW + 2 * DAY + HOUR}"]


async def test_a_change_reaches_all_jobs_that_name_the_calendar_and_no_others(
    any_store: Store,
) -> None:
    await put_calendar(any_store, OPEN, NOW)
    rolled = [
        asked(any_store, f"rolled-{n}", "0 9 16 1 *", roll="next_business_day", window_ms=HOUR)
        for n in range(BATCH // 4)
    ]
    others = [asked(any_store, f"skipped-{n}", "0 9 16 1 *") for n in range(5)]
    await created(any_store, *rolled, *others)
    await pause_job(any_store, "rolled-3", NOW)
    before = {r.job.id: r.job.next_run_at for r in (*rolled, *others)}
    await put_calendar(any_store, without(SATURDAY), NOW)
    for job_id, due_at in before.items():
        assert due_at is not None
        moved_by = DAY if job_id.startswith("rolled") else 0
        assert await next_at(any_store, job_id) == due_at + moved_by
    assert (await get_job(any_store, "rolled-3")).job.state is JobState.PAUSED


async def test_a_batch_ends_where_the_next_begins(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.replanning.BATCH", 3)
    await put_calendar(any_store, OPEN, NOW)
    jobs = [asked(any_store, f"j{n}", "0 9 16 1 *", roll="next_business_day") for n in range(40)]
    await created(any_store, *jobs)
    await put_calendar(any_store, without(SATURDAY), NOW)
    found = [await next_at(any_store, job.job.id) for job in jobs]
    assert set(found) == {NOW + HOUR + 2 * DAY}


async def test_a_job_that_changed_while_it_was_replanned_stays_as_it_is(store: Store) -> None:
    clock = ManualClock(NOW)
    await put_calendar(store, OPEN, NOW)
    await created(store, asked(store, roll="next_business_day"))
    shard = store.layout.shard_of("job-0")
    keys = [shard.job("job-0"), shard.runs("job-0"), shard.buckets, shard.ledger]
    args: list[str | int] = ["job-0", NOW, NOW + DAY, "", shard.due_prefix, 50, 1_000]
    with pytest.raises(Conflict, match="another time"):
        await store.scripts.run("replan_job", keys, args)
    with pytest.raises(NotFound):
        await store.scripts.run("replan_job", [shard.job("gone"), *keys[1:]], ["gone", *args[1:]])
    assert await next_at(store) == NOW + HOUR
    fleet = keep(store, clock)
    firing = run_until(fleet, clock, NOW + 2 * DAY, HOUR)
    await asyncio.gather(firing, put_calendar(store, WEEKEND, NOW), put_calendar(store, OPEN, NOW))
    due = await next_at(store)
    assert due is not None
    assert due > clock.now_ms()


async def test_a_job_without_a_time_to_come_is_completed(any_store: Store) -> None:
    await put_calendar(any_store, OPEN, NOW)
    timing = Timing(
        "0 9 16 1 *", calendars=("workdays",), roll="next_business_day", end_at=NOW + DAY + 2 * HOUR
    )
    made = register(
        now=NOW,
        target=WorkerTarget(),
        job_id="job-0",
        timing=timing,
        calendars=any_store.calendars,
    )
    await created(any_store, made)
    await put_calendar(any_store, without(SATURDAY), NOW)
    job = (await get_job(any_store, "job-0")).job
    assert (job.state, job.next_run_at) == (JobState.COMPLETED, None)


async def test_a_run_by_hand_never_stands_for_a_rolled_time(any_store: Store) -> None:
    await put_calendar(any_store, without(SATURDAY), NOW)
    await created(any_store, asked(any_store, expr="0 9 16 * *", roll="next_business_day"))
    sunday = NOW + HOUR + 2 * DAY
    assert await run_job(any_store, "job-0", sunday) == f"job-0@{sunday + 1}"
