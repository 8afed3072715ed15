"""OnCalendar: expressions collected from public projects, each rule, and systemd's own word."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from engine.errors import BadExpression, NeverFires
from engine.plan import Cron, Plan, parse_schedule
from engine.plan.dialects import DIALECTS, Context, Reading

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z, a Thursday."""

DATA = Path(__file__).parents[1] / "data" / "systemd.tsv"
with DATA.open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def rows(valid: str) -> list[tuple[str, str]]:
    return [(row["expression"], row["timezone"] or "UTC") for row in ROWS if row["valid"] == valid]


def times(expr: str, n: int, now: int = NOW) -> list[str]:
    plan = Plan.of(parse_schedule(expr, now=now, dialect="systemd"))
    return [
        f"{datetime.fromtimestamp(at / 1000, UTC):%a %m-%d %H:%M:%S}"
        for at in plan.upcoming(now, now, n)
    ]


def refusal(expr: str) -> str:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW, dialect="systemd")
    assert caught.value.field == "schedule_expr"
    return caught.value.message


def test_the_collected_expressions_are_all_there() -> None:
    assert {kind: len(rows(kind)) for kind in ("yes", "no", "never")} == {
        "yes": 78,
        "no": 10,
        "never": 7,
    }


@pytest.mark.parametrize(("expr", "timezone"), rows("yes"))
def test_a_valid_expression_gives_fifty_increasing_times(expr: str, timezone: str) -> None:
    schedule = parse_schedule(expr, timezone, now=NOW, dialect="systemd")
    found = Plan.of(schedule).upcoming(NOW, NOW, 50)
    assert len(found) == 50
    assert found == sorted(set(found))
    assert found[0] > NOW


@pytest.mark.parametrize(("expr", "timezone"), rows("no"))
def test_an_expression_that_systemd_cannot_read_is_refused(expr: str, timezone: str) -> None:
    with pytest.raises(BadExpression, match=r"at character [0-9]"):
        parse_schedule(expr, timezone, now=NOW, dialect="systemd")


@pytest.mark.parametrize(("expr", "timezone"), rows("never"))
def test_a_date_that_is_past_never_fires(expr: str, timezone: str) -> None:
    with pytest.raises(NeverFires):
        parse_schedule(expr, timezone, now=NOW, dialect="systemd")


@pytest.mark.parametrize(
    ("shorthand", "spelled_out"),
    [
        ("minutely", "*-*-* *:*:00"),
        ("hourly", "*-*-* *:00:00"),
        ("Daily", "*-*-* 00:00:00"),
        ("weekly", "Mon *-*-* 00:00:00"),
        ("MONTHLY", "*-*-01 00:00:00"),
        ("quarterly", "*-01,04,07,10-01 00:00:00"),
        ("yearly", "*-01-01 00:00:00"),
        ("annually", "*-01-01 00:00:00"),
        ("semiannually", "*-01,07-01 00:00:00"),
    ],
)
def test_a_shorthand_means_what_the_manual_says(shorthand: str, spelled_out: str) -> None:
    readings = [DIALECTS["systemd"].parse(text, Context()) for text in (shorthand, spelled_out)]
    short, long = (reading.times for reading in readings if isinstance(reading, Reading))
    assert short == long


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("Mon 03:45", ["Mon 01-05 03:45:00", "Mon 01-12 03:45:00"]),
        ("Sat,Sun 10:00", ["Sat 01-03 10:00:00", "Sun 01-04 10:00:00"]),
        ("Mon-Wed,", ["Mon 01-05 00:00:00", "Tue 01-06 00:00:00", "Wed 01-07 00:00:00"]),
        ("*-*-13 00:00", ["Tue 01-13 00:00:00", "Fri 02-13 00:00:00", "Fri 03-13 00:00:00"]),
        ("Fri *-*-13", ["Fri 02-13 00:00:00", "Fri 03-13 00:00:00", "Fri 11-13 00:00:00"]),
        ("2-3", ["Tue 02-03 00:00:00", "Wed 02-03 00:00:00"]),
        ("26-2-3 4:5", ["Tue 02-03 04:05:00"]),
        ("8/4:0/40", ["Thu 01-01 08:00:00", "Thu 01-01 08:40:00", "Thu 01-01 12:00:00"]),
        ("1..9/4:00", ["Thu 01-01 01:00:00", "Thu 01-01 05:00:00", "Thu 01-01 09:00:00"]),
        ("1..3/5:00", ["Thu 01-01 01:00:00", "Fri 01-02 01:00:00"]),
        ("00:00:5,10", ["Thu 01-01 00:00:05", "Thu 01-01 00:00:10", "Fri 01-02 00:00:05"]),
    ],
)
def test_the_parts_of_an_expression_mean_these_times(expr: str, expected: list[str]) -> None:
    assert times(expr, len(expected)) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("*-*~1", ["01-31", "02-28", "03-31"]),
        ("*-02~01", ["02-28", "02-28", "02-29"]),
        ("*-*~3..4", ["01-28", "01-29", "02-25", "02-26"]),
        ("*-*~7/3", ["01-25", "01-28", "01-31", "02-22"]),
        ("*-*~1..6/4", ["01-27", "01-31", "02-24", "02-28"]),
        ("Mon *-*~07/1", ["01-26", "02-23", "03-30"]),
        ("*~*", ["01-02", "01-03"]),
    ],
)
def test_days_after_a_tilde_count_from_the_end_of_the_month(expr: str, expected: list[str]) -> None:
    assert [found.split()[1] for found in times(expr, len(expected))] == expected


