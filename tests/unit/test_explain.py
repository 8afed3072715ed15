"""Why a job ran or did not: one test for each verdict and reason, on a job that fires at nine."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from engine.execution import ExecutionState, SkipReason, SkipRecord
from engine.explain import Explanation, History, Subject, explain
from engine.model import JobState, Rules, WorkerTarget
from engine.plan import Misfire
from engine.registration import Timing, register


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


CREATED = at("2026-03-01T00:00Z")
NOW = at("2026-03-10T12:00Z")
NEXT = at("2026-03-11T09:00Z")


def subject(
    timing: Timing | None = None, *, history: History | None = None, now: int = NOW, **job: Any
) -> Subject:
    """A job registered at CREATED, which has fired all that came before `now`."""
    timing = timing or Timing("0 9 * * *")
    made = register(now=CREATED, target=WorkerTarget(), job_id="a", timing=timing)
    next_at = made.plan.first_after(now, made.job.anchor_at)
    stored = replace(made.job, **{"next_run_at": next_at, **job})
    return Subject(stored, made.plan, history or History(), now)


def verdict(found: Explanation) -> tuple[str, str, bool]:
    return found.verdict, found.reason, found.is_scheduled


def test_a_time_with_an_execution_was_executed_whatever_became_of_it() -> None:
    when = at("2026-03-10T09:00Z")
    for state in (ExecutionState.DEAD, ExecutionState.RUNNING):
        found = explain(subject(history=History({when: state})), when)
        assert verdict(found) == ("executed", state, True)
        assert state in found.text


def test_a_time_inside_a_skip_record_was_skipped_for_its_reason() -> None:
    record = SkipRecord(at("2026-03-05T09:00Z"), at("2026-03-08T09:00Z"), 4, SkipReason.PAUSED)
    job = subject(history=History({}, (record,)))
    found = explain(job, at("2026-03-06T09:00Z"))
    assert verdict(found) == ("skipped", "paused", True)
    assert found.text == "2026-03-06T09:00:00Z was skipped: the job was paused."
    assert explain(job, at("2026-03-06T10:00Z")).verdict == "not_scheduled"
    assert explain(job, at("2026-03-09T09:00Z")).verdict == "unknown"


def test_a_calendars_skip_names_the_calendar() -> None:
    when = at("2026-03-06T09:00Z")
    record = SkipRecord(when, when, 1, SkipReason.CALENDAR, detail="holidays")
    found = explain(subject(history=History({}, (record,))), when)
    assert (found.reason, "holidays" in found.text) == ("calendar: holidays", True)


def test_an_old_schedules_skipped_time_is_known_though_the_plan_has_it_no_more() -> None:
    when = at("2026-03-06T10:30Z")
    record = SkipRecord(when, when, 1, SkipReason.EDITED)
    found = explain(subject(history=History({}, (record,))), when)
    assert verdict(found) == ("skipped", "edited", False)


def test_a_time_that_waits_for_an_older_execution_will_fire() -> None:
    when = at("2026-03-10T09:00Z")
    assert verdict(explain(subject(queued=(when,)), when)) == ("will_fire", "queued", True)


def test_a_time_to_come_will_fire() -> None:
    assert verdict(explain(subject(), NEXT)) == ("will_fire", "scheduled", True)


def test_a_window_is_told_with_the_time_to_come() -> None:
    job = subject(Timing("0 9 * * *", window_ms=3_600_000))
    due = replace(job, job=replace(job.job, next_run_at=NEXT + job.plan.offset_of("a")))
    assert f"{job.plan.offset_of('a')} ms later" in explain(due, NEXT).text


def test_a_time_that_is_not_one_has_its_neighbours() -> None:
    found = explain(subject(), at("2026-03-11T10:00Z"))
    assert verdict(found) == ("not_scheduled", "no_match", False)
    assert (found.before, found.after) == (NEXT, at("2026-03-12T09:00Z"))
    rare = explain(subject(Timing("0 0 29 2 *")), NOW)
    assert (rare.before, rare.after) == (at("2024-02-29T00:00Z"), at("2028-02-29T00:00Z"))


def test_a_time_before_the_job_was_made_was_not_its_own() -> None:
    found = explain(subject(), at("2026-02-20T09:00Z"))
    assert (found.verdict, found.reason) == ("not_scheduled", "before_creation")


@pytest.mark.parametrize(
    ("when", "reason"),
    [("2026-03-03T09:00Z", "before_start"), ("2026-04-03T09:00Z", "after_end")],
)
def test_a_time_outside_the_bounds_is_not_scheduled(when: str, reason: str) -> None:
    first, last = at("2026-03-05T00:00Z"), at("2026-04-01T00:00Z")
    found = explain(subject(Timing("0 9 * * *", start_at=first, end_at=last)), at(when))
    assert verdict(found) == ("not_scheduled", reason, False)


@pytest.mark.parametrize(
    ("gap", "fate"), [("run_after", "fires at 2026-03-29T01:00:00Z"), ("skip", "left out")]
)
def test_a_time_that_the_clock_skips_is_told_with_its_fate(gap: Any, fate: str) -> None:
    job = subject(Timing("30 2 * * *", "Europe/Berlin", dst_gap=gap))
    found = explain(job, at("2026-03-29T02:30+01:00"))
    assert verdict(found) == ("not_scheduled", "dst_gap", False)
    assert "skips 02:30" in found.text
    assert fate in found.text


def test_the_second_pass_of_a_repeated_hour_is_told() -> None:
    job = subject(Timing("30 2 * * *", "Europe/Berlin"))
    assert explain(job, at("2026-10-25T02:30+02:00")).verdict == "will_fire"
    found = explain(job, at("2026-10-25T02:30+01:00"))
    assert verdict(found) == ("not_scheduled", "dst_overlap", False)


def test_a_paused_job_would_skip_and_says_since_when_and_why() -> None:
    note = {"by": "api", "at": NOW, "note": "moving house"}
    job = subject(state=JobState.PAUSED, pause_note=note)
    found = explain(job, NEXT)
    assert verdict(found) == ("would_be_skipped", "paused", True)
    assert "since 2026-03-10T12:00:00Z (moving house)" in found.text
    later = replace(job, now=at("2026-03-12T00:00Z"))
    assert "resuming it decides" in explain(later, NEXT).text


def test_a_limit_of_runs_ends_what_is_to_come() -> None:
    job = subject(rules=Rules(max_runs=5), runs_left=2)
    assert explain(job, at("2026-03-12T09:00Z")).verdict == "will_fire"
    found = explain(job, at("2026-03-13T09:00Z"))
    assert verdict(found) == ("would_be_skipped", "limit", True)


@pytest.mark.parametrize(
    ("policy", "lost"),
    [("skip", [11, 12]), ("fire_once", [11]), ("fire_all", [])],
)
def test_overdue_times_go_by_the_misfire_policy(policy: Any, lost: list[int]) -> None:
    timing = Timing("0 9 * * *", misfire=Misfire(policy))
    job = subject(timing, next_run_at=NEXT)
    job = replace(job, now=at("2026-03-12T12:00Z"))
    days = {day: explain(job, at(f"2026-03-{day}T09:00Z")) for day in (11, 12, 13)}
    assert [day for day, found in days.items() if found.reason == "late"] == lost
    assert days[13].reason == "scheduled"


def test_a_time_that_is_due_within_the_grace_is_about_to_fire() -> None:
    job = replace(subject(next_run_at=NEXT), now=NEXT + 10)
    assert verdict(explain(job, NEXT)) == ("will_fire", "overdue", True)


def test_a_completed_job_fires_no_more() -> None:
    found = explain(subject(state=JobState.COMPLETED, next_run_at=None), NEXT)
    assert verdict(found) == ("would_be_skipped", "completed", True)


def test_what_the_history_does_not_hold_is_unknown_and_said_so() -> None:
    old, since = at("2026-03-03T09:00Z"), at("2026-03-07T09:00Z")
    found = explain(subject(history=History(since=since)), old)
    assert verdict(found) == ("unknown", "no_record", True)
    assert "older than the kept history, which begins at 2026-03-07T09:00:00Z" in found.text
    assert "has been edited" in explain(subject(version=2), old).text


def test_a_single_time_is_the_only_one() -> None:
    found = explain(subject(Timing("2026-03-20T09:00:00Z")), NEXT)
    assert found.text == "The job has one time only, 2026-03-20T09:00:00Z."
