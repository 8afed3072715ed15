"""Jobs over HTTP: create, list, show, delete, run, pause, resume."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from api.access import caller_of, check_job, job_of
from api.answers import JobOut, JobPageOut, StartedOut
from api.backend import backend_of
from api.conditions import Conditions, tagged, unless_known
from api.forms import catch_up_out, full_job_out, job_out
from api.grants import charge, circles_kept_dark
from api.idempotency import is_again, random_id
from api.operations import contract
from api.paging import next_link
from api.schemas import REFUSED_IN_A_JOB, CreateJob, Nothing, PauseJob, ResumeJob
from api.schemas_depends import DeleteJob
from api.schemas_search import ListJobs
from api.shaping import shaper_of
from api.wire import JsonResponse, read_body, read_object, read_query, rfc_3339
from engine.errors import JobExists, NotFound
from engine.names import JOB_ID, execution_id
from engine.registration import Registration
from engine.store import Store
from engine.store.changes import pause_job, preview_resume, resume_job
from engine.store.creating import NewJob
from engine.store.jobs import StoredJob, get_job, run_job
from engine.store.registering import Dependents, register_job, remove_job
from engine.store.search import search_jobs
from engine.store.visible import check_alone


@contract(
    body=CreateJob,
    gives=JobOut,
    status=201,
    headers=("ETag", "Location"),
    refuses=("job_exists", *REFUSED_IN_A_JOB),
)
async def create(request: Request) -> Response:
    """Store a job. 201 with the job, and its execution's id if it runs at once. Refuses with
    JobExists an id that is taken, and with Cycle one that would depend on itself."""
    backend, caller = backend_of(request), caller_of(request)
    sent, now = await read_object(request), backend.clock.now_ms()
    if sent.get("job_id") is None and (known := random_id(request)):
        sent["job_id"] = f"job-{known}"
    shaped = await shaper_of(request).shape(sent, now)
    registration = shaped.registration
    await charge(backend, caller, registration)
    if registration.job.depends is None:
        made = await backend.gathering.create(NewJob.of(registration, shaped.shape))
    else:
        with circles_kept_dark(caller):
            made = await register_job(
                backend.store, registration, allow_missing=shaped.allows_missing
            )
    if not made:
        job_id = registration.job.id
        if is_again(request) and await _is_made(backend.store, registration):
            return await _job_response(request, job_id)
        raise id_taken(job_id)
    return created(started(registration, made), now)


async def _is_made(store: Store, registration: Registration) -> bool:
    """Return whether the job of this id is the one that was asked for, and nobody has changed it:
    a process made it, and died before it could say so."""
    stands, asked = (await get_job(store, registration.job.id)).job, registration.job
    changing = ("created_at", "anchor_at", "state", "next_run_at", "runs_left", "failures")
    seen = {name: getattr(stands, name) for name in (*changing, "queued", "pause_note")}
    return stands == replace(asked, **seen)


def started(registration: Registration, made: int) -> Registration:
    """Return the registration of a new job with the nominal time that its execution got; `made` is
    the answer of `store_new`."""
    return replace(registration, run_at=made) if made > 1 else registration


def id_taken(job_id: str) -> JobExists:
    """Return the refusal of an id that a job has already. It tells that there is one, whoever's it
    is: ids are of the whole deployment."""
    return JobExists(f"job {job_id} exists already and was left as it is", field="job_id")


def created(registration: Registration, now: int) -> Response:
    """Return the answer for a job that was just stored."""
    job = replace(registration.job, runs_left=registration.job.rules.max_runs)
    shown = full_job_out(StoredJob(job, registration.plan, live=[]), now)
    if registration.run_at is not None:
        shown["execution_id"] = execution_id(job.id, registration.run_at)
        shown["live_executions"] = 1
    return job_response(shown, 201, Location=f"/v1/jobs/{job.id}")


@contract(query=ListJobs, gives=JobPageOut, headers=("Link",))
async def index(request: Request) -> Response:
    """Answer one page of jobs in order of their ids; `next` is the `after` of the next page, as in
    the header Link. A page may be short, or empty, while they lead on: one look goes through a
    bounded number of jobs."""
    query, store = read_query(request, ListJobs), backend_of(request).store
    search = query.to_search(caller_of(request))
    jobs, following = await search_jobs(store, search, after=query.after, limit=query.limit)
    page: JobPageOut = {"jobs": [job_out(stored) for stored in jobs], "next": following}
    return JsonResponse(page, headers=next_link(request, following))


@contract(gives=JobOut, also=(304,), heeds=("If-None-Match",), headers=("ETag",))
async def show(request: Request) -> Response:
    """Answer a job with what its schedule says in words."""
    return unless_known(request, await _job_response(request))


@contract(
    query=DeleteJob,
    status=204,
    heeds=("If-Match",),
    refuses=("has_dependents", "conflict", "precondition_failed"),
)
async def delete(request: Request) -> Response:
    """Delete a job with its history and all that nobody has started yet. Refuses with HasDependents
    one that others depend on, unless `dependents` says what becomes of them, and with 412 another
    version than `If-Match` names."""
    backend, job_id = backend_of(request), job_id_of(request)
    query = read_query(request, DeleteJob)
    now, dependents = backend.clock.now_ms(), Dependents(query.dependents or "refuse")
    await check_job(request, job_id)
    cascade = dependents is Dependents.CASCADE
    await check_alone(backend.store, caller_of(request), job_id, cascade=cascade)
    conditions, version = Conditions.of(request), None
    if conditions.names_version:
        job = (await get_job(backend.store, job_id)).job
        version = job.version
        conditions.check(version, rfc_3339(job.created_at))
    await remove_job(backend.store, job_id, now, dependents, version)
    return Response(status_code=204)


@contract(body=Nothing, may_be_empty=True, gives=StartedOut, status=202)
async def run(request: Request) -> Response:
    """Start an execution now, whatever the job's state. 202 with its id."""
    backend, job_id = backend_of(request), job_id_of(request)
    await read_body(request, Nothing, may_be_empty=True)
    await check_job(request, job_id)
    started = await run_job(backend.store, job_id, backend.clock.now_ms())
    return JsonResponse({"execution_id": started}, 202)


@contract(body=PauseJob, may_be_empty=True, gives=JobOut, refuses=("wrong_state",))
async def pause(request: Request) -> Response:
    """Keep a job from firing; a note may say why. Refuses with WrongState unless it is active."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, PauseJob, may_be_empty=True)
    await check_job(request, job_id)
    await pause_job(backend.store, job_id, backend.clock.now_ms(), note=body.note)
    return await _job_response(request)


@contract(body=ResumeJob, may_be_empty=True, gives=JobOut, refuses=("wrong_state",))
async def resume(request: Request) -> Response:
    """Let a paused job fire again, and say what becomes of the times that the pause held back. With
    `dry_run` only say it. Refuses with WrongState unless it is paused."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, ResumeJob, may_be_empty=True)
    await check_job(request, job_id)
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
    """Return a job as an answer, its ETag beginning with its version."""
    return tagged(JsonResponse(shown, status, headers), shown["version"], shown["created_at"])


async def _job_response(request: Request, job_id: str | None = None) -> Response:
    backend = backend_of(request)
    stored = await job_of(request, job_id or job_id_of(request))
    return job_response(full_job_out(stored, backend.clock.now_ms()))
