"""Cancelling over HTTP: one execution, or all that is live of a job."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from api.access import check_job
from api.answers import CancelledOut, ExecutionOut
from api.backend import backend_of
from api.history import execution_out
from api.jobs import job_id_of
from api.operations import contract
from api.schemas import MOST_NOTE_CHARS
from api.taken import Taken
from api.wire import JsonResponse, read_body
from engine.errors import BadInput, NotFound, WrongState
from engine.execution import ExecutionState
from engine.names import split_execution_id
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.history import Execution, list_executions

_LIVE = (ExecutionState.WAITING, ExecutionState.RUNNING, ExecutionState.RETRYING)


class Cancel(Taken):
    """The body, which need not be sent."""

    note: str = Field("", max_length=MOST_NOTE_CHARS)
    """Why, for whoever looks at the history."""


@contract(body=Cancel, may_be_empty=True, gives=ExecutionOut, refuses=("wrong_state",))
async def cancel_one(request: Request) -> Response:
    """End an execution that is waiting, running or about to be tried again; answer it as it then
    stands. A worker that runs it is told at its next heartbeat. Refuses with WrongState one that
    is not live."""
    backend = backend_of(request)
    job_id, nominal_at = _id_of(request)
    body = await read_body(request, Cancel, may_be_empty=True)
    await check_job(request, job_id)
    found = await _find(backend.store, job_id, nominal_at)
    if found is None or found.state not in _LIVE:
        raise WrongState(
            f"the execution has ended: it is {found.state}"
            if found
            else "no execution of this id is live or in the job's history"
        )
    cancelled = await cancel_executions(
        backend.store, job_id, backend.clock.now_ms(), [nominal_at], note=body.note
    )
    if not cancelled:
        raise WrongState("the execution has ended just now")
    return JsonResponse(execution_out(await _as_cancelled(backend.store, found)))


@contract(body=Cancel, may_be_empty=True, gives=CancelledOut)
async def cancel_all(request: Request) -> Response:
    """End all executions of a job that are live, and what waits for them; answer how many. The
    job's schedule goes on."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, Cancel, may_be_empty=True)
    await check_job(request, job_id)
    now = backend.clock.now_ms()
    cancelled = await cancel_executions(backend.store, job_id, now, note=body.note)
    return JsonResponse({"cancelled": len(cancelled)})


async def _find(store: Store, job_id: str, nominal_at: int) -> Execution | None:
    """Return the job's execution of a nominal time. Raises NotFound for no job."""
    for execution in await list_executions(store, job_id):
        if execution.nominal_at == nominal_at and execution.skipped is None:
            return execution
    return None


async def _as_cancelled(store: Store, was: Execution) -> Execution:
    try:
        found = await _find(store, was.job_id, was.nominal_at)
    except NotFound:  # it was the last of a job that goes after completion
        found = None
    return found or replace(was, state=ExecutionState.CANCELLED, retry_at=None, worker=None)


def _id_of(request: Request) -> tuple[str, int]:
    """Return job and nominal time of the path's execution. Refuses with NotFound what cannot be
    one."""
    try:
        return split_execution_id(request.path_params["execution_id"])
    except BadInput:
        raise NotFound("there is no execution of this id, nor can there be") from None
