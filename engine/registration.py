"""From what a user asks for to a job that can be stored: schedule, plan, first time. Pure.

The API, the command line and the demo all register jobs through here.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from engine.backoff import Retry
from engine.depends import Depends
from engine.errors import BadInput, NeverFires
from engine.model import HttpTarget, Job, JobState, Overlap, Rules, Target
from engine.names import (
    HTTP_QUEUE,
    SHELL_QUEUE,
    WORKER_QUEUE,
    Priority,
    check_group,
    check_job_id,
    check_queue,
    check_tags,
)
from engine.plan import (
    NO_CALENDARS,
    Calendars,
    Cron,
    DstOverlap,
    Every,
    Gap,
    Immediate,
    Joined,
    Misfire,
    Once,
    Plan,
    Reboot,
    Roll,
    Schedule,
    parse_schedule,
    wait_from,
)
from engine.templating import check_template

BORN_PAUSED = "registered paused"
"""The note of a job that has been paused since it was made."""
_RETRY = Retry()
_RULES = Rules()
"""With `_RETRY` what jobs have that ask for nothing: one object, which is seen to be the same."""
_WITHOUT_CONCURRENCY = frozenset({Overlap.ALLOW, Overlap.REPLACE, Overlap.AFTER_SUCCESS})
"""Overlap policies to which it means nothing how many may be live."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a job should run, as a user says it. Without an expression it runs once, at once."""

    schedule_expr: str | tuple[str, ...] | None = None
    """Several are joined: a time of any of them is one of the job."""
    timezone: str = "UTC"
    dialect: str | None = None
    """How to read the expression; None recognises it, and refuses what could be two."""
    dst_gap: Gap = "run_after"
    dst_overlap: DstOverlap = "first"
    start_at: int | None = None
    end_at: int | None = None
    window_ms: int = 0
    calendars: tuple[str, ...] = ()
    roll: Roll = "skip"
    misfire: Misfire = field(default_factory=Misfire)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a timing comes to for one job: its plan, and the times that are the job's own.

    `next_run_at` includes the job's place in the window; `run_at` is the nominal time of an
    execution to start at once.
    """

    plan: Plan
    anchor_at: int
    next_run_at: int | None
    run_at: int | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A job to store, the plan that it shares, and an execution to start at once, if any."""

    job: Job
    plan: Plan
    run_at: int | None = None


def plan_times(
    timing: Timing, job_id: str, now: int, calendars: Calendars = NO_CALENDARS
) -> Planned:
    """Return what a timing means for a job that is registered at `now`.

    An interval counts from `start_at`, from the phase in its text, or from now. `calendars` must
    hold those that the timing names. Refuses with BadInput what is wrong, naming the field.
    """
    schedule = parse_schedule(
        timing.schedule_expr, timing.timezone, now=now, dialect=timing.dialect, job_id=job_id
    )
    if isinstance(schedule, Once | Immediate | Reboot):
        for name in ("start_at", "end_at", "window_ms", "calendars"):
            if getattr(timing, name):
                raise BadInput(f"{name} needs a schedule that repeats", field=name)
    if unknown := calendars.unknown(timing.calendars):
        raise BadInput(f"there is no calendar {unknown[0][:64]!r}", field="calendars")
    # Cron has no phase: its plan does not depend on the moment, and many jobs ask for the same.
    if isinstance(schedule, Cron):
        plan = _cron_plan(schedule, timing)
    else:
        plan = _plan_of(schedule, timing, now)
    anchor_at, first_at = now, None
    match schedule:
        case Immediate():
            return Planned(plan, now, None, run_at=now)
        case Reboot():
            return Planned(plan, now, wait_from(now))
        case Once(at):
            anchor_at, first_at = at, at
        case Every(interval_ms, phase):
            said = [at for at in (timing.start_at, phase) if at is not None]
            anchor_at = said[0] if said else now + interval_ms
            # A phase or a start that lies ahead is also the first time.
            first_at = plan.first_after(max(now, anchor_at - 1), anchor_at)
        case Cron() | Joined():
            first_at = plan.first_after(now, now, calendars)
    if first_at is None:
        raise NeverFires("there is no time between start_at and end_at", field="end_at")
    return Planned(plan, anchor_at, first_at + plan.offset_of(job_id))


@lru_cache(maxsize=1_024)
def _cron_plan(schedule: Cron, timing: Timing) -> Plan:
    return _plan_of(schedule, timing, 0)


def _plan_of(schedule: Schedule, timing: Timing, now: int) -> Plan:
    plan = Plan.of(
        schedule,
        timing.misfire,
        phase=now if timing.start_at is None else timing.start_at,
        dst_gap=timing.dst_gap,
        dst_overlap=timing.dst_overlap,
    )
    # Only cron's own times need a zone; the dates and hours of a calendar need one in any plan.
    has_own_zone = isinstance(schedule, Cron) or not timing.calendars
    return replace(
        plan,
        timezone=plan.timezone if has_own_zone else timing.timezone,
        start_at=timing.start_at,
        end_at=timing.end_at,
        window_ms=timing.window_ms,
        calendars=timing.calendars,
        roll=timing.roll,
    )


