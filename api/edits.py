"""Jobs over HTTP, changed: put a whole definition in place of another, or patch parts of one.

What is edited keeps its history and its live executions; nothing of an old schedule fires under a
new one. `If-Match` with the version that was read keeps two writers from undoing each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.answers import JobOut
from api.backend import Backend, backend_of
from api.depends import depends_for
from api.forms import full_job_out, job_body, registration_of
from api.jobs import calendars_for, created, job_id_of, job_response
from api.operations import contract
from api.schemas import CreateJob
from api.schemas_depends import DEPENDENT_ONLY
from api.wire import check, if_match, read_object
from engine.errors import BadInput, Conflict, Cycle, NotFound, WrongState
from engine.store.jobs import StoredJob, get_job
from engine.store.registering import edit_job, register_job

_TRIES = 5
"""A job may fire, or be made, between the look at it and the write."""


@contract(body=CreateJob, gives=JobOut, also=(201,))
async def put(request: Request) -> Response:
    """Create the job of this id, or replace its definition. 201 or 200 with the job. Refuses with
    412 another version than `If-Match` names."""
    job_id, sent = job_id_of(request), await read_object(request)
    if sent.get("job_id", job_id) != job_id:
        raise BadInput("this is not the id in the path; leave it out", field="job_id")
    return await _write(request, lambda _: {**sent, "job_id": job_id}, may_create=True)


@contract(body=CreateJob, gives=JobOut)
async def patch(request: Request) -> Response:
    """Change what the body names (RFC 7396): null takes a field back to its default, the rest stays
    as it is. Refuses with NotFound, and with 412 another version than `If-Match` names."""
    job_id, sent = job_id_of(request), await read_object(request)
    if sent.get("job_id", job_id) != job_id:
        raise BadInput("a job's id never changes", field="job_id")
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
    """Write the body that `body_for` gives for the job as stored, None for one that is not."""
    backend, job_id = backend_of(request), job_id_of(request)
    for _ in range(_TRIES):
        stored = await _look(backend, job_id, may_create=may_create)
        wanted = if_match(request)
        if wanted is not None and (stored is None or wanted != str(stored.job.version)):
            found = f"version {stored.job.version}" if stored else "no such job"
            raise HTTPException(412, f"there is {found} now, not the one of If-Match; read it")
        body = check(body_for(stored), CreateJob, {"clock": backend.clock})
        now = backend.clock.now_ms()
        calendars = await calendars_for(backend.store, body)
        depends = await depends_for(backend.store, body)
        registration = registration_of(body, now, calendars, depends)
        if stored is None:
            if await register_job(backend.store, registration, allow_missing=body.allow_missing):
                return created(registration, now)
            continue
        try:
            await edit_job(
                backend.store, stored, registration, now, allow_missing=body.allow_missing
            )
        except (Cycle, WrongState):
            raise
        except Conflict:
            continue
        return job_response(full_job_out(await get_job(backend.store, job_id), now))
    raise Conflict(f"job {job_id} changes too fast to be written; try again")


async def _look(backend: Backend, job_id: str, *, may_create: bool) -> StoredJob | None:
    try:
        return await get_job(backend.store, job_id)
    except NotFound:
        if may_create:
            return None
        raise
