"""Intervals with a phase: ISO 8601 durations and repetitions, and `every … from …`."""

from __future__ import annotations

import pytest

from engine.errors import BadExpression
from engine.plan import Every, parse_schedule
from engine.registration import Timing, plan_times

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("expr", "interval_ms", "anchor"),
    [
        ("PT90S", 90 * SECOND, None),
        ("PT1.25S", 1250, None),
        ("PT5M", 5 * MINUTE, None),
        ("PT1H30M", 90 * MINUTE, None),
        ("P1D", DAY, None),
        ("P1DT12H", DAY + 12 * HOUR, None),
        ("P2W", 14 * DAY, None),
        ("R/PT1H", HOUR, None),
        ("R/2026-01-01T00:00:30Z/PT1H", HOUR, NOW + 30 * SECOND),
        ("R/2026-01-01T01:00:00+01:00/P1D", DAY, NOW),
        ("every 90s from 2026-01-01T00:00:00Z", 90 * SECOND, NOW),
        ("every  1h30m  from  2026-01-01T00:00:00.5Z", 90 * MINUTE, NOW + 500),
    ],
)
def test_an_interval_has_a_length_and_may_have_a_phase(
    expr: str, interval_ms: int, anchor: int | None
) -> None:
    assert parse_schedule(expr, now=NOW) == Every(interval_ms, anchor)


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("P1M", ["duration", "'P1M'", "character 1 ", "months", "cron", "RRULE", "PT5M"]),
        ("P1Y2DT3H", ["'P1Y2DT3H'", "years", "RRULE"]),
        ("R/2026-01-01T00:00:00Z/P1M", ["'P1M'", "character 24 ", "RRULE"]),
        ("R3/2026-01-01T00:00:00Z/PT1H", ["repetitions", "'R3'", "COUNT", "R/"]),
        ("PT", ["'PT'", "cannot be read"]),
        ("P1DT", ["'P1DT'", "cannot be read"]),
        ("PT1.5H", ["'PT1.5H'", "cannot be read"]),
        ("PT5", ["'PT5'", "cannot be read"]),
        ("P1W2D", ["'P1W2D'", "cannot be read"]),
        ("PT0.5S", ["shortest interval, 1s"]),
        ("P5300W", ["longest interval"]),
        ("R/2026-01-01T00:00:00/PT1H", ["offset"]),
        ("R/PT1H/2026-01-01T00:00:00Z", ["'PT1H'", "RFC 3339"]),
        ("R/2026-01-01T00:00:00Z/PT1H/PT1H", ["no repeating interval"]),
        ("every 90s from tomorrow", ["'tomorrow'", "RFC 3339"]),
        ("every 90s from", ["not an interval"]),
    ],
)
def test_what_is_no_interval_is_refused_with_a_remedy(expr: str, parts: list[str]) -> None:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW)
    assert caught.value.field == "schedule_expr"
    assert [part for part in parts if part not in caught.value.message] == []


@pytest.mark.parametrize(
    ("start", "first_at"),
    [
        ("2026-01-01T00:00:00Z", NOW + HOUR),
        ("2025-06-01T00:20:00Z", NOW + 20 * MINUTE),
        ("2026-01-02T00:10:00Z", NOW + DAY + 10 * MINUTE),
    ],
)
def test_a_job_takes_its_phase_from_the_text_and_waits_for_its_start(
    start: str, first_at: int
) -> None:
    planned = plan_times(Timing(f"R/{start}/PT1H"), "report-7", NOW)
    assert planned.next_run_at == first_at
    assert (first_at - planned.anchor_at) % HOUR == 0
