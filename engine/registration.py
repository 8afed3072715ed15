"""From what a user asks for to a job that can be stored: schedule, plan, first time. Pure.

The API, the command line and the demo all register jobs through here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from engine.backoff import Retry
from engine.errors import BadInput
from engine.model import (
    HTTP_QUEUE,
    WORKER_QUEUE,
    HttpTarget,
    Job,
    JobState,
    Overlap,
    Target,
    check_job_id,
    check_queue,
)
from engine.plan import Every, Immediate, Misfire, Once, Plan, parse_schedule


@dataclass(frozen=True, slots=True)
class Registration:
    """A job to store, the plan that it shares, and the nominal time of an execution to start at
    once, if any."""

    job: Job
    plan: Plan
    run_at: int | None = None


def register(
    *,
    now: int,
    target: Target,
    job_id: str | None = None,
    schedule_expr: str | None = None,
    timezone: str = "UTC",
    payload: bytes = b"null",
    queue: str | None = None,
    retry: Retry | None = None,
    misfire: Misfire | None = None,
    overlap: Overlap = Overlap.SKIP,
) -> Registration:
    """Return the registration of a new job, with a random id where none is given.

    Without an expression the job runs once, at once. An interval counts from now. Refuses with
    BadInput what is wrong, naming the field.
    """
    schedule = parse_schedule(schedule_expr, timezone, now=now)
    plan = Plan.of(schedule, misfire)
    anchor_at: int
    next_run_at: int | None
    match schedule:
        case Once(at):
            anchor_at, next_run_at = at, at
        case Every(interval_ms):
            anchor_at, next_run_at = now, now + interval_ms
        case _:
            anchor_at, next_run_at = now, plan.first_after(now, now)
    job = Job(
        id=check_job_id(job_id) if job_id is not None else "job-" + secrets.token_hex(8),
        plan_id=plan.id,
        target=target,
        queue=_queue_for(target, queue),
        created_at=now,
        anchor_at=anchor_at,
        schedule_expr=schedule_expr,
        timezone=timezone,
        payload=payload,
        retry=retry or Retry(),
        overlap=overlap,
        state=JobState.ACTIVE if next_run_at is not None else JobState.COMPLETED,
        next_run_at=next_run_at,
    )
    return Registration(job, plan, now if isinstance(schedule, Immediate) else None)


def _queue_for(target: Target, queue: str | None) -> str:
    is_http = isinstance(target, HttpTarget)
    if queue is None:
        return HTTP_QUEUE if is_http else WORKER_QUEUE
    if queue == HTTP_QUEUE and not is_http:
        raise BadInput(
            f"queue {HTTP_QUEUE!r} is read by Waterclock's own workers, which run only http"
            " targets; name a queue that your consumers read",
            field="queue",
        )
    return check_queue(queue)
