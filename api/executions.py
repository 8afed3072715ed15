"""Executions over HTTP: what is live of a job, and what its history still holds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from api.answers import ExecutionOut, SkippedOut
from api.backend import backend_of
from api.history import execution_out
from api.jobs import job_id_of
from api.operations import contract
from api.schemas import ListExecutions
from api.wire import JsonResponse, read_query
from engine.store.history import list_executions


@contract(query=ListExecutions, gives=list[ExecutionOut | SkippedOut])
async def index(request: Request) -> Response:
    """Answer a job's executions, newest first: the live ones and what its history still holds."""
    job_id = job_id_of(request)
    query = read_query(request, ListExecutions)
    found = await list_executions(backend_of(request).store, job_id)
    return JsonResponse([execution_out(execution) for execution in found[: query.limit]])
