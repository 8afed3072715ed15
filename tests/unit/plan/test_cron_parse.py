"""What cron text means and what is refused, with the help that a refusal gives."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from engine.errors import BadExpression, NeverFires
from engine.plan import Plan, Reboot, parse_schedule
from engine.plan.dialects.vixie import MACROS, parse_cron

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z, a Thursday."""

with (Path(__file__).parent / "data" / "vixie.tsv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

WITHOUT_CLOCK_TIME = {"@reboot"}
"""Valid in a crontab, and known by no time (see test_reboot.py)."""


def rows(*valid: str) -> list[tuple[str, str]]:
    return [(row["expression"], row["timezone"] or "UTC") for row in ROWS if row["valid"] in valid]


def bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def refusal(expr: str) -> str:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW)
    assert caught.value.field == "schedule_expr"
    return caught.value.message


def test_the_collected_expressions_are_all_there() -> None:
    assert {kind: len(rows(kind)) for kind in ("yes", "no", "never")} == {
        "yes": 79,
        "no": 36,
        "never": 1,
    }


@pytest.mark.parametrize(("expr", "timezone"), rows("yes"))
def test_a_valid_expression_gives_fifty_increasing_times(expr: str, timezone: str) -> None:
    if expr in WITHOUT_CLOCK_TIME:
        assert parse_schedule(expr, timezone, now=NOW) == Reboot()
        return
    times = Plan.of(parse_schedule(expr, timezone, now=NOW)).upcoming(NOW, NOW, 50)
    assert len(times) == 50
    assert times == sorted(set(times))
    assert times[0] > NOW
    assert all(at % 60_000 == 0 for at in times)


@pytest.mark.parametrize(("expr", "timezone"), rows("no"))
def test_an_expression_that_cron_cannot_read_is_refused(expr: str, timezone: str) -> None:
    with pytest.raises(BadExpression):
        parse_schedule(expr, timezone, now=NOW)


@pytest.mark.parametrize(
    "expr", [*(expr for expr, _ in rows("never")), "0 0 31 2 *", "0 0 30 2 */7", "0 0 31 4,6,9 *"]
)
def test_a_date_that_never_comes_never_fires(expr: str) -> None:
    with pytest.raises(NeverFires) as caught:
        parse_schedule(expr, now=NOW)
    assert caught.value.field == "schedule_expr"


def test_a_wildcard_job_whose_every_time_is_in_a_gap_never_fires() -> None:
    # 29 March is a Sunday only as the last one of March, when the hour from two is left out.
    with pytest.raises(NeverFires, match="gap"):
        parse_schedule("*/5 2 29 3 */7", "Europe/Berlin", now=NOW)


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("5", [5]),
        ("05", [5]),
        ("5-5", [5]),
        ("5-5/2", [5]),
        ("1,3,2", [1, 2, 3]),
        ("10-14", [10, 11, 12, 13, 14]),
        ("10-20/5", [10, 15, 20]),
        ("*/20", [0, 20, 40]),
        ("*/40", [0, 40]),
        ("*/60", [0]),
        ("5/20", [5, 25, 45]),
        ("59/15", [59]),
        ("7,*/30,58-59", [0, 7, 30, 58, 59]),
    ],
)
def test_a_minute_field_means_these_minutes(field: str, minutes: list[int]) -> None:
    assert bits(parse_cron(f"{field} 0 * * *").times) == minutes


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("7", [0]),
        ("0,7", [0]),
        ("5-7", [0, 5, 6]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("mon", [1]),
        ("MON-MON", [1]),
        ("Mon-fRI", [1, 2, 3, 4, 5]),
        ("SUN,sat", [0, 6]),
        ("mon/2", [1, 3, 5]),
        ("*/3", [0, 3, 6]),
        ("*/7", [0]),
        ("7/2", [0]),
    ],
)
def test_a_weekday_field_means_these_days(field: str, days: list[int]) -> None:
    # Days 1 to 7 of a month that starts on a Monday are Monday to Sunday.
    first_week = [day for day in bits(parse_cron(f"0 0 * * {field}").days[0]) if day <= 7]
    assert sorted(day % 7 for day in first_week) == days


def test_month_names_mean_their_numbers() -> None:
    names = "jan,FEB,Mar,APR,may,jun,JUL,aug,sep,oct,nov,dec"
    for number, name in enumerate(names.split(","), 1):
        assert bits(parse_cron(f"0 0 1 {name} *").months) == [number]