def test_a_zone_at_the_end_overrules_that_of_the_job() -> None:
    for expr, timezone in [
        ("Sun 08:00 America/Los_Angeles", "America/Los_Angeles"),
        ("06:00 uTc", "UTC"),
    ]:
        schedule = parse_schedule(expr, "Europe/Berlin", now=NOW, dialect="systemd")
        assert schedule == Cron(expr.rsplit(" ", 1)[0], timezone, "systemd")


def test_a_fraction_of_a_second_is_kept_to_the_millisecond() -> None:
    plan = Plan.of(parse_schedule("00:00:1.1259..2.1259", now=NOW, dialect="systemd"))
    assert plan.upcoming(NOW, NOW, 3) == [NOW + 1125, NOW + 2125, NOW + 86_401_125]
    assert plan.first_after(NOW + 1124, NOW) == NOW + 1125
    assert plan.first_after(NOW + 1125, NOW) == NOW + 2125


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("Mon..Fry 09:00", ["weekday", "'Mon..Fry'", "character 1 "]),
        ("Mon,Sat..Mon 9:00", ["weekday", "'Sat..Mon'", "character 5 ", "reversed"]),
        ("*-13-01", ["month", "'13'", "character 3 ", "1-12"]),
        ("*-*-1,32", ["day", "'32'", "character 7 ", "1-31"]),
        ("*-*~29", ["day from the end", "'29'", "1-28"]),
        ("*-*~5/5", ["day from the end", "'5/5'", "step of 5"]),
        ("2300-01-01", ["year", "'2300'", "1970-2199"]),
        ("24:00", ["hour", "'24'", "0-23"]),
        ("9:00/60", ["minute", "'00/60'", "step of 60"]),
        ("*/2:00", ["hour", "'*/2'", "write 0/2"]),
        ("*-*/2-1", ["month", "'*/2'", "write 1/2"]),
        ("22..2:00", ["hour", "'22..2'", "reversed", "2..22"]),
        ("9:0/0", ["minute", "'0/0'", "1 or more"]),
        ("00:00:0.5,1", ["second", "'0.5,1'", "fractions", "1s"]),
        ("1:2:3:4", ["'1:2:3:4'", "hour:minute"]),
        ("2026-1-1-1", ["'2026-1-1-1'", "year-month-day"]),
        ("*-*-* 09:00 Europe/Berln", ["timezone", "Europe/Berlin", "character 13"]),
        ("9:00 Mon", ["timezone", "'Mon'"]),
        ("*-*-*T09:00", ["'*-*-*T09:00'", "Mon *-*-01 09:00:00"]),
    ],
)
def test_a_refusal_names_the_field_the_text_the_place_and_what_is_right(
    expr: str, parts: list[str]
) -> None:
    message = refusal(expr)
    assert [part for part in parts if part not in message] == []


ANALYZE = shutil.which("systemd-analyze")


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not on the PATH")
@pytest.mark.parametrize("seed", range(4))
def test_systemd_itself_reads_random_expressions_alike(seed: int) -> None:
    rng = Random(seed)
    for _ in range(40):
        expr = random_expression(rng)
        assert (expr, ours(expr)) == (expr, theirs(expr))


def random_expression(rng: Random) -> str:
    """Return an expression, without the few that systemd 252 itself gets wrong.

    It skips dates if a weekday stands beside a day with a step, refuses lists after `~` that its
    manual allows, and refuses `5..5` for seconds.
    """

    def entry(low: int, high: int) -> str:
        first = rng.randint(low, high + rng.choice([0, 0, 0, 0, 1]))
        text = rng.choice([f"{first}", f"{first:02d}"])
        if first < high and rng.random() < 0.3:
            text += f"..{rng.randint(first + 1, high)}"
        return text + (f"/{rng.choice([1, 2, 5, 7, 20])}" if rng.random() < 0.3 else "")

    def field(low: int, high: int, longest: int = 3) -> str:
        if rng.random() < 0.4:
            return "*"
        return ",".join(entry(low, high) for _ in range(rng.randint(1, longest)))

    names = ["Mon", "tue", "WED", "Thu", "Friday", "sat", "Sunday"]
    first, last = sorted(rng.choices(range(7), k=2))
    with_weekday = rng.random() < 0.4
    from_end = rng.random() < 0.4
    date = f"{field(1, 12)}" + ("~" if from_end else "-")
    date += "*" if with_weekday else field(1, 28 if from_end else 31, 1 if from_end else 3)
    weekday = f"{names[first]}..{names[last]},{rng.choice(names)} " if with_weekday else ""
    year = f"{field(2026, 2036)}-" if rng.random() < 0.3 else ""
    return f"{weekday}{year}{date} {field(0, 23)}:{field(0, 59)}:{field(0, 59)}"


def ours(expr: str) -> list[int] | None:
    try:
        schedule = parse_schedule(expr, now=NOW, dialect="systemd")
    except NeverFires:
        return []
    except BadExpression:
        return None
    return [at // 1000 for at in Plan.of(schedule).upcoming(NOW, NOW, 5)]


def theirs(expr: str) -> list[int] | None:
    command = [str(ANALYZE), "calendar", "--iterations=5", f"--base-time=@{NOW // 1000}", expr]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TZ": "UTC", "LC_ALL": "C"}
    )
    if done.returncode:
        return None
    found = re.findall(r"(?:elapse|#\d+): \w+ (\S+ \S+) UTC", done.stdout)
    return [int(datetime.fromisoformat(f"{text}+00:00").timestamp()) for text in found]
