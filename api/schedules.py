"""Schedules over HTTP: the times to come, what an expression means before it is used, and why a job
did or did not run at a time."""

from __future__ import annotations

from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from api.access import job_of
from api.answers import DifferenceOut, ExplanationOut, PreviewOut, TimeOut
from api.backend import backend_of
from api.forms import warnings_out
from api.jobs import job_id_of
from api.operations import contract
from api.schemas import ExplainTime, ListUpcoming, PreviewSchedule
from api.wire import JsonResponse, read_body, read_query, rfc_3339
from engine.errors import NotFound
from engine.explain import History, Subject, explain
from engine.model import JobState
from engine.names import execution_id
from engine.plan import Calendars, Plan, moment_of
from engine.plan.effect import what_calendars_do
from engine.plan.lint import Lint, lint
from engine.registration import Planned, plan_times
from engine.store.history import Execution, list_executions
from engine.store.jobs import StoredJob
from engine.store.snapshot import read_calendars

HORIZON_MS = 100 * 366 * 86_400_000
"""Nothing later is listed: a thousand leap days are four thousand years of search."""
COMPARED = 50
"""Times of two schedules that are held against each other."""


@contract(query=ListUpcoming, gives=list[TimeOut])
async def upcoming(request: Request) -> Response:
    """Answer a job's next nominal times: of a paused one those it had if it were resumed now, of a
    completed one none."""
    backend = backend_of(request)
    query = read_query(request, ListUpcoming)
    stored = await job_of(request, job_id_of(request))
    calendars = backend.store.calendars
    times = _times_of(stored, backend.clock.now_ms(), query.n, calendars)
    return JsonResponse(
        [_time(stored.plan, stored.job.timezone, stored.offset_ms, at, calendars) for at in times]
    )


@contract(body=PreviewSchedule, gives=PreviewOut, refuses=("bad_expression", "never_fires"))
async def preview(request: Request) -> Response:
    """Answer what a schedule means, what is odd about it, how other dialects write it, and its next
    times; with the id of a job also what would change for that job."""
    backend = backend_of(request)
    store = backend.store
    body = await read_body(request, PreviewSchedule, context={"clock": backend.clock})
    now, timing = backend.clock.now_ms(), body.to_timing()
    said: Lint | None = None
    if isinstance(timing.schedule_expr, str):
        said = lint(
            timing.schedule_expr, timing.timezone, timing.dialect, now=now, job_id=body.job_id
        )
    calendars = await read_calendars(store) if timing.calendars else store.calendars
    planned = plan_times(timing, body.job_id or "", now, calendars)
    plan = planned.plan
    offset_ms = plan.offset_of(body.job_id) if body.job_id else 0
    shown: PreviewOut = {
        "dialect": said.dialect if said else timing.dialect,
        "description": said.description if said else None,
        "warnings": warnings_out(said) if said else [],
        "conversions": said.conversions if said else {},
        "times": [
            _time(plan, timing.timezone, offset_ms, at, calendars)
            for at in _upcoming(plan, now, planned.anchor_at, body.n, now, calendars)
        ],
    }
    if body.job_id and (stored := await _find_job(request, body.job_id)):
        shown["difference"] = _difference(stored, planned, now, calendars)
    return JsonResponse(shown)


@contract(query=ExplainTime, gives=ExplanationOut)
async def explain_time(request: Request) -> Response:
    """Answer what happened at a nominal time of the job, or will happen, and why."""
    backend = backend_of(request)
    at = read_query(request, ExplainTime).at
    stored = await job_of(request, job_id_of(request))
    # The history after the job: what fires in between is then seen twice, and not missed.
    executions = await list_executions(backend.store, stored.job.id)
    history = _history(executions, backend.store.config.history_limit)
    now, calendars = backend.clock.now_ms(), backend.store.calendars
    found = explain(Subject(stored.job, stored.plan, history, now, calendars), at)
    note = stored.job.pause_note
    shown: ExplanationOut = {
        "at": rfc_3339(at),
        "is_scheduled": found.is_scheduled,
        "verdict": found.verdict,
        "reason": found.reason,
        "text": found.text,
        "due_at": rfc_3339(at + stored.offset_ms) if found.is_scheduled else None,
        "execution_id": execution_id(stored.job.id, at) if found.verdict == "executed" else None,
        "before": None if found.before is None else rfc_3339(found.before),
        "after": None if found.after is None else rfc_3339(found.after),
        "paused_at": rfc_3339(note["at"]) if note and found.reason == "paused" else None,
    }
    return JsonResponse(shown)


