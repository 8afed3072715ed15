"""Plans: what is shared, the canonical form and its id, and times by kind of schedule."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadInput, NotSupported
from engine.plan import Cron, Every, Immediate, Misfire, Once, Plan

PLANS = [
    Plan.of(Cron("30 2 * * *", "Europe/Berlin")),
    Plan.of(Cron("30 2 * * *", "UTC")),
    Plan.of(Cron("30 2 * * *", "UTC"), Misfire("skip")),
    Plan.of(Cron("30 2 * * *", "UTC"), Misfire("skip", 0)),
    Plan.of(Cron("30 2 * * *", "UTC", "k8s")),
    Plan.of(Cron("30 2 * * *", "UTC"), dst_gap="skip"),
    Plan.of(Cron("30 2 * * *", "UTC"), dst_overlap="both"),
    Plan.of(Every(30_000)),
    Plan.of(Every(30_001)),
    Plan.of(Once(5)),
    Plan.of(Immediate()),
    Plan.of(Immediate(), Misfire("fire_all")),
]


def test_every_one_off_has_the_same_plan() -> None:
    assert Plan.of(Once(1)) == Plan.of(Once(2))
    assert Plan.of(Once(1)).canonical == b'{"kind":"once"}'


def test_the_canonical_form_is_sorted_and_compact_and_leaves_defaults_out() -> None:
    assert Plan.of(Cron("0 9 * * *", "UTC")).canonical == b'{"expr":"0 9 * * *","kind":"cron"}'
    assert Plan.of(Every(5000), Misfire("skip", 10)).canonical == (
        b'{"interval_ms":5000,"kind":"every","misfire":{"grace_ms":10,"policy":"skip"}}'
    )


def test_a_dialect_and_a_dst_rule_are_in_the_canonical_form_unless_default() -> None:
    chosen = Plan.of(Cron("0 9 * * *", "UTC", "k8s"), dst_gap="skip", dst_overlap="second")
    assert chosen.canonical == (
        b'{"dialect":"k8s","dst_gap":"skip","dst_overlap":"second",'
        b'"expr":"0 9 * * *","kind":"cron"}'
    )
    vixie = Cron("0 9 * * *", "UTC")
    assert Plan.of(vixie, dst_gap="run_after", dst_overlap="first") == Plan.of(vixie)
    assert Plan.of(Every(5000), dst_gap="skip") == Plan.of(Every(5000))


def test_a_plan_id_never_changes() -> None:
    # Ids are stored: a change here would orphan every plan of a running system.
    assert Plan.of(Once(1)).id == "GuySA3WtdM4"
    assert Plan.of(Cron("30 2 * * *", "Europe/Berlin")).id == "hzRyL-23AdQ"


def test_different_plans_have_different_ids_of_eleven_safe_characters() -> None:
    ids = {plan.id for plan in PLANS}
    assert len(ids) == len(PLANS)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{11}", plan_id) for plan_id in ids)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.canonical.decode())
def test_a_plan_comes_back_from_its_canonical_form(plan: Plan) -> None:
    again = Plan.from_canonical(plan.canonical)
    assert again == plan
    assert again.id == plan.id
    assert Plan.from_canonical(bytes(bytearray(plan.canonical))) is again


def test_a_plan_of_a_newer_version_is_refused_and_not_misread() -> None:
    newer: list[dict[str, object]] = [
        {"calendar": "holidays"},
        {"misfire": {"policy": "skip", "most": 3}},
        {"dialect": "mayan"},
    ]
    for extra in newer:
        with pytest.raises(NotSupported, match="newer"):
            Plan.from_canonical(json.dumps({"kind": "once", **extra}).encode())


def test_a_misfire_policy_that_is_not_one_is_refused() -> None:
    with pytest.raises(BadInput, match="fire_once, fire_all, skip") as caught:
        Misfire("fire_twice")  # type: ignore[arg-type]
    assert caught.value.field == "misfire.policy"
    with pytest.raises(BadInput, match="0 ms or more") as caught:
        Misfire("skip", -1)
    assert caught.value.field == "misfire.grace_ms"


def test_a_dst_setting_that_is_not_one_is_refused() -> None:
    with pytest.raises(BadInput, match="run_after, skip") as caught:
        Plan.of(Cron("0 9 * * *", "UTC"), dst_gap="fire")  # type: ignore[arg-type]
    assert caught.value.field == "dst_gap"
    with pytest.raises(BadInput, match="first, second, both") as caught:
        Plan.of(Cron("0 9 * * *", "UTC"), dst_overlap="none")  # type: ignore[arg-type]
    assert caught.value.field == "dst_overlap"


BERLIN_SPRING, BERLIN_AUTUMN = 1_774_738_800_000, 1_792_879_200_000
"""The midnights before the clock of Berlin changes in 2026."""
HOUR = 3_600_000


def test_a_plan_chooses_what_its_fixed_times_do_when_the_clock_changes() -> None:
    half_past_two = Cron("30 2 * * *", "Europe/Berlin")
    skip = Plan.of(half_past_two, dst_gap="skip")
    assert skip.first_after(BERLIN_SPRING, 0) == BERLIN_SPRING + 25.5 * HOUR
    both = Plan.of(half_past_two, dst_overlap="both").upcoming(BERLIN_AUTUMN, 0, 3)
    assert [(at - BERLIN_AUTUMN) / HOUR for at in both] == [2.5, 3.5, 27.5]
    second = Plan.of(half_past_two, dst_overlap="second").upcoming(BERLIN_AUTUMN, 0, 2)
    assert [(at - BERLIN_AUTUMN) / HOUR for at in second] == [3.5, 27.5]


def test_wildcard_jobs_follow_elapsed_time_whatever_the_plan_says() -> None:
    every_hour = Cron("30 * * * *", "Europe/Berlin")
    for day in (BERLIN_SPRING, BERLIN_AUTUMN):
        times = Plan.of(every_hour, dst_gap="skip", dst_overlap="second").upcoming(day, 0, 5)
        assert [(at - day) / HOUR for at in times] == [0.5, 1.5, 2.5, 3.5, 4.5]


@given(
    interval=st.integers(1000, 10**9),
    anchor=st.integers(0, 2 * 10**12),
    after=st.integers(0, 2 * 10**12),
)
def test_an_interval_keeps_the_phase_of_any_of_its_times(
    interval: int, anchor: int, after: int
) -> None:
    plan = Plan.of(Every(interval))
    at = plan.first_after(after, anchor)
    assert at is not None
    assert after < at <= after + interval
    assert (at - anchor) % interval == 0
    assert plan.first_after(after, at) == at


def test_a_one_off_has_its_anchor_and_no_more() -> None:
    plan = Plan.of(Once(500))
    assert plan.first_after(499, 500) == 500
    assert plan.first_after(500, 500) is None
    assert plan.upcoming(0, 500, 5) == [500]


def test_an_immediate_job_has_no_time_to_come() -> None:
    assert Plan.of(Immediate()).first_after(0, 500) is None
    assert Plan.of(Immediate()).upcoming(0, 500, 5) == []


def test_cron_times_are_strictly_after_the_millisecond_asked_about() -> None:
    plan = Plan.of(Cron("* * * * *", "UTC"))
    assert plan.first_after(59_999, 0) == 60_000
    assert plan.first_after(60_000, 0) == 120_000
    assert plan.first_after(60_001, 0) == 120_000
    assert plan.first_after(-1, 0) == 0


def test_upcoming_gives_as_many_times_as_asked() -> None:
    plan = Plan.of(Every(1000))
    assert plan.upcoming(0, 300, 3) == [300, 1300, 2300]
    assert plan.upcoming(0, 300, 0) == []
