"""Catching up: of the times that were held back each is run or skipped, once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.plan import CatchUp, Cron, Every, Misfire, Once, Plan, Skipped, catch_up
from engine.plan.plan import MisfirePolicy

MINUTE = 60_000
T0 = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
POLICIES: list[MisfirePolicy] = ["skip", "fire_once", "fire_all"]


def minutely(most: int = 100, policy: MisfirePolicy = "fire_once") -> Plan:
    return Plan.of(Every(MINUTE), Misfire(policy, max_catch_up=most))


def at(minute: int) -> int:
    return T0 + minute * MINUTE


def skipped(first: int, last: int) -> Skipped:
    return Skipped("late", at(first), at(last), last - first + 1, exact=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_time_to_come_stays_the_next_one(policy: MisfirePolicy) -> None:
    assert catch_up(minutely(), at(1), at(1) - 1, policy=policy) == CatchUp([], None, at(1))


@pytest.mark.parametrize(
    ("policy", "run", "missed"),
    [
        ("skip", [], skipped(0, 4)),
        ("fire_once", [at(4)], skipped(0, 3)),
        ("fire_all", [at(2), at(3), at(4)], skipped(0, 1)),
    ],
)
def test_a_policy_says_how_many_of_the_latest_times_run(
    policy: MisfirePolicy, run: list[int], missed: Skipped
) -> None:
    """The grace plays no part: who asks has decided that these times are late."""
    wanted = CatchUp(run, missed, at(5))
    assert catch_up(minutely(most=3), at(0), at(4), policy=policy) == wanted
    assert catch_up(minutely(3, policy), at(0), at(4)) == wanted


def test_fewer_times_than_may_run_leave_nothing_to_skip() -> None:
    found = catch_up(minutely(most=3), at(0), at(1), policy="fire_all")
    assert found == CatchUp([at(0), at(1)], None, at(2))


@pytest.mark.parametrize(
    ("most", "run", "missed", "next_at"),
    [
        (5, [at(2), at(3), at(4)], skipped(0, 1), at(5)),
        (3, [at(2), at(3), at(4)], skipped(0, 1), None),
        (1, [at(4)], skipped(0, 3), None),
    ],
)
def test_no_more_run_than_the_job_has_runs_left(
    most: int, run: list[int], missed: Skipped, next_at: int | None
) -> None:
    found = catch_up(minutely(most=3), at(0), at(4), policy="fire_all", most=most)
    assert found == CatchUp(run, missed, next_at)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_one_off_has_no_time_to_come(policy: MisfirePolicy) -> None:
    found = catch_up(Plan.of(Once(T0)), T0, T0 + 9, policy=policy)
    run = [] if policy == "skip" else [T0]
    assert found == CatchUp(run, None if run else skipped(0, 0), None)


def test_nothing_past_the_end_of_a_plan_runs() -> None:
    plan = Plan("every", interval_ms=MINUTE, end_at=at(2) + 5)
    found = catch_up(plan, at(0), at(9), policy="fire_all")
    assert found == CatchUp([at(0), at(1), at(2)], None, None)


PLANS = [
    Plan.of(Every(90_000), Misfire(max_catch_up=7)),
    Plan.of(Cron("*/7 * * * *", "Europe/Berlin"), Misfire(max_catch_up=3)),
    Plan("every", interval_ms=45_000, end_at=at(60), misfire=Misfire(max_catch_up=2)),
    Plan.of(Once(T0)),
]


@given(
    plan=st.sampled_from(PLANS),
    late_ms=st.integers(-MINUTE, 180 * MINUTE),
    policy=st.sampled_from(POLICIES),
)
def test_what_runs_and_what_is_skipped_are_all_the_times(
    plan: Plan, late_ms: int, policy: MisfirePolicy
) -> None:
    first_at = plan.first_after(T0 - 1, T0)
    assert first_at is not None
    now = first_at + late_ms
    found = catch_up(plan, first_at, now, policy=policy)
    times = [first_at, *plan.upcoming(first_at, first_at, 300)]
    passed = [time for time in times if time <= now]
    count = len(passed) - len(found.run)
    assert passed[count:] == found.run
    if found.skipped is None:
        assert count == 0
    else:
        span = (found.skipped.first_at, found.skipped.last_at, found.skipped.count)
        assert span == (passed[0], passed[count - 1], count)
    assert found.next_at == next((time for time in times if time > now), None)
