"""The graph of jobs over HTTP: around a job, one time over it, and running a part of it again."""

from __future__ import annotations

import re
from typing import NotRequired

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.access import caller_of
from api.backend import backend_of
from api.depends import depends_out
from api.jobs import job_id_of
from api.operations import contract
from api.schemas_depends import LookAround, RunAgain
from api.wire import JsonResponse, read_body, read_query, rfc_3339
from engine.errors import BadInput, NotFound
from engine.execution import ExecutionState
from engine.model import JobState
from engine.names import execution_id
from engine.plan import clock_time, parse_instant
from engine.store.graph_runs import JobRun, RunState, read_run, rerun
from engine.store.graphs import Graph, Node, read_around

MISSING = "missing"
"""The state of a job that others depend on and that is not there."""


class NodeOut(TypedDict):
    job_id: str
    state: str
    next_run_at: NotRequired[str | None]
    join: NotRequired[str]
    match: NotRequired[str | None]
    gate: NotRequired[bool]


# `from` is no name in Python, so this is written as a call.
EdgeOut = TypedDict("EdgeOut", {"from": str, "to": str, "condition": str})


class EdgesOut(TypedDict):
    edges: list[EdgeOut]
    is_cut: bool
    """There is more than is shown."""


class GraphOut(EdgesOut):
    job_id: str
    nodes: list[NodeOut]


class RerunOut(TypedDict):
    execution_id: str
    attempt: int
    downstream: list[str]


class HeardOut(TypedDict):
    outcome: str
    is_met: bool


class JobRunOut(TypedDict):
    job_id: str
    execution_id: str
    status: str
    attempt_count: int
    reason: NotRequired[str]
    """Why it was skipped."""
    heard: NotRequired[dict[str, HeardOut]]
    """With `awaited`, of one that waits for upstream jobs: what has come, and what has not."""
    awaited: NotRequired[list[str]]


class GraphRunOut(EdgesOut):
    root: str
    scheduled_for: str
    runs: list[JobRunOut]


@contract(query=LookAround, gives=GraphOut)
async def around(request: Request) -> Response:
    """Answer a job with what is above it and below it, the nearest first, and their edges.
    `is_cut` says that there is more than is shown."""
    query = read_query(request, LookAround)
    job_id = job_id_of(request)
    sees = caller_of(request).sees
    graph = await read_around(backend_of(request).store, job_id, query.depth, sees)
    nodes = [_node_out(one, node) for one, node in graph.nodes.items()]
    return JsonResponse({"job_id": job_id, "nodes": nodes, **_edges_out(graph)})


@contract(gives=GraphRunOut)
async def run(request: Request) -> Response:
    """Answer what became of one time, in ms or RFC 3339, in a job and in those below it that have
    its times. Refuses with NotFound what is no time."""
    root, nominal_at = job_id_of(request), _time_of(request)
    sees = caller_of(request).sees
    graph, runs = await read_run(backend_of(request).store, root, nominal_at, sees)
    return JsonResponse(
        {
            "root": root,
            "scheduled_for": rfc_3339(nominal_at),
            "runs": [_run_out(graph, one, nominal_at) for one in runs],
            **_edges_out(graph),
        }
    )


@contract(body=RunAgain, may_be_empty=True, gives=RerunOut, status=202, refuses=("wrong_state",))
async def run_again(request: Request) -> Response:
    """Run an execution again that has ended; with `downstream` what is below it, too. 202 with the
    attempt that comes, and the jobs that run after it. Refuses with WrongState, changing nothing,
    while any of it is live."""
    backend = backend_of(request)
    body = await read_body(request, RunAgain, may_be_empty=True)
    execution: str = request.path_params["execution_id"]
    found = await rerun(
        backend.store,
        execution,
        backend.clock.now_ms(),
        downstream=body.downstream,
        sees=caller_of(request).sees,
    )
    return JsonResponse(
        {"execution_id": execution, "attempt": found.attempt, "downstream": found.downstream}, 202
    )


def _node_out(job_id: str, node: Node | None) -> NodeOut:
    if node is None:
        return {"job_id": job_id, "state": MISSING}
    job, said = node.job, depends_out(node.job.depends)
    next_run_at = clock_time(job.next_run_at) if job.state is JobState.ACTIVE else None
    return {
        "job_id": job_id,
        "state": job.state,
        "next_run_at": None if next_run_at is None else rfc_3339(next_run_at),
        "join": said["join"],
        "match": said["match"],
        "gate": said["gate"],
    }


def _edges_out(graph: Graph) -> EdgesOut:
    edges: list[EdgeOut] = [
        {"from": edge.above, "to": edge.below, "condition": edge.condition.value}
        for edge in graph.edges()
    ]
    return {"edges": edges, "is_cut": graph.is_cut}


def _run_out(graph: Graph, run: JobRun, nominal_at: int) -> JobRunOut:
    execution = run.execution
    has_begun = run.state not in (RunState.WAITING, RunState.RETRYING)
    begun = execution.attempt - (not has_begun) if execution else run.attempt
    shown: JobRunOut = {
        "job_id": run.job_id,
        "execution_id": execution_id(run.job_id, nominal_at),
        "status": run.state,
        "attempt_count": begun,
    }
    if execution and execution.state is ExecutionState.SKIPPED and execution.skipped:
        shown["reason"] = execution.skipped.told
    if run.state is RunState.WAITING_FOR_UPSTREAM:
        shown["attempt_count"] = run.attempt
        node = graph.nodes[run.job_id]
        upstreams = node.job.depends.upstreams if node and node.job.depends else ()
        shown["heard"] = {
            one: {"outcome": heard.outcome, "is_met": heard.is_met}
            for one, heard in run.heard.items()
        }
        shown["awaited"] = [up.job_id for up in upstreams if up.job_id not in run.heard]
    return shown


def _time_of(request: Request) -> int:
    text: str = request.path_params["time"]
    try:
        at = int(text) if re.fullmatch(r"[0-9]{1,15}", text) else parse_instant(text)
        rfc_3339(at)
    except (BadInput, OverflowError, ValueError, OSError):
        raise NotFound("this is no time; it is RFC 3339, or ms since 1970") from None
    return at
