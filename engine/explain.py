"""Why a job did or did not run at a time, or will: from its plan, its state and its history. Pure.

The verdict on a time, and where it comes from, in this order:

    executed           an execution of it is live or in the kept history
    skipped            a skip record in the kept history covers it
    not_scheduled      it is no nominal time of the plan, or the job did not exist yet
    will_fire          it is due and not yet fired, waits for an older execution, or is to come
    would_be_skipped   to come, with something against it: a pause, the misfire policy, a limit
    unknown            it has passed, and the kept history does not say
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from engine.execution import ExecutionState, SkipReason, SkipRecord
from engine.model import Job, JobState
from engine.plan import NO_CALENDARS, Calendars, Plan, catch_up
from engine.plan.effect import what_calendars_do
from engine.plan.moment import repeated_time, skipped_time

Verdict = Literal[
    "executed", "skipped", "will_fire", "would_be_skipped", "not_scheduled", "unknown"
]

_DAY_MS = 86_400_000
_LOOK_BACK_MS = tuple(days * _DAY_MS for days in (1, 32, 366, 9 * 366, 41 * 366))


@dataclass(frozen=True, slots=True)
class History:
    """What is kept of a job's past. `since` is the oldest nominal time of which all is kept."""

    executions: Mapping[int, ExecutionState] = field(default_factory=dict)
    skipped: tuple[SkipRecord, ...] = ()
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    at: int
    is_scheduled: bool
    """Whether the job's present plan has this nominal time."""
    verdict: Verdict
    reason: str
    text: str
    """One plain sentence."""
    before: int | None = None
    """The nearest nominal time before one that is not scheduled."""
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """All that is known when a time is asked about."""

    job: Job
    plan: Plan
    history: History
    now: int
    calendars: Calendars = NO_CALENDARS

    def is_scheduled(self, at: int) -> bool:
        return self.first_after(at - 1) == at

    def first_after(self, after: int) -> int | None:
        return self.plan.first_after(after, self.job.anchor_at, self.calendars)

    @property
    def next_at(self) -> int | None:
        """The first nominal time that has neither fired nor been skipped."""
        due_at = self.job.next_run_at
        return None if due_at is None else due_at - self.plan.offset_of(self.job.id)

    @property
    def passed(self) -> int:
        """The latest nominal time that can be due."""
        return self.now - self.plan.offset_of(self.job.id)


def explain(subject: Subject, at: int) -> Explanation:
    """Return what happened at the nominal time `at`, or will happen, and why."""
    job, history = subject.job, subject.history
    is_scheduled = subject.is_scheduled(at)

    def say(verdict: Verdict, reason: str, text: str) -> Explanation:
        return Explanation(at, is_scheduled, verdict, reason, text)

    if state := history.executions.get(at):
        return say("executed", state, f"{_text(at)} was fired; its execution is {state}.")
    if record := _skip_of(history, at, is_scheduled):
        why = _WHY.get(record.reason, record.told)
        return say("skipped", record.told, f"{_text(at)} was skipped: {why}.")
    if at in job.queued:
        return say("will_fire", "queued", f"{_text(at)} waits for an older execution to end.")
    if not is_scheduled:
        return _not_scheduled(subject, at)
    if at < job.created_at:
        return say(
            "not_scheduled", "before_creation", f"The job was created at {_text(job.created_at)}."
        )
    next_at = subject.next_at
    if job.state is JobState.COMPLETED and at > subject.now:
        return say("would_be_skipped", "completed", "The job is completed and fires no more.")
    if next_at is None or at < next_at or job.state is JobState.COMPLETED:
        return say("unknown", "no_record", _no_record(subject, at))
    if job.state is JobState.PAUSED:
        return say("would_be_skipped", "paused", _paused(subject, at))
    return say(*_to_come(subject, next_at, at))


def _skip_of(history: History, at: int, is_scheduled: bool) -> SkipRecord | None:
    """Return the newest record that covers a time. Inside its ends only times of the plan count."""
    for record in history.skipped:
        is_end = at in (record.first_at, record.last_at)
        if is_end or (is_scheduled and record.first_at < at < record.last_at):
            return record
    return None


