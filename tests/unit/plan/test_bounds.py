"""Start, end and window: where a plan's times lie, and how much later each job of it is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadInput
from engine.plan import Cron, Every, Plan
from engine.plan.plan import LONGEST_WINDOW_MS
from engine.plan.rules import BoundedRule

MINUTE = 60_000
T0 = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
WINDOW = 10 * MINUTE


def at(minute: int) -> int:
    return T0 + minute * MINUTE


def bounded(start_at: int | None = None, end_at: int | None = None) -> Plan:
    return Plan("every", interval_ms=MINUTE, start_at=start_at, end_at=end_at)


@pytest.mark.parametrize(
    ("after", "first"),
    [
        (at(-90), at(0)),
        (at(0) - 1, at(0)),
        (at(0), at(1)),
        (at(2), at(3)),
        (at(3) - 1, at(3)),
        (at(3), None),
        (at(90), None),
    ],
)
def test_no_time_lies_before_the_start_or_after_the_end(after: int, first: int | None) -> None:
    assert bounded(at(0), at(3)).first_after(after, at(0)) == first


def test_a_start_between_two_times_leaves_the_phase_alone() -> None:
    assert bounded(start_at=at(2) + 1).upcoming(at(-9), at(0), 2) == [at(3), at(4)]


def test_an_end_between_two_times_is_no_time() -> None:
    assert bounded(end_at=at(2) - 1).upcoming(at(0), at(0), 9) == [at(1)]


def test_bounds_hold_for_cron_too() -> None:
    plan = Plan("cron", "*/5 * * * *", start_at=at(7), end_at=at(20))
    assert plan.upcoming(at(-9), 0, 9) == [at(10), at(15), at(20)]


def test_a_plan_without_bounds_is_not_wrapped() -> None:
    assert not isinstance(Plan.of(Every(MINUTE)).rule, BoundedRule)


@given(
    start=st.integers(-20, 20),
    length=st.integers(0, 30),
    late_ms=st.integers(0, 60 * MINUTE),
)
def test_latest_and_count_agree_with_the_times_one_by_one(
    start: int, length: int, late_ms: int
) -> None:
    plan = bounded(at(start), at(start + length))
    times = plan.upcoming(at(-99), at(0), 99)
    passed = [time for time in times if time <= times[0] + late_ms]
    latest = plan.rule.latest(times[0], times[0] + late_ms)
    assert latest == passed[-1]
    assert plan.rule.count(times[0], latest) == (len(passed), True)


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(BadInput) as refusal:
        bounded(at(1), at(0))
    assert refusal.value.field == "end_at"
    assert bounded(at(1), at(1)).upcoming(at(0), at(0), 2) == [at(1)]


@pytest.mark.parametrize("window_ms", [-1, LONGEST_WINDOW_MS + 1])
def test_a_window_outside_its_limits_is_refused(window_ms: int) -> None:
    with pytest.raises(BadInput) as refusal:
        Plan("every", interval_ms=MINUTE, window_ms=window_ms)
    assert refusal.value.field == "window_ms"


def test_bounds_and_window_are_part_of_a_plans_identity() -> None:
    plans = [
        bounded(),
        bounded(at(0)),
        bounded(end_at=at(9)),
        Plan("every", interval_ms=MINUTE, window_ms=1),
    ]
    assert len({plan.id for plan in plans}) == 4
    assert [Plan.from_canonical(plan.canonical) for plan in plans] == plans
    assert bounded() == Plan.of(Every(MINUTE))


def test_a_jobs_place_in_the_window_never_changes() -> None:
    # Stored due times were made with these: a change here would fire times twice or not at all.
    plan = Plan("cron", "0 9 * * *", window_ms=WINDOW)
    assert [plan.offset_of(job_id) for job_id in ("a", "b", "nightly:1")] == [
        583_343,
        449_333,
        2_162,
    ]
    assert Plan.of(Cron("0 9 * * *", "UTC")).offset_of("a") == 0


def test_jobs_spread_evenly_over_the_window() -> None:
    plan = Plan("cron", "0 9 * * *", window_ms=WINDOW)
    offsets = [plan.offset_of(f"job-{n}") for n in range(10_000)]
    assert all(0 <= offset < WINDOW for offset in offsets)
    minutes = [sum(offset // MINUTE == minute for offset in offsets) for minute in range(10)]
    assert all(900 <= count <= 1_100 for count in minutes), minutes
