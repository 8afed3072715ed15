"""A scheduler that has a newer edition of the time zones than the one before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fleet import already_set, expire_leases, fired, history, keep
from invariants import Keyspace, read_shard
from rezoning import EARLIER, LATER, OLD, ZONE, be_old, cron
from seeding import MINUTE, NOW, registration

from engine import codec
from engine.clock import ManualClock
from engine.doctor.facts import collect
from engine.errors import Conflict
from engine.execution import SkipReason, SkipRecord
from engine.keys import SCHEDULERS, ZONES
from engine.model import JobState, Overlap
from engine.plan import ZONE_DATABASE, Cron, Every, Joined, Misfire, Plan, read_rules
from engine.registration import Registration
from engine.replanner import Replanner
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store, zones
from engine.store.changes import pause_job, resume_job
from engine.store.jobs import create_jobs, delete_job, get_job
from engine.store.transfer.reading import export_lines
from engine.store.transfer.writing import refuse_full

HOUR, DAY = 60 * MINUTE, 1440 * MINUTE
SEVEN, EIGHT, NINE, TEN = (NOW + n * HOUR for n in (-1, 0, 1, 2))
"""UTC, on the day of NOW. Where it is nine o'clock at SEVEN by EARLIER, and at NINE by LATER, it
is so at EIGHT by the edition of this process."""
FLEET = tuple[ShardKeeper, Scheduler, Replanner]


def asked(
    job_id: str, plan: Plan, next_run_at: int, overlap: Overlap = Overlap.ALLOW
) -> Registration:
    return registration(job_id, plan, next_run_at=next_run_at, overlap=overlap)


async def created(store: Store, *registrations: Registration) -> None:
    assert all(await create_jobs(store, registrations))


def staff(store: Store, clock: ManualClock, holder: str = "s1") -> FLEET:
    keeper, scheduler = keep(store, clock, holder)
    return keeper, scheduler, Replanner(store, clock, keeper)


async def walk(fleet: FLEET) -> None:
    """Take the leases, and step the replanner until it is done."""
    keeper, _, replanner = fleet
    await keeper.step()
    while await replanner.step() < 100:
        pass


async def fire(fleet: FLEET) -> None:
    keeper, scheduler, _ = fleet
    await keeper.step()
    while await scheduler.step() == 0:
        pass


async def run_until(fleet: FLEET, clock: ManualClock, at: int) -> None:
    while clock.now_ms() < at:
        clock.advance(10 * MINUTE)
        await fire(fleet)


async def next_at(store: Store, job_id: str = "job-0") -> int | None:
    return (await get_job(store, job_id)).job.next_run_at


async def spaces(store: Store) -> list[Keyspace]:
    return [await read_shard(store, shard) for shard in store.layout.shards]


async def events(store: Store, kind: str) -> list[str]:
    found = [event for space in await spaces(store) for event in space.get("ledger", [])]
    return sorted(event[1] for event in found if event[0] == kind)


async def test_only_jobs_whose_clock_has_changed_are_moved(any_store: Store) -> None:
    nine = cron("0 9 * * *")
    windowed = replace(nine, window_ms=HOUR)
    others = {
        "tokyo": (cron("0 17 * * *", "Asia/Tokyo"), EIGHT),
        "utc": (cron("0 8 * * *", "UTC"), EIGHT),
        "hourly": (Plan.of(Every(HOUR)), EIGHT),
        "half-hours": (cron("*/30 * * * *"), EIGHT),
    }
    jobs = [asked(f"moved-{n}", nine, SEVEN) for n in range(30)]
    offset = windowed.offset_of("windowed")
    jobs += [asked("windowed", windowed, SEVEN + offset)]
    jobs += [asked(name, plan, at) for name, (plan, at) in others.items()]
    await created(any_store, *jobs)
    await be_old(any_store, EARLIER)
    await walk(staff(any_store, ManualClock(SEVEN - HOUR)))
    assert {await next_at(any_store, f"moved-{n}") for n in range(30)} == {EIGHT}
    assert await next_at(any_store, "windowed") == EIGHT + offset
    assert {await next_at(any_store, name) for name in others} == {EIGHT}
    assert await events(any_store, "replanned") == sorted(
        [f"moved-{n}" for n in range(30)] + ["windowed"]
    )


async def test_a_window_is_no_part_of_what_has_passed(any_store: Store) -> None:
    """Nine o'clock was at EIGHT, and the job is due for it somewhat later."""
    plan = replace(cron("0 9-17 * * *"), window_ms=HOUR)
    offset = plan.offset_of("job-0")
    await created(any_store, asked("job-0", plan, NINE + offset))
    await be_old(any_store, LATER)
    await walk(staff(any_store, ManualClock(EIGHT + offset - 1)))
    assert await next_at(any_store) == EIGHT + offset