def _to_come(subject: Subject, next_at: int, at: int) -> tuple[Verdict, str, str]:
    """Return verdict, reason and text of a nominal time that an active job has not reached."""
    job, plan = subject.job, subject.plan
    closed = what_calendars_do(plan, at, subject.calendars)
    if closed and closed.startswith("skipped"):
        return "would_be_skipped", "calendar", f"{_text(at)} would be {closed}."
    if _is_lost(subject, next_at, at):
        policy = plan.misfire.policy
        return (
            "would_be_skipped",
            SkipReason.LATE,
            f"{_text(at)} is late by more than the grace, and the misfire policy is {policy}.",
        )
    if job.runs_left is not None:
        count, is_exact = plan.rule.count(next_at, at)
        if count > job.runs_left or not is_exact:
            left = f"{job.runs_left} of {job.rules.max_runs} runs are left"
            return "would_be_skipped", "limit", f"{left}, and {_text(at)} comes after them."
    if at <= subject.passed:
        return "will_fire", "overdue", f"{_text(at)} is due and about to be fired."
    offset_ms = plan.offset_of(job.id)
    within = f", {offset_ms} ms later by its place in the window" if offset_ms else ""
    return "will_fire", "scheduled", f"{_text(at)} is to come and will be fired{within}."


def _is_lost(subject: Subject, next_at: int, at: int) -> bool:
    """Return whether the misfire policy gives up a time that has passed."""
    plan, passed = subject.plan, subject.passed
    newest_late = passed - plan.misfire.grace_ms - 1
    if next_at > newest_late or at > passed:
        return False
    if plan.misfire.policy == "skip":
        return at <= newest_late
    return at not in catch_up(plan, next_at, passed, calendars=subject.calendars).run


def _paused(subject: Subject, at: int) -> str:
    note = subject.job.pause_note or {}
    since = f" since {_text(int(note['at']))}" if "at" in note else ""
    why = f" ({note['note']})" if note.get("note") else ""
    if at > subject.passed:
        return f"The job is paused{since}{why}; {_text(at)} fires only if it is resumed before."
    policy = subject.plan.misfire.policy
    return f"The job is paused{since}{why}; resuming it decides about {_text(at)}, by {policy}."


def _no_record(subject: Subject, at: int) -> str:
    since = subject.history.since
    if since is not None and at < since:
        return f"{_text(at)} is older than the kept history, which begins at {_text(since)}."
    edited = " The job has been edited since." if subject.job.version > 1 else ""
    return f"Nothing is recorded about {_text(at)}.{edited}"


def _not_scheduled(subject: Subject, at: int) -> Explanation:
    job, plan = subject.job, subject.plan
    before, after = _latest_before(subject, at), subject.first_after(at)

    def say(reason: str, text: str) -> Explanation:
        return Explanation(at, False, "not_scheduled", reason, text, before, after)

    if plan.kind == "reboot":
        return say("no_clock_time", "The job fires at starts of the deployment, and only then.")
    if plan.kind in ("once", "immediate"):
        ran_at = job.created_at if plan.kind == "immediate" else job.anchor_at
        return say("other_time", f"The job has one time only, {_text(ran_at)}.")
    if plan.start_at is not None and at < plan.start_at:
        return say("before_start", f"The schedule begins at {_text(plan.start_at)}.")
    if plan.end_at is not None and at > plan.end_at:
        return say("after_end", f"The schedule ended at {_text(plan.end_at)}.")
    if skipped := skipped_time(plan, at):
        fires = plan.dst_gap == "run_after" and before is not None
        fate = f"it fires at {_text(before)}" if fires and before else "it is left out"
        return say("dst_gap", f"The clock in {plan.timezone} skips {skipped} that day; {fate}.")
    if repeated_time(plan, at):
        return say(
            "dst_overlap",
            f"The clock in {plan.timezone} shows this time twice that day, and the job fires the"
            f" {plan.dst_overlap} time only.",
        )
    near = [f"the time before is {_text(before)}"] if before is not None else []
    near += [f"the next one is {_text(after)}"] if after is not None else []
    return say("no_match", f"The schedule does not have {_text(at)}; {', '.join(near)}.")


def _latest_before(subject: Subject, at: int) -> int | None:
    rule = subject.plan.rule_under(subject.calendars)
    for back_ms in _LOOK_BACK_MS:
        first = subject.first_after(at - back_ms)
        if first is not None and first < at:
            return rule.latest(first, at - 1)
    return None


_WHY: Mapping[str, str] = {
    SkipReason.LATE: "it was late by more than the grace",
    SkipReason.OVERLAP: "an older execution was still live",
    SkipReason.PAUSED: "the job was paused",
    SkipReason.EDITED: "the job was given another schedule",
    SkipReason.EXPIRED: "it had not started within expires_after_ms",
    SkipReason.REPLACED: "a newer execution took its place",
}


def _text(at: int) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{at % 1000:03d}Z" if at % 1000 else "Z")
