"""Jobs over HTTP, changed: put a whole definition in place of another, or patch parts of one.

What is edited keeps its history and its live executions; nothing of an old schedule fires under a
new one. `If-Match` with the version that was read keeps two writers from undoing each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.access import caller_of
from api.answers import JobOut
from api.backend import Backend, backend_of
from api.conditions import UNCONDITIONAL, Conditions
from api.depends import calendars_for, depends_for
from api.door import kept_of
from api.forms import full_job_out, job_body, registration_of
from api.grants import charge, circles_kept_dark, grant
from api.jobs import created, id_taken, job_id_of, job_response, started
from api.operations import contract
from api.schemas import REFUSED_IN_A_JOB, CreateJob
from api.schemas_depends import DEPENDENT_ONLY
from api.wire import check, read_object, rfc_3339
from engine.access import ANYONE, Caller
from engine.errors import BadInput, Conflict, Cycle, NotFound, WrongState
from engine.registration import Registration
from engine.store.jobs import StoredJob, get_job
from engine.store.registering import edit_job, register_job

_REFUSES = ("precondition_failed", "conflict", "wrong_state", *REFUSED_IN_A_JOB)
_TRIES = 5
"""A job may fire, or be made, between the look at it and the write."""


@contract(
    body=CreateJob,
    gives=JobOut,
    also=(201,),
    heeds=("If-Match", "If-None-Match"),
    headers=("ETag",),
    refuses=_REFUSES,
)
async def put(request: Request) -> Response:
    """Create the job of this id, or replace its definition. 201 or 200 with the job. Refuses with
    412 another version than `If-Match` names, and with `If-None-Match: *` a job that is there."""
    job_id, sent = job_id_of(request), await read_object(request)
    if sent.get("job_id") not in (None, job_id):
        raise BadInput("this is not the id in the path; leave it out", field="job_id")
    return await _write(request, lambda _: {**sent, "job_id": job_id}, may_create=True)


@contract(body=CreateJob, gives=JobOut, heeds=("If-Match",), headers=("ETag",), refuses=_REFUSES)
async def patch(request: Request) -> Response:
    """Change what the body names (RFC 7396): null takes a field back to its default, the rest stays
    as it is. Refuses with NotFound, and with 412 another version than `If-Match` names."""
    job_id, sent = job_id_of(request), await read_object(request)
    if sent.get("job_id", job_id) != job_id:
        raise BadInput("a job's id never changes", field="job_id")
    if "paused" in sent:
        raise BadInput("pause and resume are operations of their own", field="paused")
    return await _write(
        request, lambda stored: _patched(stored, sent) if stored else {}, may_create=False
    )


def _patched(stored: StoredJob, sent: dict[str, Any]) -> Any:
    body, target = job_body(stored), sent.get("target")
    kind = stored.job.target.type
    # Nothing of a target is kept for one of another type: it has no such fields.
    if isinstance(target, dict) and target.get("type", kind) != kind:
        body["target"] = {}
    patched = merge(body, sent)
    if not patched.get("depends_on"):
        stale = DEPENDENT_ONLY
    else:
        stale = {"match"} if "depends_on" in sent else set()
    # What was said, or worked out, about what the job depended on until now.
    for name in stale - sent.keys():
        patched.pop(name, None)
    return patched


def merge(target: Any, patch: Any) -> Any:
    """Return `target` changed by an RFC 7396 merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


async def _write(
    request: Request, body_for: Callable[[StoredJob | None], dict[str, Any]], *, may_create: bool
) -> Response:
    backend, job_id = backend_of(request), job_id_of(request)
    conditions, caller = Conditions.of(request), caller_of(request)
    with circles_kept_dark(caller):
        made = await write_job(
            backend, job_id, body_for, may_create=may_create, conditions=conditions, caller=caller
        )
    if made is not None:
        return created(made, made.job.created_at)
    stored = await get_job(backend.store, job_id)
    return job_response(full_job_out(stored, backend.clock.now_ms()))


async def write_job(
    backend: Backend,
    job_id: str,
    body_for: Callable[[StoredJob | None], dict[str, Any]],
    *,
    may_create: bool,
    conditions: Conditions = UNCONDITIONAL,
    caller: Caller = ANYONE,
) -> Registration | None:
    """Write the body that `body_for` gives for the job as stored, None for one that is not. Return
    the registration of a job that is new, None for one that was replaced. Refuses with 412 what the
    conditions rule out."""
    for _ in range(_TRIES):
        stored = await _look(backend, caller, job_id, may_create=may_create)
        if stored is None:
            conditions.check(None)
        else:
            conditions.check(stored.job.version, rfc_3339(stored.job.created_at))
        kept = kept_of(stored.job.target if stored else None)
        body = check(body_for(stored), CreateJob, backend.context | kept)
        body = await grant(backend, caller, body, stored)
        now = backend.clock.now_ms()
        calendars = await calendars_for(backend.store, body)
        depends = await depends_for(backend.store, body)
        registration = registration_of(body, now, calendars, depends)
        await charge(backend, caller, registration, stored)
        if stored is None:
            allows = body.allow_missing
            if made := await register_job(backend.store, registration, allow_missing=allows):
                return started(registration, made)
            continue
        try:
            await edit_job(
                backend.store, stored, registration, now, allow_missing=body.allow_missing
            )
        except (Cycle, WrongState):
            raise
        except Conflict:
            continue
        return None
    raise Conflict(f"job {job_id} changes too fast to be written; try again")


async def _look(
    backend: Backend, caller: Caller, job_id: str, *, may_create: bool
) -> StoredJob | None:
    """Return the job as it stands, None for one that is to be made. One of others is as good as
    none, but for its id, which is taken."""
    try:
        stored = await get_job(backend.store, job_id)
    except NotFound:
        if may_create:
            return None
        raise
    if caller.sees(stored.job.group):
        return stored
    raise id_taken(job_id) if may_create else NotFound(f"there is no job {job_id}")
