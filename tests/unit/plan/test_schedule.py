"""Schedule text to schedules: intervals, one-off times, nothing, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.errors import BadExpression, BadInput, NeverFires
from engine.plan import Cron, Every, Immediate, Once, parse_schedule

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def test_no_expression_means_at_once() -> None:
    assert parse_schedule(None, now=NOW) == Immediate()


def test_cron_is_kept_as_it_was_sent_with_single_spaces() -> None:
    assert parse_schedule("  0  9\t* * mon-fri ", "Europe/Berlin", now=NOW) == Cron(
        "0 9 * * mon-fri", "Europe/Berlin"
    )
    assert parse_schedule("@daily", now=NOW) == Cron("@daily", "UTC")


@pytest.mark.parametrize(
    ("text", "interval_ms"),
    [
        ("every 1s", SECOND),
        ("every 30s", 30 * SECOND),
        ("every 1000ms", SECOND),
        ("every 1s500ms", 1500),
        ("every 90m", 90 * MINUTE),
        ("every 1h30m", 90 * MINUTE),
        ("every 1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5),
        (" every\t 007s ", 7 * SECOND),
        ("every 36525d", 36_525 * DAY),
    ],
)
def test_an_interval_is_the_sum_of_its_parts(text: str, interval_ms: int) -> None:
    assert parse_schedule(text, now=NOW) == Every(interval_ms)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every 500ms", "shortest interval, 1s"),
        ("every 999ms", "shortest interval, 1s"),
        ("every 0s", "shortest interval, 1s"),
        ("every 36525d1ms", "longest interval"),
        ("every 999999999999999999d", "longest interval"),
        ("every", "not an interval"),
        ("every 30", "not an interval"),
        ("every s", "not an interval"),
        ("every 30m1h", "not an interval"),
        ("every 1h1h", "not an interval"),
        ("every 1.5h", "not an interval"),
        ("every -5s", "not an interval"),
        ("every 1_0s", "not an interval"),
        ("every 5 minutes", "not an interval"),
        ("every 5M", "not an interval"),
        ("every 2w", "not an interval"),
    ],
)
def test_an_interval_that_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=reason) as caught:
        parse_schedule(text, now=NOW)
    assert caught.value.field == "schedule_expr"


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-06-01T09:00:00Z", "2026-06-01T09:00:00"),
        ("2026-06-01t09:00:00z", "2026-06-01T09:00:00"),
        ("2026-06-01 09:00:00+02:00", "2026-06-01T07:00:00"),
        ("2026-06-01T09:00:00-03:30", "2026-06-01T12:30:00"),
        ("2026-06-01T09:00:00.5Z", "2026-06-01T09:00:00.500"),
        ("2026-06-01T09:00:00.123999999Z", "2026-06-01T09:00:00.123"),
        ("2026-06-01T09:00:00-00:00", "2026-06-01T09:00:00"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00"),
        ("2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.001"),
    ],
)
def test_a_time_with_its_offset_means_that_instant(text: str, utc: str) -> None:
    moment = datetime.fromisoformat(utc).replace(tzinfo=UTC)
    assert parse_schedule(text, now=NOW) == Once(round(moment.timestamp() * 1000))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-06-01T09:00:00", "offset"),
        ("2026-06-01T09:00Z", "RFC 3339"),
        ("2026-06-01", "RFC 3339"),
        ("2026-06-01T09:00:00+0200", "RFC 3339"),
        ("2026-06-01T09:00:00+24:00", "RFC 3339"),
        ("2026-06-01T09:00:00,5Z", "RFC 3339"),
        ("2026-06-01T09:00:00 Z", "RFC 3339"),
        ("2026-W23-1T09:00:00Z", "RFC 3339"),
        ("2027-02-29T00:00:00Z", "no time of the calendar"),
        ("2026-06-01T24:00:00Z", "no time of the calendar"),
        ("2026-06-30T23:59:60Z", "no time of the calendar"),
        ("0000-01-01T00:00:00Z", "no time of the calendar"),
    ],
)
def test_a_time_that_is_not_rfc_3339_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=reason) as caught:
        parse_schedule(text, now=NOW)
    assert caught.value.field == "schedule_expr"


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00Z", "2026-01-01T00:59:59+01:00", "0001-01-01T00:00:00Z"]
)
def test_a_time_that_has_passed_would_never_fire(text: str) -> None:
    with pytest.raises(BadInput, match="leave schedule_expr out") as caught:
        parse_schedule(text, now=NOW)
    assert caught.value.field == "schedule_expr"


def test_a_time_more_than_a_century_away_never_fires() -> None:
    with pytest.raises(NeverFires, match="100 years"):
        parse_schedule("9999-12-31T23:59:59-23:59", now=NOW)


@pytest.mark.parametrize("expr", [None, "every 30s", "2030-01-01T00:00:00Z", "* * * * *"])
def test_the_zone_is_checked_whatever_the_schedule(expr: str | None) -> None:
    with pytest.raises(BadInput, match="Europe/Berlin") as caught:
        parse_schedule(expr, "Europe/Berln", now=NOW)
    assert caught.value.field == "timezone"