async def _find_job(request: Request, job_id: str) -> StoredJob | None:
    try:
        return await job_of(request, job_id)
    except NotFound:
        return None


def _times_of(stored: StoredJob, now: int, n: int, calendars: Calendars) -> list[int]:
    job, next_at = stored.job, stored.next_nominal_at
    if job.state is JobState.COMPLETED or next_at is None:
        return []
    if job.runs_left is not None:
        n = min(n, job.runs_left)
    after = max(next_at, now - stored.offset_ms) - 1
    return _upcoming(stored.plan, after, job.anchor_at, n, now, calendars)


def _upcoming(
    plan: Plan, after: int, anchor: int, n: int, now: int, calendars: Calendars
) -> list[int]:
    """Return the first `n` nominal times after `after`, up to the horizon."""
    rule, times, end = plan.rule_under(calendars), list[int](), now + HORIZON_MS
    at = rule.first_after(after, anchor)
    while at is not None and len(times) < n and at < end:
        times.append(at)
        at = rule.first_after(at, anchor)
    return times


def _difference(
    stored: StoredJob, planned: Planned, now: int, calendars: Calendars
) -> DifferenceOut:
    """Return which of the next times a job would gain and lose, as far as both are known."""
    old = _times_of(stored, now, COMPARED, calendars)
    # An interval counts on from where it is while nothing of its plan changes.
    same = stored.plan.id == planned.plan.id and planned.plan.kind == "every"
    anchor_at = stored.job.anchor_at if same else planned.anchor_at
    new = _upcoming(planned.plan, now, anchor_at, COMPARED, now, calendars)
    ends = [times[-1] for times in (old, new) if len(times) == COMPARED]
    until = min(ends, default=max([*old, *new], default=now))
    added, removed = {*new} - {*old}, {*old} - {*new}
    return {
        "added": [rfc_3339(at) for at in sorted(added) if at <= until],
        "removed": [rfc_3339(at) for at in sorted(removed) if at <= until],
    }


def _time(plan: Plan, timezone: str, offset_ms: int, at: int, calendars: Calendars) -> TimeOut:
    # Only cron's own times have a zone in the plan; others are shown in the one of the request.
    moment = moment_of(plan, at, None if plan.kind == "cron" else timezone)
    local = moment.local
    return {
        "scheduled_for": rfc_3339(at),
        "due_at": rfc_3339(at + offset_ms),
        "local_time": local.replace(tzinfo=None).isoformat(timespec="milliseconds"),
        "utc_offset": _offset(local),
        "zone_abbreviation": f"{local:%Z}",
        "dst": moment.dst,
        "calendar": what_calendars_do(plan, at, calendars),
    }


def _offset(local: datetime) -> str:
    """Return `+05:30`; the seconds of offsets before 1972 are left out."""
    digits = f"{local:%z}"
    return f"{digits[:3]}:{digits[3:5]}"


def _history(executions: list[Execution], limit: int) -> History:
    skipped = [execution.skipped for execution in executions if execution.skipped]
    kept = {e.nominal_at: e.state for e in executions if not e.skipped}
    records = sum(len(e.attempts) for e in executions) + len(skipped)
    oldest = [*kept, *(record.first_at for record in skipped)]
    return History(kept, tuple(skipped), min(oldest) if records >= limit else None)
