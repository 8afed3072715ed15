"""Calendars: what is open, what rolls where, and that every time is fired or skipped by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadInput
from engine.plan import (
    Calendar,
    Calendars,
    Cron,
    Every,
    Misfire,
    Plan,
    Proposal,
    Proposer,
    Skipped,
    catch_up,
    propose,
)
from engine.plan.effect import what_calendars_do
from engine.plan.plan import MisfirePolicy
from engine.plan.roll import Roll
from engine.registration import Timing, plan_times

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
FRIDAY = 1_767_312_000_000
"""Friday 2026-01-02T00:00:00Z."""
WEEKEND = Calendar("workdays", weekdays=frozenset(range(5)))
OFFICE = Calendar("office", hours=((9 * 60, 12 * 60), (13 * 60, 17 * 60)))


def snapshot(*calendars: Calendar, stamp: int = 1) -> Calendars:
    return Calendars(stamp, {calendar.name: calendar for calendar in calendars})


def at(text: str, zone: str = "UTC") -> int:
    """Return a local time as ms."""
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return round(local.timestamp() * 1000)


def plan_of(
    expr: str | tuple[str, ...],
    *names: str,
    roll: Roll = "skip",
    zone: str = "UTC",
    misfire: Misfire | None = None,
    calendars: Calendars | None = None,
) -> Plan:
    calendars = calendars or snapshot(*(Calendar(name) for name in names))
    timing = Timing(expr, zone, calendars=names, roll=roll, misfire=misfire or Misfire())
    return plan_times(timing, "a", FRIDAY, calendars).plan


def texts(times: Sequence[int], zone: str = "UTC") -> list[str]:
    local = (datetime.fromtimestamp(time / 1000, ZoneInfo(zone)) for time in times)
    return [f"{time:%m-%d %H:%M}" for time in local]


# What is open


@pytest.mark.parametrize(
    ("day", "is_open"),
    [
        ("2026-01-02", True),  # a Friday
        ("2026-01-03", False),  # a Saturday
        ("2026-01-05", False),  # excluded
        ("2026-01-10", True),  # an included Saturday
        ("2026-01-12", True),  # included and excluded
    ],
)
def test_included_dates_beat_excluded_ones_and_weekdays(day: str, is_open: bool) -> None:
    calendar = Calendar(
        "c",
        weekdays=frozenset(range(5)),
        exclude=frozenset({date(2026, 1, 5), date(2026, 1, 12)}),
        include=frozenset({date(2026, 1, 10), date(2026, 1, 12)}),
    )
    assert calendar.has_date(date.fromisoformat(day)) is is_open
    opening = snapshot(calendar).opening(["c"], "UTC")
    assert (opening.closed_by(at(f"{day}T12:00")) is None) is is_open


@pytest.mark.parametrize(
    ("clock", "is_open"),
    [("08:59", False), ("09:00", True), ("12:00", False), ("13:00", True), ("17:00", False)],
)
def test_hours_hold_their_start_and_not_their_end(clock: str, is_open: bool) -> None:
    opening = snapshot(OFFICE).opening(["office"], "Asia/Tokyo")
    assert (opening.closed_by(at(f"2026-01-02T{clock}", "Asia/Tokyo")) is None) is is_open


def test_the_zone_of_a_calendar_beats_that_of_the_plan() -> None:
    tokyo = Calendar("c", timezone="Asia/Tokyo", weekdays=frozenset(range(5)))
    saturday_in_tokyo = at("2026-01-02T16:00")
    assert snapshot(tokyo).opening(["c"], "UTC").closed_by(saturday_in_tokyo) == "c"
    own = Calendar("c", weekdays=frozenset(range(5)))
    assert snapshot(own).opening(["c"], "UTC").closed_by(saturday_in_tokyo) is None


def test_of_several_calendars_all_must_be_open() -> None:
    opening = snapshot(WEEKEND, OFFICE).opening(["office", "workdays"], "UTC")
    assert opening.closed_by(at("2026-01-02T10:00")) is None
    assert opening.closed_by(at("2026-01-02T08:00")) == "office"
    assert opening.closed_by(at("2026-01-03T10:00")) == "workdays"


def test_a_calendar_that_is_gone_closes_nothing() -> None:
    assert Calendars().opening(["gone"], "UTC").closed_by(FRIDAY) is None
    assert snapshot(WEEKEND).unknown(["gone", "workdays"]) == ["gone"]


@settings(max_examples=200, deadline=None)
@given(
    instant=st.one_of(
        st.integers(FRIDAY - 400 * DAY, FRIDAY + 400 * DAY),
        st.sampled_from(["2026-03-29", "2026-10-25", "2026-11-01", "2026-04-05"]).flatmap(
            lambda day: st.integers(at(f"{day}T00:00") - DAY, at(f"{day}T00:00") + DAY)
        ),
    ),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    probe=st.floats(0, 1),
)
def test_all_instants_of_a_stretch_are_alike(instant: int, zone: str, probe: float) -> None:
    calendar = Calendar("c", weekdays=frozenset({0, 1, 6}), hours=((60, 150), (600, 1440)))
    opening = snapshot(calendar).opening(["c"], zone)
    stretch = opening.stretch(instant)
    assert stretch.start <= instant < stretch.end
    other = stretch.start + int(probe * (stretch.end - stretch.start - 1))
    for each in (stretch.start, other, stretch.end - 1):
        local = datetime.fromtimestamp(each / 1000, ZoneInfo(zone))
        minute = local.hour * 60 + local.minute
        is_open = local.weekday() in (0, 1, 6) and (60 <= minute < 150 or minute >= 600)
        assert (stretch.closed_by is None) is is_open


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"weekdays": ["XX"]}, "weekdays.0"),
        ({"weekdays": "MO"}, "weekdays"),
        ({"hours": ["09:00-09:00"]}, "hours"),
        ({"hours": ["22:00-06:00"]}, "hours"),
        ({"hours": ["09:00-12:00", "11:00-13:00"]}, "hours"),
        ({"hours": ["9-17"]}, "hours.0"),
        ({"hours": ["09:00-24:01"]}, "hours"),
        ({"exclude": ["2026-12-25", "2026-02-30"]}, "exclude.1"),
        ({"include": [5]}, "include.0"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": 5}, "timezone"),
        ({"open": True}, "open"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused_with_its_field(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        Calendar.from_dict("c", fields)
    assert refusal.value.field == field


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "@stamp", "a" * 65])
def test_what_cannot_name_a_calendar_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="name"):
        Calendar(name)


def test_a_calendar_is_what_its_json_says() -> None:
    calendar = Calendar(
        "c",
        3,
        "Europe/Berlin",
        frozenset({0, 6}),
        ((540, 1020), (1200, 1440)),
        frozenset({date(2026, 12, 25)}),
        frozenset({date(2026, 12, 26)}),
    )
    fields = calendar.to_dict()
    assert fields["hours"] == ["09:00-17:00", "20:00-24:00"]
    assert Calendar.from_dict("c", fields, 3) == calendar
    assert Calendar.from_dict("c", {}) == Calendar("c")


# Plans that name calendars


def test_a_plan_without_calendars_keeps_its_id() -> None:
    assert b"calendar" not in Plan.of(Cron("0 9 * * *", "UTC")).canonical
    plan = plan_of("0 9 * * *", "workdays", roll="next_business_day")
    assert Plan.from_canonical(plan.canonical) == plan
    assert plan.id != plan_of("0 9 * * *", "workdays").id


def test_an_interval_takes_the_zone_for_its_calendars() -> None:
    assert plan_of("every 1h", "office", zone="Asia/Tokyo").timezone == "Asia/Tokyo"
    assert plan_of("every 1h", zone="Asia/Tokyo").timezone == "UTC"


@pytest.mark.parametrize(
    ("timing", "field"),
    [
        (Timing("0 9 * * *", calendars=("gone",)), "calendars"),
        (Timing("0 9 * * *", calendars=("workdays", "workdays")), "calendars"),
        (Timing("0 9 * * *", roll="next_business_day"), "roll"),
        (Timing("every 1h", calendars=("workdays",), roll="next_business_day"), "roll"),
        (
            Timing(
                ("every 1h", "0 9 * * *"), calendars=("workdays",), roll="previous_business_day"
            ),
            "roll",
        ),
        (Timing("2030-01-01T00:00:00Z", calendars=("workdays",)), "calendars"),
        (Timing(calendars=("workdays",)), "calendars"),
        (Timing("0 9 * * *", calendars=("workdays",), roll="sideways"), "roll"),  # type: ignore[arg-type]
    ],
)
def test_what_no_calendar_can_do_is_refused_with_its_field(timing: Timing, field: str) -> None:
    with pytest.raises(BadInput) as refusal:
        plan_times(timing, "a", FRIDAY, snapshot(WEEKEND))
    assert refusal.value.field == field


# Roll


@pytest.mark.parametrize(
    ("roll", "expected"),
    [
        # 2026: 1 January is a Thursday, 3 a Saturday, 1 February and 1 March are Sundays.
        ("skip", ["01-03 09:30", "02-01 09:30", "02-03 09:30", "03-01 09:30"]),
        ("next_business_day", ["01-05 09:30", "02-02 09:30", "02-03 09:30", "03-02 09:30"]),
        ("previous_business_day", ["01-02 09:30", "01-30 09:30", "02-03 09:30", "02-27 09:30"]),
    ],
)
def test_a_time_rolls_with_its_time_of_day(roll: Roll, expected: list[str]) -> None:
    plan = plan_of("30 9 1,3 * *", "workdays", roll=roll)
    assert texts(plan.upcoming(FRIDAY, FRIDAY, 4, snapshot(WEEKEND))) == expected


@pytest.mark.parametrize(
    ("roll", "expected"),
    [("next_business_day", "01-19 09:00"), ("previous_business_day", "01-09 09:00")],
)
def test_a_time_rolls_over_a_long_closure(roll: Roll, expected: str) -> None:
    closed = frozenset(date(2026, 1, day) for day in range(10, 19))
    plan, calendar = plan_of("0 9 14 * *", "c", roll=roll), Calendar("c", exclude=closed)
    assert texts(plan.upcoming(FRIDAY, FRIDAY, 1, snapshot(calendar))) == [expected]


def test_times_that_roll_to_one_day_are_in_the_order_of_their_clocks() -> None:
    plan = plan_of(("0 18 * * 6", "0 9 * * 0"), "workdays", roll="next_business_day")
    found = texts(plan.upcoming(FRIDAY, FRIDAY, 3, snapshot(WEEKEND)))
    assert found == ["01-05 09:00", "01-05 18:00", "01-12 09:00"]


@pytest.mark.parametrize("roll", ["next_business_day", "previous_business_day"])
def test_times_that_roll_onto_one_instant_are_one(roll: Roll) -> None:
    plan = plan_of("0 9 * * *", "workdays", roll=roll)
    found = texts(plan.upcoming(FRIDAY, FRIDAY, 4, snapshot(WEEKEND)))
    assert found == ["01-02 09:00", "01-05 09:00", "01-06 09:00", "01-07 09:00"]


def test_a_rolled_time_keeps_the_wall_clock_over_a_change_of_offset() -> None:
    plan = plan_of("30 2 28 3 *", "c", roll="next_business_day", zone="Europe/Berlin")
    calendar = Calendar("c", exclude=frozenset({date(2026, 3, 28)}))
    # 02:30 on Sunday the 29th does not exist: the first instant after the gap.
    [found] = plan.upcoming(FRIDAY, FRIDAY, 1, snapshot(calendar))
    assert texts([found], "Europe/Berlin") == ["03-29 03:00"]


def test_without_a_business_day_within_a_month_a_time_stays_and_is_skipped() -> None:
    never = Calendar("never", weekdays=frozenset())
    plan = plan_of("0 9 * * *", "never", roll="next_business_day")
    due = plan.first_after(FRIDAY, FRIDAY, snapshot(never))
    assert due == FRIDAY + 9 * HOUR
    found = propose(plan, due, due, snapshot(never))
    assert found == Proposal(None, due + DAY, Skipped("calendar", due, due, 1, True, "never"))


def test_hours_do_not_roll() -> None:
    plan = plan_of("0 8 * * *", "office", roll="next_business_day")
    due = FRIDAY + 8 * HOUR
    found = propose(plan, due, due, snapshot(OFFICE))
    assert found == Proposal(None, due + DAY, Skipped("calendar", due, due, 1, True, "office"))


@settings(max_examples=150, deadline=None)
@given(
    expr=st.sampled_from(["0 9 * * *", "30 2 * * *", "0 */6 * * *", "15 23 1,15 * *", "0 0 * * 6"]),
    roll=st.sampled_from(["next_business_day", "previous_business_day"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    closed=st.frozensets(st.integers(0, 400), max_size=120),
    begin=st.integers(0, 300 * DAY),
)
def test_rolled_times_are_those_of_the_definition(
    expr: str, roll: Roll, zone: str, closed: frozenset[int], begin: int
) -> None:
    first = date(2026, 1, 1)
    calendar = Calendar("c", exclude=frozenset(first + timedelta(n) for n in closed))
    calendars = snapshot(calendar)
    plan = plan_of(expr, "c", roll=roll, zone=zone)
    opening, step = plan.opening(calendars), 1 if roll == "next_business_day" else -1
    after, until = FRIDAY + begin, FRIDAY + begin + 20 * DAY
    expected = set()
    base = plan.first_after(after - 40 * DAY, after)
    while base is not None and base < until + 40 * DAY:
        day = home = opening.local(base)[0]
        for distance in range(32):
            if opening.is_business_day(home + step * distance):
                day = home + step * distance
                break
        expected.add(base if day == home else opening.instant_of(day, opening.local(base)[1]))
        base = plan.first_after(base, base)
    found = []
    time = plan.first_after(after, after, calendars)
    while time is not None and time < until:
        found.append(time)
        time = plan.first_after(time, time, calendars)
    assert found == sorted(time for time in expected if after < time < until)


# What is proposed


def test_a_closed_time_is_skipped_alone_while_it_is_on_time() -> None:
    plan = plan_of("* * * * *", "workdays")
    due = at("2026-01-03T10:00")
    expected = Proposal(None, due + MINUTE, Skipped("calendar", due, due, 1, True, "workdays"))
    for lateness in (0, 5, MINUTE):
        assert propose(plan, due, due + lateness, snapshot(WEEKEND)) == expected


def test_late_closed_times_are_skipped_together_up_to_now() -> None:
    plan = plan_of("0 * * * *", "workdays")
    due, monday = at("2026-01-03T00:00"), at("2026-01-05T00:00")
    skipped = Skipped("calendar", due, monday - HOUR, 48, True, "workdays")
    assert propose(plan, due, monday + DAY, snapshot(WEEKEND)) == Proposal(None, monday, skipped)


def test_fire_once_fires_the_latest_time_that_was_open() -> None:
    plan = plan_of("0 * * * *", "workdays")
    due, now = at("2026-01-02T20:00"), at("2026-01-04T12:00")
    found = propose(plan, due, now, snapshot(WEEKEND))
    assert found.nominal_at == at("2026-01-02T23:00")
    assert found.next_at == at("2026-01-03T00:00")
    assert found.skipped == Skipped("late", due, at("2026-01-02T22:00"), 3, True)


def test_open_times_before_a_closed_stretch_are_late_if_later_ones_were_open() -> None:
    plan = plan_of("0 * * * *", "workdays")
    due, now = at("2026-01-02T20:00"), at("2026-01-05T12:00")
    found = propose(plan, due, now, snapshot(WEEKEND))
    saturday = at("2026-01-03T00:00")
    assert found == Proposal(None, saturday, Skipped("late", due, saturday - HOUR, 4, True))


def test_a_time_that_a_changed_calendar_moves_is_neither_fired_nor_skipped() -> None:
    plan = plan_of("0 9 * * 6", "workdays", roll="next_business_day")
    saturday = at("2026-01-03T09:00")
    found = propose(plan, saturday, saturday, snapshot(WEEKEND))
    assert found == Proposal(None, at("2026-01-05T09:00"), None)


def test_a_proposer_forgets_when_a_calendar_changes() -> None:
    plan, proposer = plan_of("0 * * * *", "workdays"), Proposer()
    due = at("2026-01-03T10:00")
    assert proposer.propose(plan, due, due, snapshot(WEEKEND)).nominal_at is None
    opened = snapshot(Calendar("workdays"), stamp=2)
    assert proposer.propose(plan, due, due, opened).nominal_at == due


@settings(max_examples=200, deadline=None)
@given(
    every_ms=st.sampled_from([20 * MINUTE, HOUR, 7 * HOUR, DAY]),
    policy=st.sampled_from(["fire_once", "fire_all", "skip"]),
    max_catch_up=st.sampled_from([1, 3, 1000]),
    grace_ms=st.sampled_from([0, MINUTE, 3 * HOUR]),
    closed=st.frozensets(st.integers(0, 12), max_size=10),
    hours=st.sampled_from([(), ((0, 540),), ((540, 720), (780, 1020))]),
    waits=st.lists(st.integers(0, 4 * DAY), min_size=1, max_size=5),
)
def test_every_time_is_fired_or_skipped_once_and_none_fires_while_closed(
    every_ms: int,
    policy: MisfirePolicy,
    max_catch_up: int,
    grace_ms: int,
    closed: frozenset[int],
    hours: tuple[tuple[int, int], ...],
    waits: list[int],
) -> None:
    days = frozenset(date(2026, 1, 2) + timedelta(n) for n in closed)
    calendars = snapshot(Calendar("c", hours=hours, exclude=days))
    plan = Plan(
        "every",
        interval_ms=every_ms,
        misfire=Misfire(policy, grace_ms, max_catch_up),
        calendars=("c",),
    )
    opening = plan.opening(calendars)
    fired: list[int] = []
    told: list[tuple[int, str]] = []
    pending: int | None = FRIDAY
    now = FRIDAY
    for wait in waits:
        now += wait
        while pending is not None and pending <= now:
            proposal = propose(plan, pending, now, calendars)
            if proposal.nominal_at is not None:
                fired.append(proposal.nominal_at)
            if (skipped := proposal.skipped) is not None:
                times = range(skipped.first_at, skipped.last_at + 1, every_ms)
                assert skipped.count == len(times)
                told += [(time, skipped.detail or skipped.reason) for time in times]
            assert proposal.next_at is not None
            assert proposal.next_at > pending
            pending = proposal.next_at
    assert pending is not None
    gone = [time for time, _ in told]
    assert sorted(fired + gone) == list(range(FRIDAY, pending, every_ms))
    assert all(opening.closed_by(time) is None for time in fired)
    assert all((opening.closed_by(time) or "late") == reason for time, reason in told)
    if policy == "fire_all" and max_catch_up == 1000:
        assert all(reason == "c" for _, reason in told)


# What a pause leaves behind


def test_catching_up_runs_open_times_and_names_the_calendar_between_them() -> None:
    plan = plan_of("0 12 * * *", "workdays", misfire=Misfire("fire_all"))
    first, now = at("2026-01-02T12:00"), at("2026-01-06T13:00")
    found = catch_up(plan, first, now, calendars=snapshot(WEEKEND))
    assert texts(found.run) == ["01-02 12:00", "01-05 12:00", "01-06 12:00"]
    weekend = (at("2026-01-03T12:00"), at("2026-01-04T12:00"), 2)
    assert found.closed == [Skipped("calendar", *weekend, True, "workdays")]
    assert found.skipped is None


def test_catching_up_with_the_latest_passes_over_a_closed_weekend() -> None:
    plan = plan_of("0 12 * * *", "workdays")
    first, now = at("2026-01-01T12:00"), at("2026-01-04T13:00")
    found = catch_up(plan, first, now, calendars=snapshot(WEEKEND))
    assert texts(found.run) == ["01-02 12:00"]
    assert [(skipped.count, skipped.detail) for skipped in found.closed] == [(2, "workdays")]
    assert found.skipped == Skipped("late", first, first, 1, True)


# What is told


def test_what_calendars_do_is_told_in_words() -> None:
    calendars = snapshot(WEEKEND)
    skip = plan_of("0 9 * * *", "workdays")
    saturday, monday = at("2026-01-03T09:00"), at("2026-01-05T09:00")
    assert what_calendars_do(skip, saturday, calendars) == "skipped: closed by calendar workdays"
    assert what_calendars_do(skip, monday, calendars) is None
    assert what_calendars_do(plan_of("0 9 * * *"), saturday, calendars) is None
    rolled = plan_of("0 9 3 * *", "workdays", roll="next_business_day")
    told = what_calendars_do(rolled, monday, calendars)
    assert told == "moved from 2026-01-03: closed by calendar workdays"


def test_an_interval_is_judged_at_its_own_time_in_the_calendars_zone() -> None:
    plan = Plan("every", interval_ms=HOUR, timezone="Asia/Tokyo", calendars=("office",))
    due = datetime(2026, 1, 2, 0, 0, tzinfo=UTC)  # nine in Tokyo
    instant = round(due.timestamp() * 1000)
    assert propose(plan, instant, instant, snapshot(OFFICE)).nominal_at == instant
    assert propose(plan, instant - HOUR, instant - HOUR, snapshot(OFFICE)).nominal_at is None
    assert plan.rule_under(snapshot(OFFICE)) is plan.rule
    assert Plan.of(Every(HOUR)).opening(snapshot(OFFICE)).calendars == ()
