"""Seconds, with daylight saving, against a slow evaluator that looks at the clock every second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest

from engine.plan import Cron, Plan

BERLIN = "Europe/Berlin"
SPRING, AUTUMN = "2026-03-29T00:50:00", "2026-10-25T00:50:00"
"""UTC; the clock of Berlin changes ten minutes later."""
HALF_HOUR = "2026-04-04T14:50:00"
"""UTC; the clock of Lord Howe goes back by half an hour ten minutes later."""


@lru_cache
def wall_clock(timezone: str, start: str, seconds: int) -> list[tuple[int, datetime]]:
    zone, first = ZoneInfo(timezone), datetime.fromisoformat(start).replace(tzinfo=UTC)
    moments = [first + timedelta(seconds=n) for n in range(seconds)]
    return [(int(m.timestamp()), m.astimezone(zone).replace(tzinfo=None)) for m in moments]


def values(field: str, width: int) -> set[int]:
    if field == "*":
        return set(range(width))
    if "/" in field:
        start, _, step = field.partition("/")
        return set(range(0 if start == "*" else int(start), width, int(step)))
    return {int(value) for value in field.split(",")}


def oracle(expr: str, timezone: str, start: str, seconds: int) -> list[int]:
    """A wildcard job fires when the clock shows a match; another when it first reaches one."""
    texts = expr.split()[:3]
    wanted = [values(text, width) for text, width in zip(texts, (60, 60, 24), strict=True)]

    def matches(t: datetime) -> bool:
        return t.second in wanted[0] and t.minute in wanted[1] and t.hour in wanted[2]

    wildcard = texts[1][0] == "*" or texts[2][0] == "*"
    clock, found = wall_clock(timezone, start, seconds), []
    highest = clock[0][1]
    for at, local in clock[1:]:
        if wildcard:
            due = matches(local)
        else:
            passed = round((local - highest).total_seconds())
            due = any(matches(local - timedelta(seconds=n)) for n in range(max(passed, 0)))
            highest = max(highest, local)
        if due:
            found.append(at)
    return found


@pytest.mark.parametrize(
    "expr",
    [
        "*/20 */15 2 * * *",
        "30 0/10 2 * * *",
        "5,35 30 2 * * *",
        "0 0 3 * * *",
        "15 * 2,3 * * *",
        "* 30 2 * * *",
        "59 59 1 * * *",
        "0/25 1,59 1,2,3 * * *",
    ],
)
@pytest.mark.parametrize(
    ("timezone", "start"), [(BERLIN, SPRING), (BERLIN, AUTUMN), ("Australia/Lord_Howe", HALF_HOUR)]
)
def test_seconds_around_a_change_are_those_of_the_oracle(
    expr: str, timezone: str, start: str
) -> None:
    seconds = 2 * 3600
    after = wall_clock(timezone, start, seconds)[0][0] * 1000
    expected = oracle(expr, timezone, start, seconds)
    plan = Plan.of(Cron(expr, timezone, "spring"))
    assert [at // 1000 for at in plan.upcoming(after, after, len(expected))] == expected
    # And none in the rest of the time that was looked at.
    following = plan.first_after(expected[-1] * 1000 if expected else after, after)
    assert following is not None
    assert following >= after + seconds * 1000


@pytest.mark.parametrize(
    ("dialect", "expr", "expected"),
    [
        ("spring", "*/15 * * * * *", [15, 30, 45, 60, 75]),
        ("spring", "58,59 * * * * *", [58, 59, 118, 119]),
        ("quartz", "10 0/5 * * * ?", [10, 310, 610]),
        ("node", "59 59 0 * * *", [3599, 3599 + 86_400]),
        ("vixie", "* * * * *", [60, 120]),
    ],
)
def test_seconds_come_in_their_order(dialect: str, expr: str, expected: list[int]) -> None:
    plan = Plan.of(Cron(expr, "UTC", dialect))
    assert [at // 1000 for at in plan.upcoming(0, 0, len(expected))] == expected


def test_a_time_is_strictly_after_the_millisecond_asked_about() -> None:
    plan = Plan.of(Cron("* * * * * *", "UTC", "node"))
    assert plan.first_after(4999, 0) == 5000
    assert plan.first_after(5000, 0) == 6000
