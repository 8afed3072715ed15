"""Proposals: on time, late under each misfire policy, and that no time is lost or used twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.plan import (
    Calendars,
    Cron,
    Every,
    Immediate,
    Misfire,
    Once,
    Plan,
    Proposal,
    Proposer,
    Schedule,
    Skipped,
    parse_schedule,
    propose,
)
from engine.plan.cron_eval import FIXED_TIME
from engine.plan.dialects.vixie import parse_cron
from engine.plan.plan import MisfirePolicy
from engine.plan.rules import COUNT_CAP, CronRule

MINUTE = 60_000
T0 = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
POLICIES: list[MisfirePolicy] = ["fire_once", "fire_all", "skip"]


def minutely(policy: MisfirePolicy, grace_ms: int = MINUTE) -> Plan:
    return Plan.of(Cron("* * * * *", "UTC"), Misfire(policy, grace_ms))


def late(first_at: int, last_at: int, count: int) -> Skipped:
    return Skipped("late", first_at, last_at, count, exact=True)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lateness", [0, 1, MINUTE])
def test_a_time_within_the_grace_fires_whatever_the_policy(
    policy: MisfirePolicy, lateness: int
) -> None:
    assert propose(minutely(policy), T0, T0 + lateness) == Proposal(T0, T0 + MINUTE, None)


def test_fire_once_fires_the_latest_time_and_skips_those_before_it() -> None:
    now = T0 + 5 * MINUTE + 7
    skipped = late(T0, T0 + 4 * MINUTE, 5)
    assert propose(minutely("fire_once"), T0, now) == Proposal(
        T0 + 5 * MINUTE, T0 + 6 * MINUTE, skipped
    )


def test_fire_once_skips_nothing_if_one_time_was_missed() -> None:
    plan = Plan.of(Cron("0 0 * * *", "UTC"))
    assert propose(plan, T0, T0 + 3_600_000) == Proposal(T0, T0 + 86_400_000, None)


def test_fire_all_fires_the_missed_times_one_after_the_other() -> None:
    assert propose(minutely("fire_all"), T0, T0 + 10 * MINUTE) == Proposal(T0, T0 + MINUTE, None)


def test_skip_goes_on_with_the_first_time_that_is_still_within_the_grace() -> None:
    now = T0 + 5 * MINUTE + 7
    skipped = late(T0, T0 + 4 * MINUTE, 5)
    assert propose(minutely("skip"), T0, now) == Proposal(None, T0 + 5 * MINUTE, skipped)


def test_skip_fires_a_time_that_is_late_by_exactly_the_grace() -> None:
    now = T0 + 3 * MINUTE
    first = propose(minutely("skip"), T0, now)
    assert first == Proposal(None, T0 + 2 * MINUTE, late(T0, T0 + MINUTE, 2))
    assert propose(minutely("skip"), T0 + 2 * MINUTE, now).nominal_at == T0 + 2 * MINUTE


def test_without_grace_skip_goes_on_with_a_time_of_this_very_millisecond() -> None:
    now = T0 + 2 * MINUTE
    assert propose(minutely("skip", 0), T0, now) == Proposal(None, now, late(T0, T0 + MINUTE, 2))


@pytest.mark.parametrize("schedule", [Once(T0), Immediate()])
def test_a_late_one_off_fires_or_is_skipped_and_has_no_next_time(schedule: Schedule) -> None:
    now = T0 + 10 * MINUTE
    for policy in POLICIES[:2]:
        plan = Plan.of(schedule, Misfire(policy))
        assert propose(plan, T0, now) == Proposal(T0, None, None)
    plan = Plan.of(schedule, Misfire("skip"))
    assert propose(plan, T0, now) == Proposal(None, None, late(T0, T0, 1))


def test_an_interval_counts_a_year_of_missed_seconds_exactly() -> None:
    plan, year = Plan.of(Every(1000)), 365 * 86_400_000
    proposal = propose(plan, T0, T0 + year + 1)
    assert proposal == Proposal(T0 + year, T0 + year + 1000, late(T0, T0 + year - 1000, 31_536_000))


def test_cron_stops_counting_at_the_cap_and_says_so() -> None:
    at_cap = propose(minutely("fire_once"), T0, T0 + COUNT_CAP * MINUTE)
    assert at_cap.skipped == late(T0, T0 + (COUNT_CAP - 1) * MINUTE, COUNT_CAP)
    past_cap = propose(minutely("fire_once"), T0, T0 + (COUNT_CAP + 1) * MINUTE)
    assert past_cap.skipped == Skipped("late", T0, T0 + COUNT_CAP * MINUTE, COUNT_CAP, exact=False)


@pytest.mark.parametrize("expr", ["* * * * *", "* 9 * * *", "* * 1 1 *", "0 0 29 2 *"])
def test_the_latest_time_after_ten_years_is_found_in_few_steps(
    expr: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, steps = CronRule(parse_cron(expr), "Europe/Berlin", FIXED_TIME), 0
    search = rule.first_after

    def counted(after: int, anchor: int) -> int | None:
        nonlocal steps
        steps += 1
        return search(after, anchor)

    first = search(T0, T0)
    assert first is not None
    monkeypatch.setattr(rule, "first_after", counted)
    until = T0 + 10 * 365 * 86_400_000
    latest = rule.latest(first, until)
    assert steps <= 50
    following = search(latest, T0)
    assert following is not None
    assert latest <= until < following


def test_nothing_fires_early() -> None:
    for call in (propose, Proposer().propose):
        with pytest.raises(ValueError, match="after now"):
            call(minutely("fire_all"), T0, T0 - 1)


SCHEDULES = st.sampled_from(
    [
        Cron("* * * * *", "UTC"),
        Cron("*/7 * * * *", "Europe/Berlin"),
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("15,45 1-3 * * *", "Australia/Lord_Howe"),
        Every(61_234),
        Every(3_600_000),
        Once(0),
        Immediate(),
    ]
)
STARTS = st.sampled_from([T0, 1_774_742_400_000, 1_792_886_400_000, 1_775_300_400_000])
"""New Year, the days before Berlin's two changes, and before Lord Howe's autumn, all 2026."""


@settings(max_examples=300, deadline=None)
@given(
    schedule=SCHEDULES,
    start=STARTS,
    policy=st.sampled_from(POLICIES),
    grace_ms=st.sampled_from([0, 1, 5_000, MINUTE, 3_600_000]),
    waits=st.lists(
        st.one_of(st.integers(0, 3 * MINUTE), st.integers(0, 1000 * MINUTE)), min_size=1, max_size=6
    ),
)
def test_every_nominal_time_is_fired_or_skipped_exactly_once(
    schedule: Schedule, start: int, policy: MisfirePolicy, grace_ms: int, waits: list[int]
) -> None:
    plan = Plan.of(schedule, Misfire(policy, grace_ms))
    anchor = due = start if plan.kind != "cron" else plan.first_after(start, start) or start
    fired: list[int] = []
    skipped: list[int] = []
    pending: int | None = due
    now, proposer = due, Proposer(size=3)
    for wait in waits:
        now += wait
        while pending is not None and pending <= now:
            proposal = proposer.propose(plan, pending, now)
            assert proposal == propose(plan, pending, now)
            if proposal.nominal_at is not None:
                assert proposal.nominal_at <= now
                fired.append(proposal.nominal_at)
            if proposal.skipped:
                gone = expand(plan, proposal.skipped, anchor)
                assert all(now - at > grace_ms for at in gone) or policy == "fire_once"
                skipped += gone
            assert proposal.next_at is None or proposal.next_at > pending
            pending = proposal.next_at
    expected = [due, *plan.upcoming(due, anchor, len(fired) + len(skipped))]
    expected = [at for at in expected if at <= now]
    assert sorted(fired + skipped) == expected
    assert pending == plan.first_after(expected[-1], anchor)
    assert fired == sorted(fired)
    if policy == "fire_all":
        assert skipped == [] or len(fired) >= plan.misfire.max_catch_up


def expand(plan: Plan, skipped: Skipped, anchor: int) -> list[int]:
    """The nominal times that a skip stands for, checked against its count."""
    times = [skipped.first_at]
    while times[-1] < skipped.last_at:
        times.append(plan.first_after(times[-1], anchor) or skipped.last_at)
    assert times[-1] == skipped.last_at
    assert skipped.count == (len(times) if skipped.exact else COUNT_CAP) <= len(times)
    return times


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The (due_at, now) of every proposal that a Proposer does not remember."""
    calls = []

    def counted(plan: Plan, due_at: int, now: int, calendars: Calendars) -> Proposal:
        calls.append((due_at, now))
        return propose(plan, due_at, now, calendars)

    monkeypatch.setattr("engine.plan.proposal.propose", counted)
    return calls


