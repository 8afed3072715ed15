"""Jobs that fire at each start of the deployment: how they are written, where they wait, and what a
start does."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.depends import Depends, Upstream
from engine.errors import BadInput
from engine.keys import bucket_of
from engine.model import WorkerTarget
from engine.plan import (
    CatchUp,
    Misfire,
    MisfirePolicy,
    Plan,
    Proposal,
    Reboot,
    Skipped,
    catch_up_starts,
    clock_time,
    parse_schedule,
    propose_start,
    wait_from,
)
from engine.plan.lint import lint
from engine.plan.starts import PAST_ALL_TIMES
from engine.registration import Timing, plan_times, register
from engine.scripts import FOLDER

NOW = 1_800_000_000_000
LAST_TIME = 253_402_300_799_999
"""The last millisecond of the year 9999."""


@pytest.mark.parametrize("expr", ["@reboot", " @reboot\t", "@Reboot", ("@reboot",)])
@pytest.mark.parametrize("dialect", ["vixie", None])
def test_at_reboot_is_each_start_of_the_deployment(
    expr: str | tuple[str, ...], dialect: str | None
) -> None:
    assert parse_schedule(expr, "Asia/Tokyo", now=NOW, dialect=dialect) == Reboot()


@pytest.mark.parametrize("dialect", ["k8s", "robfig", "node", "airflow", "jenkins", "spring"])
def test_dialects_that_do_not_have_it_name_the_one_that_does(dialect: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_schedule("@reboot", now=NOW, dialect=dialect)
    assert "'@reboot'" in caught.value.message
    assert "vixie" in caught.value.message


def test_it_cannot_be_joined_with_clock_times() -> None:
    with pytest.raises(BadInput, match="'@reboot' has no clock times") as caught:
        parse_schedule(["0 5 * * *", "@reboot"], now=NOW)
    assert caught.value.field == "schedule_expr.1"


def test_all_such_jobs_have_one_plan_and_no_time_by_the_clock() -> None:
    plan = Plan.of(parse_schedule("@reboot", now=NOW))
    assert plan.canonical == b'{"kind":"reboot"}'
    assert Plan.from_canonical(plan.canonical) == plan
    assert plan.upcoming(NOW, NOW, 5) == []
    assert plan.zones == frozenset()


def test_it_is_described_in_words() -> None:
    said = lint("@reboot", "Asia/Tokyo", now=NOW)
    assert (said.dialect, said.description) == ("vixie", "At each start of the deployment")
    assert (said.warnings, said.conversions) == ((), {})


def test_a_job_waits_behind_all_times_of_the_clock() -> None:
    planned = plan_times(Timing("@reboot"), "job", NOW)
    assert planned.next_run_at == wait_from(NOW)
    assert (planned.run_at, planned.anchor_at) == (None, NOW)
    assert wait_from(0) > LAST_TIME
    assert int(bucket_of(LAST_TIME)) < int(bucket_of(wait_from(0)))
    # What a score of a sorted set holds exactly.
    assert int(float(wait_from(LAST_TIME))) == wait_from(LAST_TIME) < 2**53


def test_only_times_of_the_clock_are_shown() -> None:
    assert [clock_time(at) for at in (None, NOW, LAST_TIME)] == [None, NOW, LAST_TIME]
    assert clock_time(wait_from(0)) is None


def test_scripts_have_the_same_end_of_times() -> None:
    [number] = re.findall(r"PAST_ALL_TIMES = (\d+)\n", (FOLDER / "lib/starts.lua").read_text())
    assert int(number) == PAST_ALL_TIMES


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("start_at", NOW),
        ("end_at", NOW + 1),
        ("window_ms", 1),
        ("calendars", ("holidays",)),
        ("misfire", Misfire("skip")),
        ("misfire", Misfire(grace_ms=0)),
        ("roll", "next_business_day"),
    ],
)
def test_what_means_nothing_without_clock_times_is_refused(field: str, value: Any) -> None:
    with pytest.raises(BadInput) as caught:
        plan_times(Timing("@reboot", **{field: value}), "job", NOW)
    assert caught.value.field == field


def test_such_a_job_cannot_wait_for_others() -> None:
    depends = Depends((Upstream("above"),), gate_ms=60_000)
    with pytest.raises(BadInput) as caught:
        register(now=NOW, target=WorkerTarget(), timing=Timing("@reboot"), depends=depends)
    assert caught.value.field == "depends_on"


def test_a_start_fires_what_waited_since_before_it() -> None:
    found = propose_start(wait_from(NOW - 1), [NOW])
    assert found == Proposal(NOW, wait_from(NOW), None)


@pytest.mark.parametrize("since", [NOW, NOW + 1])
def test_what_has_had_the_start_or_came_after_it_waits_for_the_next(since: int) -> None:
    assert propose_start(wait_from(since), [NOW - 9, NOW]) is None
    assert propose_start(wait_from(since), []) is None


def test_older_starts_that_were_not_carried_out_are_skipped() -> None:
    starts = [NOW, NOW + 5, NOW + 7, NOW + 9]
    found = propose_start(wait_from(NOW), starts)
    late = Skipped("late", NOW + 5, NOW + 7, 2, True)
    assert found == Proposal(NOW + 9, wait_from(NOW + 9), late)


@pytest.mark.parametrize(
    ("policy", "most", "run", "skipped"),
    [
        (None, None, [], [3, 5, 8]),
        ("skip", None, [], [3, 5, 8]),
        ("fire_once", None, [8], [3, 5]),
        ("fire_all", None, [3, 5, 8], []),
        ("fire_all", 5, [3, 5, 8], []),
        ("fire_all", 2, [5, 8], [3]),
    ],
)
def test_starts_that_a_pause_held_back_run_only_if_asked_for(
    policy: MisfirePolicy | None, most: int | None, run: list[int], skipped: list[int]
) -> None:
    found = catch_up_starts(wait_from(1), [0, 1, 3, 5, 8], 9, policy, most)
    left = Skipped("late", skipped[0], skipped[-1], len(skipped), True) if skipped else None
    next_at = None if most == 2 else wait_from(9)
    assert found == CatchUp(run, left, next_at)


def test_a_job_that_missed_nothing_waits_on_from_now() -> None:
    assert catch_up_starts(wait_from(5), [3, 5], 9) == CatchUp([], None, wait_from(9))


def test_a_start_ahead_of_the_clock_is_not_fired_after_it_was_skipped() -> None:
    found = catch_up_starts(wait_from(1), [12], 9)
    assert found.next_at == wait_from(12)
