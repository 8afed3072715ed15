"""What lint says of a schedule: its English, its traps, and the same times in other dialects."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.errors import BadExpression, BadInput, NeverFires
from engine.plan import Every, Plan, Schedule, parse_schedule
from engine.plan.dialects import DIALECTS
from engine.plan.lint import Lint, lint

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
JOB = "report-7"


def of(expr: str, timezone: str = "UTC", dialect: str | None = None) -> Lint:
    return lint(expr, timezone, dialect, now=NOW, job_id=JOB)


def codes(expr: str, timezone: str = "UTC", dialect: str | None = None) -> list[str]:
    return [warning.code for warning in of(expr, timezone, dialect).warnings]


def message(code: str, expr: str, timezone: str = "UTC", dialect: str | None = None) -> str:
    found = [w.message for w in of(expr, timezone, dialect).warnings if w.code == code]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("expr", "dialect", "english"),
    [
        ("* * * * *", None, "Every minute"),
        ("@hourly", None, "Every hour"),
        ("*/15 * * * *", None, "Every 15 minutes"),
        ("5,35 * * * *", None, "At minute 5 and 35"),
        ("30 9 * * *", None, "At 09:30"),
        ("30 9 * * 1-5", None, "At 09:30 on Monday to Friday"),
        ("0 9,17 * * sun,mon,tue", None, "At 09:00 and 17:00 on Monday, Tuesday and Sunday"),
        ("0 8-17 * * *", None, "At minute 0 of hour 8 to 17"),
        ("*/10 8-17 * * 6", None, "Every 10 minutes of hour 8 to 17 on Saturday"),
        ("0 0 1,15 * *", None, "At 00:00 on day 1 and 15 of the month"),
        ("0 0 1-7 * 1", None, "At 00:00 on day 1 to 7 of the month, and also on Monday"),
        ("0 0 */10 * 1", None, "At 00:00 on day 1, 11, 21 and 31 of the month, if that is Monday"),
        ("0 0 1 1,7 *", None, "At 00:00 on day 1 of the month, in January and July"),
        ("30 0 12 ? * MON 2027", "quartz", "At 12:00:30 on Monday, in 2027"),
        ("0 0 12 L * ?", "quartz", "At 12:00 on the last day of the month"),
        ("0 0 12 L-2 * ?", "quartz", "At 12:00 on day 2 before the last of the month"),
        ("0 0 12 ? * 6L", "quartz", "At 12:00 on the last Friday of the month"),
        ("0 0 12 ? * FRI#3", "quartz", "At 12:00 on the third Friday of the month"),
        ("*/20 * * * * *", "spring", "Every 20 seconds"),
        ("0/20 * 8 * * *", "spring", "Every 20 seconds of hour 8"),
        (
            "10 */5 * * * *",
            "spring",
            "At second 10 of minute 0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50 and 55",
        ),
        ("Mon *-*-* 08:00", "systemd", "At 08:00 on Monday"),
        ("0 0 12 15W * ?", "quartz", "At the times of '0 0 12 15W * ?'"),
        ("every 1h", None, "Every hour"),
        ("every 1h30m", None, "Every 1 hour 30 minutes"),
        ("every 1500ms", None, "Every 1 second 500 ms"),
        ("every 2d from 2026-01-01T00:00:00Z", None, "Every 2 days, in phase with the start given"),
        ("2030-01-31T09:00:00+01:00", None, "Once, at 2030-01-31 08:00:00 UTC"),
    ],
)
def test_a_schedule_is_said_in_plain_english(expr: str, dialect: str | None, english: str) -> None:
    assert of(expr, dialect=dialect).description == english


def test_the_dialect_and_the_zone_are_those_that_were_found_in_the_text() -> None:
    found = of("CRON_TZ=America/New_York 30 9 * * *", "Europe/Berlin")
    assert (found.dialect, found.timezone) == ("k8s", "America/New_York")
    assert (of("30 9 * * *").dialect, of("30 9 * * *").timezone) == ("vixie", "UTC")


@pytest.mark.parametrize(
    ("expr", "timezone", "dialect", "expected"),
    [
        ("30 9 * * 1-5", "UTC", None, []),
        ("*/15 * * * *", "Europe/Berlin", None, []),
        ("*/35 * * * *", "UTC", None, ["uneven_step"]),
        ("0,35 * * * *", "UTC", None, []),
        ("0 */5 * * *", "UTC", None, ["uneven_step"]),
        ("0 0 */2 * *", "UTC", None, ["uneven_step"]),
        ("0 0 1 * 1", "UTC", None, ["both_day_fields"]),
        ("0 0 ? * FRI#1", "UTC", "airflow", []),
        ("0 0 31 * *", "UTC", None, ["short_month"]),
        ("0 0 31 1 *", "UTC", None, []),
        ("0 0 1-31 * *", "UTC", None, []),
        ("0 0 29 2 *", "UTC", None, ["short_month"]),
        ("0 0 31 2 *", "UTC", None, ["never_fires"]),
        ("0 0 12 ? * 2-6", "UTC", "quartz", ["weekday_numbers"]),
        ("0 0 12 ? * MON-FRI", "UTC", "quartz", []),
        ("cron(0 12 ? * 2 *)", "UTC", None, ["weekday_numbers"]),
        ("cron(0 12 ? * * *)", "UTC", None, []),
        ("30 2 * * *", "Europe/Berlin", None, ["dst_gap", "dst_overlap"]),
        ("30 2 * * *", "UTC", None, []),
        ("30 3 * * *", "Europe/Berlin", None, []),
        ("30 2 * 6 *", "Europe/Berlin", None, []),
        ("*/30 2 * * *", "Europe/Berlin", None, ["dst_gap", "dst_overlap"]),
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Berlin", None, ["dst_gap", "dst_overlap"]),
        ("FREQ=HOURLY", "Europe/Berlin", None, []),
        ("*/30 * * * * *", "UTC", "spring", ["very_frequent"]),
        ("0 * * * * *", "UTC", "spring", []),
        ("every 59s", "UTC", None, ["very_frequent"]),
        ("every 60s", "UTC", None, []),
    ],
)
def test_a_trap_is_warned_of_and_nothing_else_is(
    expr: str, timezone: str, dialect: str | None, expected: list[str]
) -> None:
    assert codes(expr, timezone, dialect) == expected


@pytest.mark.parametrize(
    ("code", "expr", "parts"),
    [
        ("uneven_step", "*/35 * * * *", ["35", "minute 35 is followed by 0"]),
        ("both_day_fields", "0 0 1 * 1", ["matches either"]),
        ("both_day_fields", "0 0 */10 * 1", ["matches both"]),
        ("short_month", "0 0 30 1-3 *", ["Day 30", "February"]),
        ("short_month", "0 0 29 2 *", ["leap years"]),
        ("dst_gap", "30 2 * * *", ["02:00 to 03:00 on 2026-03-29", "02:30 comes at 03:00"]),
        ("dst_gap", "*/30 2 * * *", ["on 2026-03-29", "no run at 02:00"]),
        ("dst_overlap", "30 2 * * *", ["on 2026-10-25", "02:30 fires the first time only"]),
        ("dst_overlap", "*/30 2 * * *", ["on 2026-10-25", "02:00 fires both times"]),
    ],
)
def test_a_warning_says_what_will_happen_and_when(code: str, expr: str, parts: list[str]) -> None:
    said = message(code, expr, "Europe/Berlin")
    assert [part for part in parts if part not in said] == []


def test_the_warning_of_a_clock_change_is_what_the_plan_does() -> None:
    plan = Plan.of(parse_schedule("30 2 * * *", "Europe/Berlin", now=NOW))
    times = plan.upcoming(NOW, NOW, 365)
    march_29, october_25 = 1_774_746_000_000, 1_792_888_200_000
    assert march_29 in times
    assert october_25 in times
    assert october_25 + 3_600_000 not in times


@pytest.mark.parametrize(
    ("expr", "dialect", "conversions"),
    [
        (
            "30 9 * * 1-5",
            None,
            {
                "quartz": "0 30 9 ? * MON-FRI",
                "spring": "0 30 9 * * MON-FRI",
                "aws": "cron(30 9 ? * MON-FRI *)",
                "jenkins": "30 9 * * 1-5",
                "celery": "crontab(minute='30', hour='9', day_of_week='mon-fri')",
                "systemd": "Mon..Fri *-*-* 09:30:00",
                "rrule": "RRULE:FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=30;BYSECOND=0",
            },
        ),
        (
            "0 0 12 ? * 6L",
            "quartz",
            {
                "aws": "cron(0 12 ? * 6L *)",
                "spring": "0 0 12 ? * FRIL",
                "systemd": "Fri *-*~01..07 12:00:00",
            },
        ),
        ("*:0/15", "systemd", {"vixie": "*/15 * * * *", "quartz": "0 */15 * * * ?"}),
        ("every 90m", None, {"aws": "rate(90 minutes)", "k8s": "@every 5400s"}),
        ("rate(1 day)", None, {"interval": "every 86400s", "iso8601": "PT86400S"}),
        (
            "R/2026-01-01T00:00:00Z/PT90S",
            None,
            {"interval": "every 90s from 2026-01-01T00:00:00Z"},
        ),
    ],
)
def test_other_dialects_write_it_so(
    expr: str, dialect: str | None, conversions: dict[str, str]
) -> None:
    assert conversions.items() <= of(expr, dialect=dialect).conversions.items()


@pytest.mark.parametrize(
    ("expr", "dialect", "cannot"),
    [
        ("30 0 9 * * *", "spring", {"vixie", "k8s", "aws", "celery", "jenkins", "airflow"}),
        ("0 0 1 * 1", None, {"quartz", "aws", "spring", "jenkins", "celery", "systemd", "rrule"}),
        ("0 0 12 ? * MON 2027", "quartz", {"vixie", "spring", "celery", "rrule"}),
        ("*/30 2 * * *", None, {"systemd"}),
        ("every 90s", None, {"aws", "vixie"}),
        ("R/2026-01-01T00:00:00Z/PT1H", None, {"aws", "k8s", "airflow"}),
        ("0 0 31 2 *", None, set(DIALECTS)),
        ("2030-01-31T09:00:00Z", None, set(DIALECTS)),
        ("FREQ=DAILY;BYHOUR=9", None, set(DIALECTS)),
    ],
)
def test_a_dialect_that_cannot_say_it_is_left_out(
    expr: str, dialect: str | None, cannot: set[str]
) -> None:
    found = of(expr, dialect=dialect)
    assert found.conversions.keys().isdisjoint(cannot | {found.dialect})


def collected() -> list[tuple[str, str]]:
    found = []
    for path in sorted((Path(__file__).parent / "data").glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                if row["valid"] == "yes":
                    found.append((path.stem, row["expression"].replace("\\n", "\n")))
    return found


@pytest.mark.parametrize("dialect", sorted({dialect for dialect, _ in collected()}))
def test_a_conversion_has_the_same_next_fifty_times(dialect: str) -> None:
    zone = "Europe/Berlin"
    converted = 0
    for expr in [expr for name, expr in collected() if name == dialect]:
        try:
            schedule = parse_schedule(expr, zone, now=NOW, dialect=dialect, job_id=JOB)
        except BadExpression:
            # `@once` and its like are collected as valid, and have no clock time.
            continue
        found = of(expr, zone, dialect)
        original = times_of(schedule)
        for other, text in found.conversions.items():
            read = parse_schedule(text, found.timezone, now=NOW, dialect=other, job_id=JOB)
            assert (expr, text, times_of(read)) == (expr, text, original)
            converted += 1
    assert converted > 100


def times_of(schedule: Schedule) -> list[int]:
    anchor = schedule.anchor if isinstance(schedule, Every) else None
    return Plan.of(schedule).upcoming(NOW, NOW if anchor is None else anchor, 50)


def test_what_cannot_be_read_is_refused_as_by_the_parser() -> None:
    with pytest.raises(BadExpression, match="minute"):
        of("61 * * * *")
    with pytest.raises(BadInput, match="unknown dialect"):
        of("* * * * *", dialect="cobol")
    with pytest.raises(BadInput, match="Europe/Berlin"):
        of("* * * * *", "Europe/Berln")
    with pytest.raises(BadExpression, match="ASCII"):
        of("0 0\n* * *")


def test_a_schedule_that_never_fires_is_refused_by_the_parser_and_explained_by_lint() -> None:
    with pytest.raises(NeverFires):
        parse_schedule("0 0 31 2 *", now=NOW)
    assert "100 years" in message("never_fires", "0 0 31 2 *")
