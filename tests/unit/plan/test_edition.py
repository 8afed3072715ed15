"""What becomes of a next time when the rules of its zone change: every clock time once."""

from __future__ import annotations

from datetime import datetime
from random import Random

import pytest
from rezoning import EARLIER, LATER, ZONE, cron, edition_with, rules_with

from engine import codec
from engine.plan import Calendar, Calendars, Cron, Edition, Every, Joined, Moved, Plan, replan
from engine.plan.zones import load_zone, read_rules

HOUR = 3_600_000
DAY = 24 * HOUR


def at(text: str) -> int:
    """Return a UTC time of January 2027, `15T07:30`; or one with its month, `03-28T01:00`."""
    month = "" if text[2] == "-" else "01-"
    return int(datetime.fromisoformat(f"2027-{month}{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("expr", "before", "next_at", "now", "expected"),
    [
        # The clock is put back.
        pytest.param("0 9 * * *", EARLIER, "15T07:00", "15T06:00", "15T08:00", id="to come"),
        pytest.param("0 9 * * *", EARLIER, "16T07:00", "15T07:30", "16T08:00", id="fired: once"),
        pytest.param("0 9 * * *", EARLIER, "15T07:00", "15T07:10", "15T08:00", id="due too early"),
        pytest.param("0 9,11 * * *", EARLIER, "15T09:00", "15T07:30", "15T10:00", id="every other"),
        pytest.param("0 9 1 7 *", EARLIER, "07-01T07:00", "15T07:00", None, id="right by chance"),
        # It is put forward.
        pytest.param("0 9 * * *", LATER, "15T09:00", "15T07:00", "15T08:00", id="earlier"),
        pytest.param("0 9 * * *", LATER, "15T09:00", "15T08:30", "15T08:00", id="missed: late"),
        pytest.param(
            "0 9-17 * * *", LATER, "15T09:00", "15T07:00", "15T08:00", id="first of a row"
        ),
        pytest.param("0 9-17 * * *", LATER, "15T09:00", "15T08:30", None, id="in a row, passed"),
        pytest.param("0 9-17 * * *", LATER, "15T09:00", "15T09:10", None, id="in a row, due"),
        pytest.param(
            "0 9 1 7 *", LATER, "07-01T09:00", "15T07:00", "07-01T07:00", id="half a year"
        ),
        # Real half hours, and what has no clock on the wall.
        pytest.param("*/30 * * * *", EARLIER, "15T07:00", "15T06:40", None, id="half hours back"),
        pytest.param("*/30 * * * *", LATER, "15T07:00", "15T06:40", None, id="half hours forward"),
        pytest.param("0 * * * *", "Asia/Kolkata", "15T07:30", "15T07:00", "15T12:00", id="by 4:30"),
    ],
)
def test_the_next_time_is_the_first_that_the_clock_has_not_shown_yet(
    expr: str, before: str, next_at: str, now: str, expected: str | None
) -> None:
    moved = replan(cron(expr), at(next_at), at(now), edition_with(before))
    assert moved == (None if expected is None else Moved(at(expected), is_lost=False))


@pytest.mark.parametrize("plan", [Plan.of(Every(HOUR)), cron("0 9 * * *", "Asia/Tokyo")])
def test_other_plans_stay(plan: Plan) -> None:
    next_at = plan.first_after(at("15T00:00"), at("15T00:00"))
    assert next_at is not None
    assert replan(plan, next_at, at("15T00:00"), edition_with(EARLIER)) is None


def test_a_zone_that_the_older_edition_does_not_have_stays() -> None:
    assert replan(cron("0 9 * * *"), at("15T08:00"), at("15T07:00"), Edition({})) is None


@pytest.mark.parametrize(
    ("zone", "before", "next_at", "expected"),
    [
        # 02:00 to 03:00 does not exist on 28 March in Berlin, and does in Lagos.
        ("Africa/Lagos", "Europe/Berlin", "03-28T01:00", "03-28T01:30"),
        ("Europe/Berlin", "Africa/Lagos", "03-28T01:30", "03-28T01:00"),
        # 02:30 comes twice on 31 October: the first one is at 00:30 UTC.
        ("Africa/Lagos", "Europe/Berlin", "10-31T00:30", "10-31T01:30"),
        ("Europe/Berlin", "Africa/Lagos", "10-31T01:30", "10-31T00:30"),
    ],
)
def test_a_change_that_goes_or_comes_takes_the_time_along(
    zone: str, before: str, next_at: str, expected: str
) -> None:
    plan = cron("30 2 * * *", zone)
    moved = replan(plan, at(next_at), at(next_at) - DAY // 2, edition_with(before, zone))
    assert moved == Moved(at(expected), is_lost=False)


def test_bounds_hold_and_may_leave_no_time() -> None:
    plan = Plan("cron", "0 9 * * *", ZONE, end_at=at("15T07:30"))
    moved = replan(plan, at("15T07:00"), at("15T06:00"), edition_with(EARLIER))
    assert moved == Moved(None, is_lost=False)


def test_a_time_that_calendars_have_moved_stays_on_its_day() -> None:
    workdays = Calendars(1, {"workdays": Calendar("workdays", weekdays=frozenset(range(5)))})
    plan = Plan("cron", "0 9 16 1 *", ZONE, calendars=("workdays",), roll="next_business_day")
    moved = replan(plan, at("18T07:00"), at("15T06:00"), edition_with(EARLIER), workdays)
    assert moved == Moved(at("18T08:00"), is_lost=False)


def joined(*schedules: Cron | Every) -> Plan:
    return Plan.of(Joined(schedules), phase=at("15T00:30"))


def test_joined_times_of_one_zone_go_together() -> None:
    plan = joined(Cron("0 9 * * *", ZONE), Cron("0 11 * * *", ZONE))
    assert plan.zones == {ZONE}
    moved = replan(plan, at("15T09:00"), at("15T07:30"), edition_with(EARLIER))
    assert moved == Moved(at("15T10:00"), is_lost=False)
    moved = replan(plan, at("15T09:00"), at("15T08:30"), edition_with(LATER))
    assert moved == Moved(at("15T08:00"), is_lost=False)


@pytest.mark.parametrize("other", [Cron("30 * * * *", "Asia/Tokyo"), Every(HOUR)])
def test_joined_times_that_move_apart_never_go_into_the_past(other: Cron | Every) -> None:
    plan, before = joined(Cron("0 9 * * *", ZONE), other), edition_with(LATER)
    moved = replan(plan, at("15T09:00"), at("15T07:40"), before)
    assert moved == Moved(at("15T08:00"), is_lost=False)
    moved = replan(plan, at("15T09:00"), at("15T08:40"), before)
    assert moved == Moved(at("15T09:30"), is_lost=True)


def wall(zone: str, times: list[int]) -> list[str]:
    """Return what the clock of a zone shows at each time."""
    return [load_zone(zone).local(time // 1000).strftime("%m-%d %H:%M") for time in times]


@pytest.mark.parametrize(
    "other", [EARLIER, LATER, "Asia/Kolkata", "America/New_York", "Asia/Tokyo"]
)
def test_each_clock_time_fires_once_whenever_the_rules_change(other: str) -> None:
    """Times none of which is another one of them by the other edition: those can stay."""
    rng, before = Random(other), edition_with(other)
    for _ in range(300):
        expr = f"{rng.randrange(60)} {rng.choice(['9', '0', '23', '8,22', '12,17'])} * * *"
        now = at("15T00:00") + rng.randrange(300 * DAY)
        recent = cron(expr, other).upcoming(now - 5 * DAY, now, 20)
        fired = [time for time in recent if time <= now]
        next_at = recent[len(fired)]
        moved = replan(cron(expr), next_at, now, before)
        first = next_at if moved is None else moved.next_at
        assert first is not None
        shown = wall(other, fired) + wall(ZONE, cron(expr).upcoming(first - 1, first, 8))
        every = wall("UTC", cron(expr, "UTC").upcoming(now - 9 * DAY, now, 60))
        start = every.index(shown[0])
        assert shown == every[start : start + len(shown)], (expr, now)
        if moved is not None:
            assert replan(cron(expr), first, now, before) is None


def test_rules_are_packed_and_read_again() -> None:
    rules = rules_with(EARLIER)
    packed = codec.dump_rules(rules)
    assert len(packed) < 100_000
    assert codec.load_rules(packed) == rules
    assert Edition(codec.load_rules(packed)).changed(read_rules()) == {ZONE}
    assert Edition(read_rules()).changed(read_rules()) == set()
