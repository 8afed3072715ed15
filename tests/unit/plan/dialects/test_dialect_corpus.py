"""Every expression that was collected from public projects, each read in its own dialect."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import BadExpression, NeverFires
from engine.plan import Cron, Every, Plan, parse_schedule

DATA = Path(__file__).parents[1] / "data"
DIALECTS = ("jenkins", "quartz", "aws", "spring", "k8s", "node", "airflow")
NOW = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
COLLECTED = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 1000
"""When `never` was true of the one-off times among them."""

REFUSED_NEVERTHELESS = {
    ("jenkins", "08/16 05 * * 0"): "a step without a range",  # Jenkins's grammar has it not
    ("spring", "-"): "turns a trigger off",  # valid as a property, but no schedule
}
"""Rows that are marked as valid, and why they are refused."""
NEVER_FIRES_NEVERTHELESS = {("node", "0 0 31 4 *")}
"""Rows that are marked as unreadable (one package rejects them), but are merely without a date."""


def rows(*valid: str) -> list[tuple[str, str, str]]:
    found = []
    for dialect in DIALECTS:
        with (DATA / f"{dialect}.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                assert row["dialect"] == dialect
                if row["valid"] in valid:
                    expr = row["expression"].replace("\\n", "\n")
                    found.append((dialect, expr, row["timezone"] or "UTC"))
    return found


def plan_of(dialect: str, expr: str, timezone: str) -> Plan:
    return Plan.of(parse_schedule(expr, timezone, now=NOW, dialect=dialect, job_id="report-7"))


def test_the_collected_expressions_are_all_there() -> None:
    counts = {kind: len(rows(kind)) for kind in ("yes", "no", "never")}
    assert counts == {"yes": 562, "no": 74, "never": 23}


@pytest.mark.parametrize(("dialect", "expr", "timezone"), rows("yes"))
def test_a_valid_expression_gives_fifty_increasing_times_or_all_it_has(
    dialect: str, expr: str, timezone: str
) -> None:
    if reason := REFUSED_NEVERTHELESS.get((dialect, expr)):
        with pytest.raises(BadExpression, match=reason):
            plan_of(dialect, expr, timezone)
        return
    times = plan_of(dialect, expr, timezone).upcoming(NOW, NOW, 50)
    # Two rows name their years, and have twelve days in them.
    assert len(times) == (12 if "2050" in expr else 50)
    assert times == sorted(set(times))
    assert times[0] > NOW
    assert all(at % 1000 == 0 for at in times)


@pytest.mark.parametrize(("dialect", "expr", "timezone"), rows("yes"))
def test_what_a_plan_stores_means_the_same_without_the_job(
    dialect: str, expr: str, timezone: str
) -> None:
    if (dialect, expr) in REFUSED_NEVERTHELESS:
        return
    plan = plan_of(dialect, expr, timezone)
    again = Plan.from_canonical(bytes(bytearray(plan.canonical)))
    assert again.upcoming(NOW, NOW, 5) == plan.upcoming(NOW, NOW, 5)
    if plan.kind == "cron":
        stored = parse_schedule(plan.expr, plan.timezone, now=NOW, dialect=plan.dialect)
        assert stored == Cron(plan.expr, plan.timezone, plan.dialect)


@pytest.mark.parametrize(("dialect", "expr", "timezone"), rows("no"))
def test_an_invalid_expression_is_refused_with_its_place(
    dialect: str, expr: str, timezone: str
) -> None:
    refused = NeverFires if (dialect, expr) in NEVER_FIRES_NEVERTHELESS else BadExpression
    with pytest.raises(refused) as caught:
        plan_of(dialect, expr, timezone)
    assert caught.value.field == "schedule_expr"
    if refused is BadExpression:
        message = caught.value.message
        assert " at character " in message or ": missing" in message


@pytest.mark.parametrize(("dialect", "expr", "timezone"), rows("never"))
def test_an_expression_without_a_time_left_never_fires(
    dialect: str, expr: str, timezone: str
) -> None:
    with pytest.raises(NeverFires) as caught:
        parse_schedule(expr, timezone, now=COLLECTED, dialect=dialect)
    assert caught.value.field == "schedule_expr"


@pytest.mark.parametrize("dialect", ["k8s", "robfig"])
def test_robfig_is_another_name_for_k8s(dialect: str) -> None:
    assert parse_schedule("@every 90s", now=NOW, dialect=dialect) == Every(90_000)
    assert parse_schedule("0 5 * * ?", now=NOW, dialect=dialect) == Cron(
        "0 5 * * ?", "UTC", dialect
    )
