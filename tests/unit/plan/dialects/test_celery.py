"""Celery's crontab: the calls collected from public projects, what celery prints, and each rule."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import BadExpression
from engine.plan import Plan, parse_schedule
from engine.plan.cron_eval import CronFields
from engine.plan.dialects import DIALECTS, Context, Reading

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z, a Thursday."""

DATA = Path(__file__).parents[1] / "data" / "celery.tsv"
with DATA.open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def rows(valid: str) -> list[str]:
    return [row["expression"] for row in ROWS if row["valid"] == valid]


def fields(expr: str, dialect: str = "celery") -> CronFields:
    reading = DIALECTS[dialect].parse(expr, Context())
    assert isinstance(reading, Reading)
    assert isinstance(reading.times, CronFields)
    return reading.times


def days(expr: str, n: int) -> list[str]:
    plan = Plan.of(parse_schedule(expr, now=NOW, dialect="celery"))
    return [f"{datetime.fromtimestamp(at / 1000, UTC):%m-%d}" for at in plan.upcoming(NOW, NOW, n)]


def refusal(expr: str) -> str:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW, dialect="celery")
    assert caught.value.field == "schedule_expr"
    return caught.value.message


def test_the_collected_expressions_are_all_there() -> None:
    assert {kind: len(rows(kind)) for kind in ("yes", "no", "never")} == {
        "yes": 50,
        "no": 11,
        "never": 0,
    }


@pytest.mark.parametrize("expr", rows("yes"))
def test_a_valid_call_gives_fifty_increasing_times(expr: str) -> None:
    found = Plan.of(parse_schedule(expr, now=NOW)).upcoming(NOW, NOW, 50)
    assert len(found) == 50
    assert found == sorted(set(found))
    assert all(at % 60_000 == 0 for at in found)


@pytest.mark.parametrize("expr", rows("no"))
def test_a_call_that_celery_cannot_read_is_refused(expr: str) -> None:
    with pytest.raises(BadExpression, match=r"at character [0-9]"):
        parse_schedule(expr, now=NOW)


@pytest.mark.parametrize(
    ("call", "cron"),
    [
        ("crontab()", "* * * * *"),
        ("crontab('*')", "* * * * *"),
        ("crontab(0, 3)", "0 3 * * *"),
        ("crontab(0, 3, 'mon', '*', 6)", "0 3 * 6 1"),
        ("crontab(hour=3)", "* 3 * * *"),
        ("crontab(minute='*/15', hour='0-6')", "*/15 0-6 * * *"),
        ("crontab(minute=[5, 42], hour=(1, 2))", "5,42 1,2 * * *"),
        ("crontab(minute={0, 30})", "0,30 * * * *"),
        ("crontab(0, '22-2')", "0 22-23,0-2 * * *"),
        ("crontab(0, '22-3/2')", "0 22,0,2 * * *"),
        ("crontab(0, 0, 'sat-mon')", "0 0 * * 6,0,1"),
        ("crontab(0, 0, 'Monday, FRIDAY')", "0 0 * * 1,5"),
        ("crontab(0, 0, month_of_year='nov-Feb')", "0 0 * 11,12,1,2 *"),
        ("crontab(0, 0, day_of_week='*/2')", "0 0 * * 0,2,4,6"),
        ("<crontab: 0 4 1 6 * (m/h/dM/MY/d)>", "0 4 1 6 *"),
        ("<crontab: 0 4 * 1 6 (m/h/d/dM/MY)>", "0 4 1 6 *"),
        ("<crontab: [5, 42] 4 * * mon-fri (m/h/dM/MY/d)>", "5,42 4 * * 1-5"),
        ("0 4 1 6 *", "0 4 1 6 *"),
    ],
)
def test_a_crontab_means_these_five_fields(call: str, cron: str) -> None:
    assert fields(call) == fields(cron, "vixie")


def test_weekday_and_day_of_month_must_both_match() -> None:
    assert days("crontab(0, 0, day_of_week='fri', day_of_month=13)", 3) == [
        "02-13",
        "03-13",
        "11-13",
    ]


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("crontab(minute=61)", ["minute", "'61'", "character 16 ", "0-59"]),
        ("crontab(minute='5, 61')", ["minute", "'61'", "0-59"]),
        ("crontab(day_of_week=7)", ["day of week", "'7'", "character 21 ", "0-6", "SUN-SAT"]),
        ("crontab(minute='5/10')", ["minute", "'5/10'", "5-59/10"]),
        ("crontab(minute='*/0')", ["minute", "step of 0"]),
        ("crontab(minute=[])", ["minute", "'[]'", "list of numbers"]),
        ("crontab(minute=True)", ["minute", "'True'"]),
        ("crontab(minute=1.5)", ["minute", "'1.5'"]),
        ("crontab(minute=now())", ["minute", "'now()'"]),
        ("crontab(minute=-5)", ["minute", "'-5'"]),
        ("crontab(second=5)", ["'second'", "minute, hour, day_of_week"]),
        ("crontab(5, minute=5)", ["'minute'", "given twice"]),
        ("crontab(**{'minute': 5})", ["'**'"]),
        ("crontab(1, 2, 3, 4, 5, 6)", ["found 6"]),
        ("crontab(minute=5", ["character 1 ", "crontab(minute='*/15'"]),
        ("crontab(minute='\\d')", ["character 1 ", "crontab(minute='*/15'"]),
        ("crontab(minute=5)()", ["character 1 "]),
        ("crontab(5) or crontab(6)", ["character 1 "]),
        ("celery.crontab(minute=5)", ["celery.crontab"]),
        ("0 4 1 6", ["five fields: minute"]),
        ("<crontab: 0 4 1 6 * (m/h/dM/MY/x)>", ["is not celery's"]),
    ],
)
def test_a_refusal_names_the_field_the_text_the_place_and_what_is_right(
    expr: str, parts: list[str]
) -> None:
    message = refusal(expr)
    assert [part for part in parts if part not in message] == []


def test_nothing_in_a_call_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "open('trace', 'w')" in refusal("crontab(minute=open('trace', 'w'))")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("expr", "wildcard"),
    [
        ("crontab(minute='*/15', hour=2)", True),
        ("crontab(minute=0)", True),
        ("crontab(minute=0, hour='0-23')", False),
        ("crontab(minute=[0, 30], hour=2)", False),
    ],
)
def test_a_job_is_wildcard_if_its_minute_or_hour_starts_with_a_star(
    expr: str, wildcard: bool
) -> None:
    assert fields(expr).wildcard is wildcard
