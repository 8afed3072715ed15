"""Groups of jobs over HTTP: which there are and what they hold; all jobs of one paused, resumed or
deleted.

What is done to a group is done in steps: a request looks at a bounded number of jobs, says what
became of them and, in `next`, where to go on; with null the group is done.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.access import caller_of
from api.backend import backend_of
from api.operations import contract
from api.paging import next_link
from api.schemas_search import DeleteGroup, ListGroups, PauseGroup, ResumeGroup
from api.wire import JsonResponse, read_body, read_query
from engine.errors import NotFound
from engine.model import JobState
from engine.names import QUEUE
from engine.store.group_changes import Step, delete_group, pause_group, resume_group
from engine.store.groups import GroupSize, count_left, get_group, list_groups, no_group
from engine.store.registering import Dependents


class GroupOut(TypedDict):
    group: str
    jobs: int
    payload_bytes: int
    """Of the payloads of all its jobs."""


class FullGroupOut(GroupOut):
    states: dict[str, int]
    """How many of its jobs are in each state."""
    states_are_exact: bool
    """False where only the first 10,000 jobs were counted."""


class NotChangedOut(TypedDict):
    """A job that stayed as it was, and why."""

    job_id: str
    code: str
    detail: str


class StepOut(TypedDict):
    """What one step did to a group."""

    changed: int
    unchanged: int
    """Jobs that were so already, or cannot be: one that is completed is never paused."""
    failed: int
    first_failed: list[NotChangedOut]
    """The first ten of them."""
    left: int
    """Jobs that the next steps will look at."""
    next: str | None
    """The `after` of the next step; null at the end."""


class ResumeStepOut(StepOut):
    dry_run: bool
    starts: int
    """Executions that were, or would be, started for times that the pause held back."""
    skipped: int
    """Times of the pause that were, or would be, skipped."""
    skipped_is_exact: bool


@contract(query=ListGroups, gives=list[GroupOut], headers=("Link",))
async def index(request: Request) -> Response:
    """Answer the groups that have jobs, in order of their names."""
    query, store = read_query(request, ListGroups), backend_of(request).store
    names = caller_of(request).groups
    found, following = await list_groups(store, names=names, after=query.after, limit=query.limit)
    return JsonResponse([_shown(size) for size in found], headers=next_link(request, following))


@contract(gives=FullGroupOut)
async def show(request: Request) -> Response:
    """Answer how much there is of a group, and how its jobs stand."""
    size, states = await get_group(backend_of(request).store, _group_of(request))
    shown: FullGroupOut = {
        **_shown(size),
        "states": {state.value: states.jobs[state] for state in JobState},
        "states_are_exact": not states.is_cut,
    }
    return JsonResponse(shown)


@contract(body=PauseGroup, may_be_empty=True, gives=StepOut)
async def pause(request: Request) -> Response:
    """Keep the jobs of a group from firing; a note may say why. A job that joins the group later
    fires."""
    backend, group = backend_of(request), _group_of(request)
    body = await read_body(request, PauseGroup, may_be_empty=True)
    step = await pause_group(
        backend.store,
        group,
        backend.clock.now_ms(),
        note=body.note,
        after=body.after,
        limit=body.limit,
    )
    return JsonResponse(await _step_out(request, group, step))


@contract(body=ResumeGroup, may_be_empty=True, gives=ResumeStepOut)
async def resume(request: Request) -> Response:
    """Let the paused jobs of a group fire again, each by its own misfire policy or by the one that
    is given. With `dry_run` only say what that would do."""
    backend, group = backend_of(request), _group_of(request)
    body = await read_body(request, ResumeGroup, may_be_empty=True)
    step = await resume_group(
        backend.store,
        group,
        backend.clock.now_ms(),
        body.misfire,
        dry_run=body.dry_run,
        note=body.note,
        after=body.after,
        limit=body.limit,
    )
    done: ResumeStepOut = {
        **await _step_out(request, group, step),
        "dry_run": body.dry_run,
        "starts": step.starts,
        "skipped": step.skipped,
        "skipped_is_exact": step.skipped_is_exact,
    }
    return JsonResponse(done)


@contract(query=DeleteGroup, gives=StepOut)
async def delete(request: Request) -> Response:
    """Delete the jobs of a group with their histories. One that others depend on stays, unless
    `dependents` says what becomes of those."""
    backend, group = backend_of(request), _group_of(request)
    query = read_query(request, DeleteGroup)
    step = await delete_group(
        backend.store,
        group,
        backend.clock.now_ms(),
        Dependents(query.dependents or "refuse"),
        caller=caller_of(request),
        after=query.after,
        limit=query.limit,
    )
    return JsonResponse(await _step_out(request, group, step))


def _group_of(request: Request) -> str:
    """Return the group in the path. Refuses with NotFound what no group can be called, and what is
    not there for the caller."""
    group: str = request.path_params["group"]
    if not QUEUE.fullmatch(group):
        raise NotFound("there is no group of this name, nor can there be")
    if not caller_of(request).sees(group):
        raise no_group(group)
    return group


def _shown(size: GroupSize) -> GroupOut:
    return {"group": size.name, "jobs": size.jobs, "payload_bytes": size.payload_bytes}


async def _step_out(request: Request, group: str, step: Step) -> StepOut:
    left = 0
    if step.after is not None:
        left = await count_left(backend_of(request).store, group, step.after)
    return {
        "changed": step.changed,
        "unchanged": step.unchanged,
        "failed": step.failed,
        "first_failed": [
            {"job_id": one.job_id, "code": one.error.code, "detail": one.error.message}
            for one in step.first_failed
        ],
        "left": left,
        "next": step.after,
    }