def test_a_proposer_computes_once_for_all_jobs_of_a_plan_and_due_time(
    computed: list[tuple[int, int]],
) -> None:
    proposer, plan = Proposer(), minutely("fire_once")
    for lateness in (0, 5, MINUTE, 0):
        proposer.propose(plan, T0, T0 + lateness)
    assert computed == [(T0, T0)]
    for now in (T0 + 2 * MINUTE, T0 + 2 * MINUTE, T0 + 3 * MINUTE):
        assert proposer.propose(plan, T0, now) == propose(plan, T0, now)
    assert computed[1:] == [(T0, T0 + 2 * MINUTE), (T0, T0 + 3 * MINUTE)]


def test_a_proposer_does_not_mistake_one_plan_for_another() -> None:
    proposer, now = Proposer(), T0 + 10 * MINUTE
    for plan in (minutely("fire_all"), minutely("skip"), Plan.of(Every(7000)), minutely("skip", 0)):
        assert proposer.propose(plan, T0, now) == propose(plan, T0, now)


def test_a_proposer_forgets_what_is_old_and_keeps_what_is_used(
    computed: list[tuple[int, int]],
) -> None:
    proposer, plan = Proposer(size=10), minutely("fire_all")
    for n in range(1, 100):
        at = T0 + n * MINUTE
        assert proposer.propose(plan, at, at).nominal_at == at
        proposer.propose(plan, T0, T0)
    assert computed.count((T0, T0)) == 1
    assert len(computed) == 100
    oldest = T0 + MINUTE
    proposer.propose(plan, oldest, oldest)
    assert computed.count((oldest, oldest)) == 2


def test_a_time_that_a_gap_leaves_out_is_recorded_with_the_time_before_it() -> None:
    spring = datetime(2026, 3, 29, 1, tzinfo=UTC)
    schedule = parse_schedule("30 2 * * *", "Europe/Berlin", now=0)
    plan = Plan.of(schedule, dst_gap="skip")
    before = plan.first_after(int(spring.timestamp()) * 1_000 - 1_440 * MINUTE, 0)
    assert before is not None
    proposal = propose(plan, before, before)
    gap_at = int(spring.timestamp()) * 1_000
    assert proposal.in_gap == Skipped("dst_gap", gap_at, gap_at, 1, True)
    assert proposal.next_at is not None
    assert propose(plan, proposal.next_at, proposal.next_at).in_gap is None
    assert propose(Plan.of(schedule), before, before).in_gap is None
