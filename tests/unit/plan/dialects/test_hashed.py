"""`H` of Jenkins and `~` of cron: spread over jobs, the same for one job for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.errors import BadExpression
from engine.plan import Cron, Plan, parse_schedule
from engine.plan.dialects import DIALECTS, Context, Reading

NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


def concrete(expr: str, job_id: str | None = "report-7", dialect: str = "jenkins") -> str:
    schedule = parse_schedule(expr, now=NOW, dialect=dialect, job_id=job_id)
    assert isinstance(schedule, Cron)
    return schedule.expr


def refusal(expr: str, job_id: str | None = "report-7", dialect: str = "jenkins") -> str:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(expr, now=NOW, dialect=dialect, job_id=job_id)
    return caught.value.message


def test_the_numbers_of_a_job_never_change() -> None:
    # Plans are stored with them: another hash would move every job when it is next edited.
    assert concrete("H H(0-7) H H H") == "19 7 2 1 4"
    assert concrete("H/15 H(9-17)/2 * * 1-5") == "4-59/15 10-17/2 * * 1-5"
    assert concrete("~ 0~7 * * *", dialect="vixie") == "19 7 * * *"
    assert concrete("~/10 22 * * *", dialect="vixie") == "9-59/10 22 * * *"


def test_a_field_keeps_its_number_when_another_changes() -> None:
    minute, hour = concrete("H H * * *").split()[:2]
    assert concrete("H 5 1,15 * *").split()[0] == minute
    assert concrete("0 H * * H").split()[1] == hour


def test_entries_of_one_field_are_drawn_apart() -> None:
    hours = [
        int(hour) for hour in concrete("0 H(0-7),H(8-15),H(16-23) * * *").split()[1].split(",")
    ]
    assert [hour // 8 for hour in hours] == [0, 1, 2]
    assert len({hour % 8 for hour in hours}) > 1


@pytest.mark.parametrize(
    ("expr", "index", "low", "high"),
    [
        ("H * * * *", 0, 0, 59),
        ("H(0-29) * * * *", 0, 0, 29),
        ("0 H * * *", 1, 0, 23),
        ("0 0 H * *", 2, 1, 28),
        ("0 0 1 H *", 3, 1, 12),
        ("0 0 * * H", 4, 0, 6),
        ("H/1 * * * *", 0, 0, 59),
    ],
)
def test_jobs_spread_evenly_over_all_values(expr: str, index: int, low: int, high: int) -> None:
    drawn = Counter(int(concrete(expr, f"job-{n}").split()[index]) for n in range(4000))
    assert set(drawn) == set(range(low, high + 1))
    assert max(drawn.values()) < 2 * 4000 / (high - low + 1)


def test_a_step_starts_within_its_first_stride() -> None:
    starts = set()
    for n in range(200):
        start, _, rest = concrete("H/15 * * * *", f"job-{n}").split()[0].partition("-")
        assert rest == "59/15"
        starts.add(int(start))
    assert starts == set(range(15))


def test_a_macro_of_jenkins_is_hashed() -> None:
    assert concrete("@hourly") == concrete("H * * * *")
    assert concrete("@Weekly") == concrete("H H * * H")
    assert int(concrete("@midnight").split()[1]) < 3


def test_a_random_range_of_cron_may_leave_out_its_ends() -> None:
    for n in range(100):
        low, high, weekday = (
            concrete("20~ ~3 * * MON~WED", f"job-{n}", "vixie").split()[at] for at in (0, 1, 4)
        )
        assert 20 <= int(low) <= 59
        assert 0 <= int(high) <= 3
        assert 1 <= int(weekday) <= 3


def test_a_plan_holds_numbers_and_no_job() -> None:
    schedule = parse_schedule("H H * * *", "Europe/Berlin", now=NOW, job_id="a")
    minute, hour = concrete("H H * * *", "a").split()[:2]
    assert schedule == Cron(f"{minute} {hour} * * *", "Europe/Berlin", "jenkins")
    assert len(Plan.of(schedule).upcoming(NOW, NOW, 3)) == 3


def test_a_tz_line_sets_the_zone() -> None:
    text = "TZ=Australia/Sydney\n# every hour\n\n  0 5 * * *\n"
    assert parse_schedule(text, now=NOW) == Cron("0 5 * * *", "Australia/Sydney", "jenkins")
    reading = DIALECTS["jenkins"].parse("TZ=Asia/Calcutta\r\nH 5 * * *", Context(job_id="a"))
    assert isinstance(reading, Reading)
    assert reading.timezone == "Asia/Calcutta"


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("H(5-2) * * * *", ["minute", "'H(5-2)'", "character 1 ", "reversed"]),
        ("0 H(20-24) * * *", ["hour", "'H(20-24)'", "character 3 ", "0-23"]),
        ("0 0 H/29 * *", ["day of month", "step of 29", "1 to 28"]),
        ("H/0 * * * *", ["minute", "step of 0"]),
        ("H,99 * * * *", ["minute", "'99'", "character 3 ", "0-59"]),
        ("H * * * 8", ["day of week", "'8'", "character 9 ", "0-7"]),
        ("H * * JAN *", ["month", "'JAN'"]),
        ("8/16 * * * *", ["minute", "write 8-59/16"]),
        ("H H * *", ["day of week: missing", "Jenkins"]),
        ("TZ=Asia/Nowhere\n0 0 * * *", ["timezone", "character 4", "Asia/Nowhere"]),
        ("TZ=UTC\n", ["minute: missing"]),
        ("0 5 * * *\n0 6 * * *", ["'0 6 * * *'", "character 11 ", "job of its own"]),
    ],
)
def test_a_refusal_of_jenkins_names_the_field_the_text_and_the_place(
    expr: str, parts: list[str]
) -> None:
    message = refusal(expr)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    ("expr", "parts"),
    [
        ("30~20 * * * *", ["minute", "'30~20'", "character 1 ", "reversed"]),
        ("0 ~24 * * *", ["hour", "'~24'", "character 3 ", "0-23"]),
        ("0~5/9 * * * *", ["minute", "step of 9", "1 to 6"]),
        ("~ ? * * *", ["hour", "'?'", "character 3 "]),
    ],
)
def test_a_refusal_of_cron_names_the_field_the_text_and_the_place(
    expr: str, parts: list[str]
) -> None:
    message = refusal(expr, dialect="vixie")
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(("dialect", "expr"), [("jenkins", "0 H * * *"), ("vixie", "0 ~ * * *")])
def test_without_a_job_there_is_nothing_to_spread_by(dialect: str, expr: str) -> None:
    message = refusal(expr, None, dialect)
    assert message.startswith("hour: ")
    assert "job id" in message


def test_an_expression_without_h_needs_no_job() -> None:
    assert concrete("0 5 * * 1-5", None) == "0 5 * * 1-5"