async def test_a_page_ends_where_the_next_begins(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.replanning.BATCH", 3)
    names = [f"job-{n}" for n in range(40)]
    await created(any_store, *(asked(name, cron("0 9 * * *"), SEVEN) for name in names))
    await be_old(any_store, EARLIER)
    keeper, _, replanner = fleet = staff(any_store, ManualClock(SEVEN - HOUR))
    await keeper.step()
    await replanner.step()
    # One page of each shard, and no more.
    assert len(await events(any_store, "replanned")) == 3 * len(any_store.layout.shards)
    await replanner.step()
    assert len(await events(any_store, "replanned")) == 6 * len(any_store.layout.shards)
    await walk(fleet)
    assert {await next_at(any_store, name) for name in names} == {EIGHT}


# Across now


async def test_a_time_that_has_fired_does_not_fire_again_an_hour_later(any_store: Store) -> None:
    """It is half past eight again: the old edition had the job fire at SEVEN, and then tomorrow."""
    clock = ManualClock(SEVEN + 30 * MINUTE)
    plan = cron("0 9 * * *", misfire=Misfire("fire_all"))
    await created(any_store, asked("job-0", plan, SEVEN + DAY))
    await be_old(any_store, EARLIER)
    fleet = staff(any_store, clock)
    await walk(fleet)
    await run_until(fleet, clock, EIGHT + DAY)
    assert await fired(any_store) == [f"job-0@{EIGHT + DAY}"]


@pytest.mark.parametrize(
    ("misfire", "expected", "skipped"),
    [
        (Misfire(), [EIGHT, EIGHT + DAY], []),
        (Misfire("fire_all"), [EIGHT, EIGHT + DAY], []),
        (Misfire("skip"), [EIGHT + DAY], [EIGHT]),
        (Misfire("skip", grace_ms=HOUR), [EIGHT, EIGHT + DAY], []),
    ],
)
async def test_a_time_that_has_moved_into_the_past_unfired_is_late(
    any_store: Store, misfire: Misfire, expected: list[int], skipped: list[int]
) -> None:
    clock = ManualClock(EIGHT + 30 * MINUTE)
    await created(any_store, asked("job-0", cron("0 9 * * *", misfire=misfire), NINE))
    await be_old(any_store, LATER)
    fleet = staff(any_store, clock)
    await walk(fleet)
    assert await next_at(any_store) == EIGHT
    await run_until(fleet, clock, EIGHT + DAY)
    assert await fired(any_store) == [f"job-0@{at}" for at in expected]
    assert await history(any_store, "job-0") == [
        SkipRecord(at, at, 1, SkipReason.LATE) for at in skipped
    ]


async def test_what_is_due_before_the_walk_has_come_to_it_fires_once(any_store: Store) -> None:
    clock = ManualClock(SEVEN)
    await created(any_store, asked("job-0", cron("0 9 * * *"), SEVEN))
    await be_old(any_store, EARLIER)
    keeper, scheduler, replanner = fleet = staff(any_store, clock)
    await keeper.step()
    shard = any_store.layout.shard_of("job-0")
    assert await zones.begin_walk(any_store, shard, OLD)
    await scheduler.step()
    assert await fired(any_store) == []
    assert await next_at(any_store) == EIGHT
    await walk(fleet)
    await run_until(fleet, clock, EIGHT)
    assert await fired(any_store) == [f"job-0@{EIGHT}"]
    assert await next_at(any_store) == EIGHT + DAY
    assert any_store.walks == {}
    assert replanner.name == "replanner"


async def test_joined_times_that_move_apart_say_what_is_lost(any_store: Store) -> None:
    schedules = Joined((Cron("0 9 * * *", ZONE), Cron("50 * * * *", "Asia/Tokyo")))
    await created(any_store, asked("job-0", Plan.of(schedules), NINE))
    await be_old(any_store, LATER)
    await walk(staff(any_store, ManualClock(EIGHT + 52 * MINUTE)))
    assert await next_at(any_store) == NINE + 50 * MINUTE
    assert await history(any_store, "job-0") == [SkipRecord(NINE, NINE, 1, SkipReason.LATE)]


async def test_a_paused_job_moves_and_stays_paused(any_store: Store) -> None:
    await created(any_store, asked("job-0", cron("0 9 * * *"), SEVEN))
    await pause_job(any_store, "job-0", SEVEN - HOUR)
    await be_old(any_store, EARLIER)
    await walk(staff(any_store, ManualClock(SEVEN - HOUR)))
    job = (await get_job(any_store, "job-0")).job
    assert (job.state, job.next_run_at) == (JobState.PAUSED, EIGHT)
    await resume_job(any_store, "job-0", SEVEN)
    assert await next_at(any_store) == EIGHT


async def test_a_job_that_changes_meanwhile_stays_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a page and its calls one job goes, and another one is replaced."""
    await created(store, *(asked(f"job-{n}", cron("0 9 * * *"), SEVEN) for n in range(3)))
    await be_old(store, EARLIER)
    many = store.scripts.run_many

    async def late(calls: Sequence[tuple[str, list[str], list[str | bytes | int]]]) -> list[object]:
        if any(name == "replan_job" and args[0] == "job-0" for name, _, args in calls):
            await delete_job(store, "job-0")
        if any(name == "replan_job" and args[0] == "job-1" for name, _, args in calls):
            await delete_job(store, "job-1")
            await created(store, asked("job-1", cron("0 9 * * *"), TEN))
        return await many(calls)

    monkeypatch.setattr(store.scripts, "run_many", late)
    await walk(staff(store, ManualClock(SEVEN - HOUR)))
    assert await next_at(store, "job-1") == TEN
    assert await next_at(store, "job-2") == EIGHT


async def test_a_walk_that_fails_is_not_done(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await created(store, asked("job-0", cron("0 9 * * *"), SEVEN))
    await be_old(store, EARLIER)
    keeper, _, replanner = fleet = staff(store, ManualClock(SEVEN - HOUR))
    await keeper.step()

    async def refuse(calls: Sequence[object]) -> list[Exception]:
        return [OSError("cut") for _ in calls]

    home = store.layout.shard_of("job-0").index

    with monkeypatch.context() as patch:
        patch.setattr(store.scripts, "run_many", refuse)
        with pytest.raises(OSError, match="cut"):
            await replanner.step()
    wanted = [{ZONE_DATABASE} | ({OLD} if index == home else set()) for index in range(4)]
    assert await zones.read_editions(store) == wanted
    await walk(fleet)
    assert await next_at(store) == EIGHT


# Editions


async def test_the_first_scheduler_of_a_deployment_keeps_its_rules(any_store: Store) -> None:
    await walk(staff(any_store, ManualClock(NOW)))
    assert await zones.read_editions(any_store) == [{ZONE_DATABASE}] * 4
    [(edition, packed)] = (await any_store.client.hgetall(ZONES)).items()
    assert (edition.decode(), codec.load_rules(packed)) == (ZONE_DATABASE, read_rules())


async def test_an_edition_that_is_done_is_forgotten_with_its_rules(any_store: Store) -> None:
    await be_old(any_store, EARLIER)
    await walk(staff(any_store, ManualClock(NOW)))
    assert await zones.read_editions(any_store) == [{ZONE_DATABASE}] * 4
    assert [*await any_store.client.hgetall(ZONES)] == [ZONE_DATABASE.encode()]


async def test_rules_stay_while_a_shard_needs_them(any_store: Store) -> None:
    await be_old(any_store, EARLIER)
    shard, *others = any_store.layout.shards
    for other in others:
        await any_store.client.srem(other.zones, OLD)
    await zones.drop_rules(any_store)
    assert await any_store.client.hexists(ZONES, OLD)
    await any_store.client.srem(shard.zones, OLD)
    await zones.drop_rules(any_store)
    assert not await any_store.client.hexists(ZONES, OLD)


async def test_who_takes_over_goes_through_what_is_left_and_moves_nothing_twice(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.replanning.BATCH", 3)
    names = [f"job-{n}" for n in range(40)]
    await created(any_store, *(asked(name, cron("0 9 * * *"), SEVEN) for name in names))
    await be_old(any_store, EARLIER)
    clock = ManualClock(SEVEN - HOUR)
    keeper, _, replanner = staff(any_store, clock)
    await keeper.step()
    await replanner.step()
    await replanner.step()
    await expire_leases(any_store, "s1")
    heir = staff(any_store, clock, "s2")
    await any_store.client.zrem(SCHEDULERS, "s1")
    await walk(heir)
    assert {await next_at(any_store, name) for name in names} == {EIGHT}
    assert await events(any_store, "replanned") == sorted(names)
    # The one that fell silent writes nothing any more.
    before = await spaces(any_store)
    for _ in names:
        await replanner.step()
    assert keeper.trusted() == []
    assert await spaces(any_store) == before


async def test_an_older_edition_moves_nothing_and_warns_once(
    any_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await created(any_store, asked("job-0", cron("0 9 * * *"), SEVEN))
    await be_old(any_store, EARLIER, "2999a")
    before = await next_at(any_store)
    with caplog.at_level(logging.WARNING, "waterclock.replanner"):
        await walk(staff(any_store, ManualClock(SEVEN - HOUR)))
    assert await next_at(any_store) == before
    assert len(caplog.messages) == 1
    assert ZONE_DATABASE in caplog.text
    assert "2999a" in caplog.text
    # The next process with the newer one is to look through what this one works out.
    assert await zones.read_editions(any_store) == [{"2999a", ZONE_DATABASE}] * 4
    assert await any_store.client.hlen(ZONES) == 2


async def test_what_an_older_edition_worked_out_meanwhile_is_moved_in_the_end(
    any_store: Store,
) -> None:
    clock = ManualClock(SEVEN - HOUR)
    await walk(staff(any_store, clock))
    # A process of the older edition has held the shards, and worked out a time.
    await expire_leases(any_store, "s1")
    await be_old(any_store, EARLIER)
    await created(any_store, asked("job-0", cron("0 9 * * *"), SEVEN))
    await walk(staff(any_store, clock, "s1"))
    assert await next_at(any_store) == EIGHT


async def test_rules_that_are_not_kept_are_said_and_nothing_is_moved(
    any_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await created(any_store, asked("job-0", cron("0 9 * * *"), SEVEN))
    await be_old(any_store, EARLIER)
    await any_store.client.hdel(ZONES, OLD)
    with caplog.at_level(logging.WARNING, "waterclock.replanner"):
        await walk(staff(any_store, ManualClock(SEVEN - HOUR)))
    assert OLD in caplog.text
    assert await next_at(any_store) == SEVEN
    assert await zones.read_editions(any_store) == [{ZONE_DATABASE}] * 4


async def test_the_doctor_sees_which_next_times_are_left(store: Store) -> None:
    clock = ManualClock(NOW)
    await be_old(store, EARLIER)
    assert (await collect(store, clock)).zones_before == {OLD}
    await walk(staff(store, clock))
    assert (await collect(store, clock)).zones_before == set()


async def test_a_loop_that_is_told_to_stop_ends(any_store: Store) -> None:
    _, _, replanner = staff(any_store, ManualClock(NOW))
    await asyncio.wait_for(replanner.run(already_set()), 5)


async def test_a_started_scheduler_makes_no_deployment_in_use(any_store: Store) -> None:
    await walk(staff(any_store, ManualClock(NOW)))
    for shard in any_store.layout.shards:
        await any_store.client.delete(shard.fence, shard.lease)
    await refuse_full(any_store)
    await created(any_store, asked("job-0", cron("0 9 * * *"), SEVEN))
    with pytest.raises(Conflict, match="already"):
        await refuse_full(any_store)
    assert [line async for line in export_lines(any_store) if b'"name":"zones"' in line]