def random_id() -> str:
    """Return the id of a job for which none was given."""
    return "job-" + secrets.token_hex(8)


def is_alike(made: Registration) -> bool:
    """Return whether a registration that differs in nothing but id and payload would come to the
    same: nothing is spread by the id, and the payload is looked at no closer."""
    job = made.job
    if isinstance(job.target, HttpTarget) and (job.target.template or job.target.signing):
        return False
    try:
        # Without an id what is spread by it is refused.
        parse_schedule(job.schedule_expr, job.timezone, now=job.created_at, dialect=job.dialect)
    except BadInput:
        return False
    return True


def register(
    *,
    now: int,
    target: Target,
    job_id: str | None = None,
    timing: Timing | None = None,
    payload: bytes = b"null",
    queue: str | None = None,
    retry: Retry | None = None,
    priority: Priority = Priority.NORMAL,
    group: str | None = None,
    tags: Sequence[str] = (),
    overlap: Overlap = Overlap.SKIP,
    rules: Rules | None = None,
    depends: Depends | None = None,
    paused: bool = False,
    calendars: Calendars = NO_CALENDARS,
) -> Registration:
    """Return the registration of a new job, with a random id where none is given. One that is
    `paused` does not fire until it is resumed.

    Refuses with BadInput what is wrong, naming the field.
    """
    timing, rules = timing or Timing(), rules or _RULES
    if rules.concurrency > 1 and overlap in _WITHOUT_CONCURRENCY:
        raise BadInput(
            f"overlap {overlap.value!r} does not count what is live; leave concurrency at 1, or"
            " choose skip, queue_one or queue_all",
            field="concurrency",
        )
    job_id = check_job_id(job_id) if job_id is not None else random_id()
    if isinstance(target, HttpTarget):
        _check_request(target, payload, group)
    planned = plan_times(timing, job_id, now, calendars)
    _check_depends(depends, job_id, timing, overlap)
    if depends and planned.plan.kind == "reboot":
        raise BadInput("other jobs have no executions of a start to wait for", field="depends_on")
    if depends is not None and rules.delete_after_completion:
        raise BadInput(
            "a job that depends on others is never done with; delete it by hand",
            field="delete_after_completion",
        )
    is_active = planned.next_run_at is not None or depends is not None
    if paused and not is_active:
        raise BadInput("a job that runs at once cannot begin paused", field="paused")
    state = JobState.ACTIVE if is_active else JobState.COMPLETED
    job = Job(
        id=job_id,
        plan_id=planned.plan.id,
        target=target,
        queue=_queue_for(target, queue),
        created_at=now,
        anchor_at=planned.anchor_at,
        schedule_expr=timing.schedule_expr,
        timezone=timing.timezone,
        dialect=timing.dialect,
        payload=payload,
        retry=retry or _RETRY,
        priority=priority,
        group=None if group is None else check_group(group),
        tags=check_tags(tags),
        overlap=overlap,
        rules=rules,
        depends=depends,
        state=JobState.PAUSED if paused else state,
        next_run_at=planned.next_run_at,
        pause_note={"by": "api", "at": now, "note": BORN_PAUSED} if paused else None,
    )
    return Registration(job, planned.plan, None if depends else planned.run_at)


def _check_request(target: HttpTarget, payload: bytes, group: str | None) -> None:
    if target.signing == "group" and group is None:
        raise BadInput("this job is of no group whose secrets could sign", field="target.signing")
    if target.signing is not None and payload[:1].isdigit():
        # Behind the time in what is signed, its digits could be taken for the time (webhooks.py).
        raise BadInput("a bare number is not signed; put it into an object", field="payload")
    if target.template:
        check_template(target, payload)


def _check_depends(depends: Depends | None, job_id: str, timing: Timing, overlap: Overlap) -> None:
    if depends is None:
        return
    if any(upstream.job_id == job_id for upstream in depends.upstreams):
        raise BadInput(f"{job_id} depends on itself", field="depends_on")
    has_schedule = timing.schedule_expr is not None
    if has_schedule and depends.gate_ms is None:
        raise BadInput(
            "a job with a schedule that depends on others needs `gate`: its times wait for them",
            field="gate",
        )
    if depends.gate_ms is not None and not has_schedule:
        raise BadInput("a gate is for a job with a schedule; this one has none", field="gate")
    if depends.gate_ms is not None and overlap not in (Overlap.SKIP, Overlap.ALLOW):
        # What waits at a gate is live: it can neither wait behind itself nor end for its like.
        raise BadInput(
            f"a gate goes with overlap skip or allow, not {overlap.value}", field="overlap"
        )


def _queue_for(target: Target, queue: str | None) -> str:
    usual = usual_queue(target)
    if queue is None:
        return usual
    if queue in (HTTP_QUEUE, SHELL_QUEUE) and queue != usual:
        raise BadInput(
            f"queue {queue!r} is read by Waterclock's own workers, and kept for {queue} targets;"
            " name another",
            field="queue",
        )
    return check_queue(queue)


def usual_queue(target: Target) -> str:
    """Return the queue of a target for which none is named."""
    return {"http": HTTP_QUEUE, "shell": SHELL_QUEUE, "worker": WORKER_QUEUE}[target.type]