def test_tabs_and_spaces_around_fields_do_not_matter() -> None:
    assert parse_cron(" 0\t9  * * 1-5\t") == parse_cron("0 9 * * 1-5")


@pytest.mark.parametrize("name", MACROS)
def test_a_macro_means_its_five_fields_in_either_case(name: str) -> None:
    assert parse_cron(name) == parse_cron(MACROS[name]) == parse_cron(f" {name.upper()} ")


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("61 * * * *", ["minute", "'61'", "character 1 ", "0-59"]),
        ("0 24 * * *", ["hour", "'24'", "character 3 ", "0-23"]),
        ("0 0 1,32 * *", ["day of month", "'32'", "character 7 ", "1-31"]),
        ("0 0 0 * *", ["day of month", "'0'", "1-31"]),
        ("0 0 1  13 *", ["month", "'13'", "character 8 ", "1-12", "JAN-DEC"]),
        ("0 0 * * 8", ["day of week", "'8'", "character 9 ", "0-7", "SUN-SAT"]),
        ("0 0 * JANU *", ["month", "'JANU'", "JAN-DEC"]),
        ("0 0 * * JAN", ["day of week", "'JAN'", "SUN-SAT"]),
        ("*/0 * * * *", ["minute", "'*/0'", "1 or more"]),
        ("*/90 * * * *", ["minute", "'*/90'", "step of 90", "every 90m"]),
        ("*/5/2 * * * *", ["minute", "'*/5/2'", "cannot be read"]),
        ("1.5 * * * *", ["minute", "'1.5'", "cannot be read"]),
        ("-5 * * * *", ["minute", "'-5'", "cannot be read"]),
        ("1,,2 * * * *", ["minute", "character 3 ", "empty"]),
        ("0 22-2 * * *", ["hour", "'22-2'", "reversed", "22-23,0-2"]),
        ("0 0 * * SAT-SUN", ["day of week", "'SAT-SUN'", "reversed", "6,0"]),
        ("0 0 ? * *", ["day of month", "'?'", "Quartz"]),
        ("0 0 L * *", ["day of month", "Quartz"]),
        ("0 0 LW * *", ["day of month", "Quartz"]),
        ("0 0 L-3 * *", ["day of month", "Quartz"]),
        ("0 0 15W * 1", ["day of month", "'15W'", "Quartz"]),
        ("0 0 * * 5L", ["day of week", "Quartz"]),
        ("0 0 * * FRI#2", ["day of week", "'FRI#2'", "Quartz"]),
        ("H H * * *", ["minute", "Jenkins"]),
        ("H(0-29)/10 * * * *", ["minute", "Jenkins"]),
        ("R R * * *", ["minute", "random"]),
        ("0~30 * * * *", ["minute", "'0~30'", "job id"]),
        ("0 9 * *", ["day of week: missing", "found 4"]),
        ("5", ["hour, day of month, month, day of week: missing"]),
        ("*/15 * * * * *", ["character 14 ", "five", "found 6", "Seconds", "dialect"]),
        ("0 0 12 * * ? 2027", ["found 7", "dialect"]),
        ("٥ * * * *", ["minute", "character 1 ", "ASCII"]),
        ("0 ¹ * * *", ["hour", "character 3 ", "ASCII"]),
        ("0 0\n* * *", ["character 4 ", "ASCII"]),
        ("0 0 * * *\x00", ["day of week", "character 10 ", "ASCII"]),
        ("", ["empty"]),
        ("  ", ["empty"]),
        ("0," * 128 + "0 * * * *", ["265 characters", "256"]),
        ("@once", ["@once", "no clock time"]),
        ("@fortnightly", ["'@fortnightly'", "@daily"]),
        ("@every 500us", ["shortest interval"]),
    ],
)
def test_a_refusal_names_the_field_the_text_the_place_and_what_is_right(
    expr: str, parts: list[str]
) -> None:
    message = refusal(expr)
    assert [part for part in parts if part not in message] == []


def test_an_expression_of_the_greatest_length_is_read() -> None:
    longest = ",".join(["0"] * 124) + " * * * *"
    assert len(longest + " ") == 256
    assert parse_cron(longest + " ") == parse_cron("0 * * * *")
