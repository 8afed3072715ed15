"""Jobs over HTTP: create, list, show, delete, run, pause, resume."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from api.answers import JobOut
from api.backend import backend_of
from api.depends import depends_for
from api.forms import catch_up_out, full_job_out, job_out, registration_of
from api.operations import contract
from api.schemas import CreateJob, ListJobs, Nothing, PauseJob, ResumeJob
from api.schemas_depends import DeleteJob
from api.wire import JsonResponse, read_body, read_query
from engine.errors import JobExists, NotFound
from engine.names import JOB_ID, execution_id
from engine.plan import NO_CALENDARS, Calendars
from engine.registration import Registration
from engine.store import Store
from engine.store.changes import pause_job, preview_resume, resume_job
from engine.store.jobs import StoredJob, get_job, list_jobs, run_job
from engine.store.registering import Dependents, register_job, remove_job
from engine.store.snapshot import read_calendars


@contract(body=CreateJob, gives=JobOut, status=201, refuses=("job_exists", "cycle"))
async def create(request: Request) -> Response:
    """Store a job. 201 with the job, and its execution's id if it runs at once. Refuses with
    JobExists an id that is taken, and with Cycle one that would depend on itself."""
    backend = backend_of(request)
    body = await read_body(request, CreateJob, context={"clock": backend.clock})
    now = backend.clock.now_ms()
    calendars = await calendars_for(backend.store, body)
    depends = await depends_for(backend.store, body)
    registration = registration_of(body, now, calendars, depends)
    if not await register_job(backend.store, registration, allow_missing=body.allow_missing):
        job_id = registration.job.id
        raise JobExists(f"job {job_id} exists already and was left as it is", field="job_id")
    return created(registration, now)


def created(registration: Registration, now: int) -> Response:
    """Return the answer for a job that was just stored."""
    job = replace(registration.job, runs_left=registration.job.rules.max_runs)
    shown = full_job_out(StoredJob(job, registration.plan, live=[]), now)
    if registration.run_at is not None:
        shown["execution_id"] = execution_id(job.id, registration.run_at)
        shown["live_executions"] = 1
    return job_response(shown, 201, Location=f"/v1/jobs/{job.id}")


async def calendars_for(store: Store, body: CreateJob) -> Calendars:
    """Return the calendars as they stand, if the body names any."""
    return await read_calendars(store) if body.calendars else NO_CALENDARS


@contract(query=ListJobs)
async def index(request: Request) -> Response:
    """Answer one page of jobs in order of their ids; `next` is the `after` of the next page."""
    query = read_query(request, ListJobs)
    jobs, following = await list_jobs(
        backend_of(request).store, after=query.after, prefix=query.prefix, limit=query.limit
    )
    return JsonResponse({"jobs": [job_out(stored) for stored in jobs], "next": following})


@contract(gives=JobOut)
async def show(request: Request) -> Response:
    return await _job_response(request)


@contract(query=DeleteJob, status=204, refuses=("has_dependents",))
async def delete(request: Request) -> Response:
    """Delete a job with its history and all that nobody has started yet. Refuses with HasDependents
    one that others depend on, unless `dependents` says what becomes of them."""
    backend, job_id = backend_of(request), job_id_of(request)
    query = read_query(request, DeleteJob)
    now = backend.clock.now_ms()
    await remove_job(backend.store, job_id, now, Dependents(query.dependents or "refuse"))
    return Response(status_code=204)


@contract(body=Nothing, status=202, may_be_empty=True)
async def run(request: Request) -> Response:
    """Start an execution now, whatever the job's state. 202 with its id."""
    backend, job_id = backend_of(request), job_id_of(request)
    await read_body(request, Nothing, may_be_empty=True)
    started = await run_job(backend.store, job_id, backend.clock.now_ms())
    return JsonResponse({"execution_id": started}, 202)


@contract(body=PauseJob, may_be_empty=True, gives=JobOut, refuses=("wrong_state",))
async def pause(request: Request) -> Response:
    """Keep a job from firing; a note may say why. Refuses with WrongState unless it is active."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, PauseJob, may_be_empty=True)
    await pause_job(backend.store, job_id, backend.clock.now_ms(), note=body.note)
    return await _job_response(request)


@contract(body=ResumeJob, may_be_empty=True, gives=JobOut, refuses=("wrong_state",))
async def resume(request: Request) -> Response:
    """Let a paused job fire again, and say what becomes of the times that the pause held back. With
    `dry_run` only say it. Refuses with WrongState unless it is paused."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, ResumeJob, may_be_empty=True)
    asked = (backend.store, job_id, backend.clock.now_ms(), body.misfire)
    if body.dry_run:
        found = await preview_resume(*asked)
    else:
        found = await resume_job(*asked, note=body.note)
    shown = full_job_out(await get_job(backend.store, job_id), backend.clock.now_ms())
    shown["catch_up"] = catch_up_out(found)
    return job_response(shown)


def job_id_of(request: Request) -> str:
    """Return the job id in the path. Refuses with NotFound what no job can be called."""
    job_id: str = request.path_params["job_id"]
    if not JOB_ID.fullmatch(job_id):
        raise NotFound("there is no job of this id, nor can there be")
    return job_id


def job_response(shown: JobOut, status: int = 200, **headers: str) -> Response:
    """Return a job as an answer, its version as the ETag."""
    return JsonResponse(shown, status, {"ETag": f'"{shown["version"]}"', **headers})


async def _job_response(request: Request) -> Response:
    backend = backend_of(request)
    stored = await get_job(backend.store, job_id_of(request))
    return job_response(full_job_out(stored, backend.clock.now_ms()))
