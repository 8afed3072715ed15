"""Jobs over HTTP: create, list, show, delete, run, pause, resume."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from api.backend import backend_of
from api.schemas import CreateJob, HttpTargetIn, JobOut, ListJobs, Nothing, ResumeJob
from api.wire import JsonResponse, dump_payload, read_body, read_query, rfc_3339, verbatim
from engine.errors import BadInput, JobExists, NotFound, NotSupported
from engine.model import (
    JOB_ID,
    MAX_PAYLOAD_BYTES,
    HttpTarget,
    JobState,
    Overlap,
    Target,
    WorkerTarget,
    execution_id,
)
from engine.registration import Registration, register
from engine.store.jobs import (
    StoredJob,
    create_jobs,
    delete_job,
    get_job,
    list_jobs,
    pause_job,
    resume_job,
    run_job,
)


async def create(request: Request) -> Response:
    """Store a job. 201 with the job, and its execution's id if it runs at once. Refuses with
    JobExists an id that is taken."""
    backend = backend_of(request)
    store, clock = backend.store, backend.clock
    body = await read_body(request, CreateJob, context={"clock": clock})
    now = clock.now_ms()
    registration = _registration(body, now)
    job = registration.job
    [is_new] = await create_jobs(store, [registration])
    if not is_new:
        raise JobExists(f"job {job.id} exists already and was left as it is", field="job_id")
    shown = _shown(StoredJob(job, registration.plan, live=[]))
    if registration.run_at is not None:
        shown["execution_id"] = execution_id(job.id, registration.run_at)
        shown["live_executions"] = 1
    return JsonResponse(shown, 201, {"Location": f"/v1/jobs/{job.id}"})


async def index(request: Request) -> Response:
    """Answer one page of jobs in order of their ids; `next` is the `after` of the next page."""
    query = read_query(request, ListJobs)
    jobs, following = await list_jobs(
        backend_of(request).store, after=query.after, prefix=query.prefix, limit=query.limit
    )
    return JsonResponse({"jobs": [_shown(stored) for stored in jobs], "next": following})


async def show(request: Request) -> Response:
    return await _job_response(request)


async def delete(request: Request) -> Response:
    """Delete a job with its history and all that nobody has started yet."""
    await delete_job(backend_of(request).store, job_id_of(request))
    return Response(status_code=204)


async def run(request: Request) -> Response:
    """Start an execution now, whatever the job's state. 202 with its id."""
    backend, job_id = backend_of(request), job_id_of(request)
    await read_body(request, Nothing, may_be_empty=True)
    started = await run_job(backend.store, job_id, backend.clock.now_ms())
    return JsonResponse({"execution_id": started}, 202)


async def pause(request: Request) -> Response:
    """Keep a job from firing. Refuses with WrongState unless it is active."""
    job_id = job_id_of(request)
    await read_body(request, Nothing, may_be_empty=True)
    await pause_job(backend_of(request).store, job_id)
    return await _job_response(request)


async def resume(request: Request) -> Response:
    """Let a paused job fire again. Refuses with WrongState unless it is paused."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, ResumeJob, may_be_empty=True)
    await resume_job(
        backend.store, job_id, backend.clock.now_ms(), skip_missed=body.missed == "skip"
    )
    return await _job_response(request)


def job_id_of(request: Request) -> str:
    """Return the job id in the path. Refuses with NotFound what no job can be called."""
    job_id: str = request.path_params["job_id"]
    if not JOB_ID.fullmatch(job_id):
        raise NotFound("there is no job of this id, nor can there be")
    return job_id


async def _job_response(request: Request) -> Response:
    return JsonResponse(_shown(await get_job(backend_of(request).store, job_id_of(request))))


def _registration(body: CreateJob, now: int) -> Registration:
    if body.depends_on is not None and body.depends_on != []:
        raise NotSupported("jobs that wait for other jobs are not built yet", field="depends_on")
    payload = dump_payload(body.payload)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadInput(f"a payload has {MAX_PAYLOAD_BYTES} bytes at the most", field="payload")
    return register(
        now=now,
        target=_target(body),
        job_id=body.job_id,
        schedule_expr=body.schedule_expr,
        timezone=body.timezone,
        payload=payload,
        queue=body.queue,
        retry=body.retry.to_retry() if body.retry else None,
        misfire=body.misfire.to_misfire() if body.misfire else None,
        overlap=Overlap(body.overlap),
    )


def _target(body: CreateJob) -> Target:
    if isinstance(body.target, HttpTargetIn):
        return HttpTarget(body.target.url, body.target.headers, body.target.timeout_ms)
    return WorkerTarget()


def _shown(stored: StoredJob) -> JobOut:
    job, plan = stored.job, stored.plan
    is_active = job.state is JobState.ACTIVE
    return {
        "job_id": job.id,
        "state": job.state,
        "schedule_expr": job.schedule_expr,
        "timezone": job.timezone,
        "target": asdict(job.target),
        "payload": verbatim(job.payload),
        "queue": job.queue,
        "retry": asdict(job.retry),
        "misfire": asdict(plan.misfire),
        "overlap": job.overlap,
        "created_at": rfc_3339(job.created_at),
        # A paused job keeps the time at which it was paused; it will not fire then.
        "next_run_at": rfc_3339(job.next_run_at) if is_active and job.next_run_at else None,
        "live_executions": len(stored.live),
    }
