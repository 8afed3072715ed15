"""A nominal time on the wall clock: gaps and overlaps are told, and nothing else is."""

from __future__ import annotations

from datetime import datetime

import pytest

from engine.plan import Plan, moment_of, parse_schedule
from engine.plan.moment import repeated_time, skipped_time

NOW = round(datetime.fromisoformat("2026-01-01T00:00Z").timestamp() * 1000)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def plan(expr: str, timezone: str = "Europe/Berlin") -> Plan:
    return Plan.of(parse_schedule(expr, timezone, now=NOW))


@pytest.mark.parametrize(
    ("expr", "when", "dst"),
    [
        ("30 2 * * *", "2026-03-29T03:00+02:00", "gap: 02:30 does not exist on 2026-03-29;"),
        ("0 3 * * *", "2026-03-29T03:00+02:00", None),
        ("30 2 * * *", "2026-03-30T02:30+02:00", None),
        ("30 2 * * *", "2026-10-25T02:30+02:00", "overlap: 02:30 comes twice on 2026-10-25;"),
        ("30 2 * * *", "2026-10-25T02:30+01:00", "overlap: 02:30 comes twice on 2026-10-25;"),
        ("0 3 * * *", "2026-10-25T03:00+01:00", None),
        ("59 1 * * *", "2026-10-25T01:59+02:00", None),
    ],
)
def test_daylight_saving_is_told_where_it_does_something(
    expr: str, when: str, dst: str | None
) -> None:
    found = moment_of(plan(expr), at(when)).dst
    assert found is None if dst is None else (found or "").startswith(dst)


def test_the_two_passes_of_an_hour_are_told_apart() -> None:
    daily = plan("30 2 * * *")
    first = moment_of(daily, at("2026-10-25T02:30+02:00"))
    second = moment_of(daily, at("2026-10-25T02:30+01:00"))
    assert (first.dst or "").endswith("first time")
    assert (second.dst or "").endswith("second time")
    assert first.local.strftime("%Z %z") == "CEST +0200"


def test_an_interval_is_shown_in_the_zone_that_is_asked_for() -> None:
    found = moment_of(plan("every 90s"), at("2026-01-01T00:00:00.250Z"), "Asia/Tokyo")
    assert found.local.isoformat() == "2026-01-01T09:00:00.250000+09:00"


def test_a_skipped_time_is_found_at_the_jump_and_where_it_was_asked_for() -> None:
    daily = plan("30 2 * * *")
    assert skipped_time(daily, at("2026-03-29T02:30+01:00")) == "02:30"
    assert skipped_time(daily, at("2026-03-29T03:00+02:00")) == "02:30"
    assert skipped_time(daily, at("2026-03-29T02:31+01:00")) is None
    assert skipped_time(daily, at("2026-03-28T02:30+01:00")) is None
    assert skipped_time(plan("every 1h"), at("2026-03-29T02:30+01:00")) is None


def test_a_repeated_time_is_one_of_the_plans_own() -> None:
    daily = plan("30 2 * * *")
    assert repeated_time(daily, at("2026-10-25T02:30+01:00"))
    assert not repeated_time(daily, at("2026-10-25T02:31+01:00"))
    assert not repeated_time(daily, at("2026-10-26T02:30+01:00"))
