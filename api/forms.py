"""A job as it is sent, as it is stored and as it is shown: from each to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from api.answers import CatchUpOut, JobOut, NoteOut, WarningOut
from api.depends import depends_out
from api.problems import Invalid
from api.schemas import CreateJob, HttpTargetIn, ShellTargetIn
from api.wire import dump_payload, parse_json, rfc_3339, verbatim
from engine.backoff import Retry
from engine.depends import Depends
from engine.errors import BadInput
from engine.model import (
    MAX_PAYLOAD_BYTES,
    TARGETS,
    HttpTarget,
    Job,
    JobState,
    Overlap,
    Rules,
    ShellTarget,
    Target,
    WorkerTarget,
)
from engine.names import Priority
from engine.plan import Calendars, CatchUp, Misfire, Plan, clock_time, recognise
from engine.plan.lint import Lint, lint
from engine.registration import Registration, register, usual_queue
from engine.store.jobs import StoredJob

_DAY_MS = 86_400_000
_TARGET_FIELDS = {
    name: tuple(field.name for field in fields(kind)) for name, kind in TARGETS.items()
}


def registration_of(
    body: CreateJob, now: int, calendars: Calendars, depends: Depends | None = None
) -> Registration:
    """Return the registration that a body asks for. Refuses with BadInput what no field alone could
    tell, and as `too_large` a payload that is."""
    payload = dump_payload(body.payload)
    if len(payload) > MAX_PAYLOAD_BYTES:
        detail = f"a payload has {MAX_PAYLOAD_BYTES} bytes at the most"
        raise Invalid([{"pointer": "/payload", "detail": detail}], code="too_large")
    return register(
        now=now,
        target=_target(body),
        job_id=body.job_id,
        timing=body.to_timing(),
        payload=payload,
        queue=body.queue,
        retry=body.retry.to_retry() if body.retry else None,
        priority=Priority(body.priority),
        group=body.group,
        tags=body.tags,
        overlap=_overlap(body),
        rules=body.to_rules(),
        depends=depends,
        paused=body.paused,
        calendars=calendars,
    )


def _overlap(body: CreateJob) -> Overlap:
    """Return what a body says, or what is usual: each time of an upstream job is a run of its own,
    so one does not keep the next from starting."""
    is_event_driven = body.depends_on and body.schedule_expr is None
    is_usual = "overlap" not in body.model_fields_set
    return Overlap.ALLOW if is_event_driven and is_usual else Overlap(body.overlap)


def _target(body: CreateJob) -> Target:
    if isinstance(body.target, HttpTargetIn):
        return HttpTarget(**body.target.model_dump())
    if isinstance(body.target, ShellTargetIn):
        return ShellTarget(**body.target.model_dump())
    return WorkerTarget(**body.target.model_dump())


def _target_out(target: Target) -> dict[str, Any]:
    """Return a target as it is sent and shown: without what storing it works out."""
    names = _TARGET_FIELDS[target.type]
    return {name: getattr(target, name) for name in names if name != "signed_by"}


@lru_cache(maxsize=1_024)
def _fields_of(policy: Retry | Misfire | Rules) -> Mapping[str, Any]:
    """Return the fields of what many jobs have the same of, with lists, as JSON has them: what is
    patched is checked like a body that was sent."""
    return {
        name: [*value] if isinstance(value, tuple) else value
        for name, value in asdict(policy).items()
    }


def job_body(stored: StoredJob) -> dict[str, Any]:
    """Return the body that would create the stored job: what a patch is applied to."""
    job = stored.job
    is_usual_queue = job.queue == usual_queue(job.target)
    return {
        **_asked(job, stored.plan),
        "job_id": job.id,
        # As if it had not been named, so that a patch of the target's type changes it too.
        "queue": None if is_usual_queue else job.queue,
        "target": _target_out(job.target),
        "payload": parse_json(job.payload),
    }


def _asked(job: Job, plan: Plan) -> dict[str, Any]:
    """Return what of a job is shown just as it is sent."""
    expr = job.schedule_expr
    return {
        "schedule_expr": [*expr] if isinstance(expr, tuple) else expr,
        "dialect": job.dialect,
        "timezone": job.timezone,
        "dst_gap": plan.dst_gap,
        "dst_overlap": plan.dst_overlap,
        "start_at": _time(plan.start_at),
        "end_at": _time(plan.end_at),
        "window_ms": plan.window_ms,
        "calendars": [*plan.calendars],
        "roll": plan.roll,
        "misfire": _fields_of(plan.misfire),
        "queue": job.queue,
        "retry": _fields_of(job.retry),
        "priority": job.priority.value,
        "group": job.group,
        "tags": [*job.tags],
        "overlap": job.overlap.value,
        **_fields_of(job.rules),
        **depends_out(job.depends),
    }


def job_out(stored: StoredJob) -> JobOut:
    """Return a job as lists show it."""
    job = stored.job
    asked = _asked(job, stored.plan)
    is_active = job.state is JobState.ACTIVE
    return {
        "job_id": job.id,
        "version": job.version,
        "state": job.state,
        **asked,  # type: ignore[typeddict-item]
        "dialect": _dialect(job),
        "target": _target_out(job.target),
        "payload": verbatim(job.payload),
        "created_at": rfc_3339(job.created_at),
        # A paused job keeps the time at which it was paused; it will not fire then.
        "next_run_at": _time(clock_time(job.next_run_at)) if is_active else None,
        "runs_left": job.runs_left if job.rules.max_runs is not None else None,
        "failures": job.failures,
        "queued": [rfc_3339(at) for at in job.queued],
        "live_executions": len(stored.live),
        "pause_note": _note(job.pause_note),
        "resume_note": _note(job.resume_note),
    }


def full_job_out(stored: StoredJob, now: int) -> JobOut:
    """Return a job with what its schedule says in words."""
    said = describe_job(stored, now)
    return {
        **job_out(stored),
        "description": said.description if said else None,
        "warnings": warnings_out(said) if said else [],
    }


def describe_job(stored: StoredJob, now: int) -> Lint | None:
    """Return what there is to say about a stored job's schedule, None if there is nothing."""
    job, plan = stored.job, stored.plan
    if plan.kind == "cron":
        # The plan's text, not the job's: jobs that share it share the answer.
        return describe(plan.expr, plan.timezone, plan.dialect, now // _DAY_MS * _DAY_MS)
    if isinstance(job.schedule_expr, str):
        # A single time is no schedule any more once it has passed.
        return describe(job.schedule_expr, job.timezone, job.dialect, job.anchor_at - 1)
    return None


@lru_cache(maxsize=4_096)
def describe(
    expr: str, timezone: str, dialect: str | None, now: int, job_id: str | None = None
) -> Lint | None:
    """Return `lint(…)`, or None for what this version cannot read any more."""
    try:
        return lint(expr, timezone, dialect, now=now, job_id=job_id)
    except BadInput:
        return None


def warnings_out(said: Lint) -> list[WarningOut]:
    return [{"code": warning.code, "message": warning.message} for warning in said.warnings]


def catch_up_out(found: CatchUp) -> CatchUpOut:
    skipped = found.skipped
    return {
        "run": [rfc_3339(at) for at in found.run],
        "skipped": None
        if skipped is None
        else {
            "scheduled_for": rfc_3339(skipped.first_at),
            "last_scheduled_for": rfc_3339(skipped.last_at),
            "count": skipped.count,
            "count_is_exact": skipped.exact,
        },
    }


def _dialect(job: Job) -> str | None:
    if job.dialect is not None or not isinstance(job.schedule_expr, str):
        return job.dialect
    return recognise(job.schedule_expr)


def _note(note: Mapping[str, Any] | None) -> NoteOut | None:
    if note is None:
        return None
    return {"by": note["by"], "at": rfc_3339(note["at"]), "note": note["note"]}


def _time(at: int | None) -> str | None:
    return None if at is None else rfc_3339(at)
