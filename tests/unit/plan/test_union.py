"""Joined schedules: the times of all parts, each instant once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadExpression, BadInput, NeverFires, NotSupported
from engine.plan import Cron, Every, Joined, Misfire, Once, Plan, parse_schedule, propose
from engine.plan.rules import COUNT_CAP
from engine.registration import Planned, Timing, plan_times

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 1_767_225_600_000
"""Thursday 2026-01-01T00:00:00Z."""


def planned(*expr: str, **more: object) -> Planned:
    return plan_times(Timing(expr, **more), "a", NOW)  # type: ignore[arg-type]


def hours(plan: Plan, n: int) -> list[float]:
    """Return the first times, in hours from NOW."""
    return [(at - NOW) / HOUR for at in plan.upcoming(NOW, NOW, n)]


def test_several_schedules_are_joined_and_one_is_itself() -> None:
    assert parse_schedule(["0 9 * * *", "every 1h"], now=NOW) == Joined(
        (Cron("0 9 * * *", "UTC"), Every(HOUR))
    )
    assert parse_schedule(["0 9 * * *"], now=NOW) == Cron("0 9 * * *", "UTC")


def test_a_union_has_the_times_of_all_its_parts_each_instant_once() -> None:
    found = planned("0 9 * * *", "0 9,17 * * *", "2026-01-01T10:30:00Z")
    assert hours(found.plan, 5) == [9, 10.5, 17, 33, 41]
    assert found.next_run_at == NOW + 9 * HOUR


def test_parts_may_name_zones_and_dialects_of_their_own() -> None:
    found = planned("TZ=Asia/Tokyo 0 9 * * *", "cron(0 9 * * ? *)", "0 9 * * *", timezone="UTC")
    assert hours(found.plan, 3) == [9, 24, 33]
    assert [part.dialect for part in found.plan.parts] == ["k8s", "aws", "vixie"]
    assert found.plan.parts[0].timezone == "Asia/Tokyo"


def test_each_interval_has_a_phase_of_its_own() -> None:
    found = planned("every 2h", "every 3h from 2026-01-01T01:00:00Z")
    assert hours(found.plan, 6) == [1, 2, 4, 6, 7, 8]
    # The anchor of the job says nothing about either.
    assert found.plan.first_after(NOW, NOW + 7) == NOW + HOUR


def test_an_interval_begins_with_a_phase_that_lies_ahead() -> None:
    found = planned("every 1h from 2026-01-01T05:00:00Z", "0 2 * * *")
    assert hours(found.plan, 3) == [2, 5, 6]


def test_a_start_is_the_phase_of_intervals_without_one() -> None:
    found = planned("every 2h", "0 4 * * *", start_at=NOW + 3 * HOUR)
    assert hours(found.plan, 4) == [3, 4, 5, 7]


def test_jobs_share_a_plan_if_their_phases_agree() -> None:
    one = plan_times(Timing(("every 2h", "0 9 * * *")), "a", NOW).plan
    same = plan_times(Timing(("every 2h", "0 9 * * *")), "b", NOW + 4 * HOUR).plan
    other = plan_times(Timing(("every 2h", "0 9 * * *")), "c", NOW + HOUR).plan
    assert one.id == same.id != other.id


def test_a_union_is_read_back_as_it_was_written() -> None:
    plan = planned("every 2h", "0 9 * * *", "2026-01-01T10:30:00Z", misfire=Misfire("skip")).plan
    assert plan.kind == "union"
    assert Plan.from_canonical(plan.canonical) == plan
    newer = plan.canonical.replace(b'"interval_ms"', b'"rhythm_ms"')
    with pytest.raises(NotSupported):
        Plan.from_canonical(newer)
    with pytest.raises(NotSupported):
        Plan.from_canonical(b'{"kind":"union","parts":[{"dialect":"klingon","kind":"cron"}]}')


def test_a_union_of_single_times_comes_to_its_end() -> None:
    found = planned("2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z")
    assert hours(found.plan, 5) == [1, 2]
    last = propose(found.plan, NOW + 2 * HOUR, NOW + 2 * HOUR)
    assert (last.nominal_at, last.next_at) == (NOW + 2 * HOUR, None)


def test_late_times_of_all_parts_are_skipped_together() -> None:
    plan = planned("0 * * * *", "30 * * * *").plan
    first, now = NOW + HOUR, NOW + 5 * HOUR + 10 * MINUTE
    found = propose(plan, first, now)
    assert found.nominal_at == NOW + 5 * HOUR
    assert found.skipped is not None
    assert (found.skipped.first_at, found.skipped.count) == (first, 8)


@pytest.mark.parametrize(
    ("expr", "field", "error"),
    [
        (["0 9 * * *", "61 * * * *"], "schedule_expr.1", BadExpression),
        (["every 1ms", "0 9 * * *"], "schedule_expr.0", BadExpression),
        (["0 9 * * *", "0 0 30 2 *"], "schedule_expr.1", NeverFires),
        (["0 9 * * *", "2020-01-01T00:00:00Z"], "schedule_expr.1", BadInput),
        ([], "schedule_expr", BadInput),
        (["0 9 * * *"] * 21, "schedule_expr", BadInput),
    ],
)
def test_a_part_that_is_wrong_is_refused_with_its_place(
    expr: list[str], field: str, error: type[BadInput]
) -> None:
    with pytest.raises(error) as refused:
        parse_schedule(expr, now=NOW)
    assert refused.value.field == field


PARTS = st.sampled_from(
    [
        Cron("*/7 * * * *", "UTC"),
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("0 9 * * 1-5", "America/New_York"),
        Every(41 * MINUTE),
        Every(5 * HOUR, NOW + 100 * MINUTE),
        Once(NOW + 3 * DAY),
    ]
)


@settings(max_examples=150, deadline=None)
@given(parts=st.lists(PARTS, min_size=2, max_size=4), begin=st.integers(0, 120 * DAY))
def test_a_union_is_the_sorted_union_of_its_parts(
    parts: list[Cron | Every | Once], begin: int
) -> None:
    after, phase = NOW + begin, NOW + 7 * MINUTE
    plan = Plan.of(Joined(tuple(parts)), phase=phase)
    expected: set[int] = set()
    for part in parts:
        anchor = phase
        first = None
        match part:
            case Every(_, own):
                anchor = first = own or phase % part.interval_ms
            case Once(at):
                anchor = at
        alone = Plan.of(part).upcoming(after, anchor, 60)
        expected.update(at for at in alone if first is None or at >= first)
    expected_first = sorted(expected)[:40]
    found = plan.upcoming(after, NOW, len(expected_first))
    assert found == expected_first
    if len(found) > 1:
        assert plan.rule.latest(found[0], found[-1]) == found[-1]
        assert plan.rule.latest(found[0], found[-1] - 1) == found[-2]
        assert plan.rule.count(found[0], found[-1]) == (len(found), True)


def test_counting_a_union_stops_at_the_cap() -> None:
    plan = planned("every 1s", "0 9 * * *").plan
    assert plan.rule.count(NOW + 1000, NOW + 9_000_000) == (COUNT_CAP, False)
