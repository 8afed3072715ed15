"""Executions over HTTP: of one job, of all jobs, and one by its id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from api.access import caller_of, check_job
from api.answers import ExecutionOut, SkippedOut
from api.backend import backend_of
from api.history import execution_out
from api.jobs import job_id_of
from api.operations import contract
from api.paging import next_link
from api.rules import Group, Instant, PageLimit, Queue, in_full
from api.taken import Taken
from api.wire import JsonResponse, read_query
from engine.errors import BadInput, NotFound
from engine.execution import ExecutionState
from engine.names import JOB_ID, split_execution_id
from engine.store.fleet import known_queues
from engine.store.history import Execution, find_execution, list_executions
from engine.store.processes import read_processes
from engine.store.recent import Asked, Place, find_recent

_PLACE = re.compile(r"([0-9]{1,15})-([0-9]{1,5})")
_PLACE_OF_ALL = re.compile(rf"([0-9]{{1,15}})-([01])-({JOB_ID.pattern})")
_Status = Literal["waiting", "running", "retrying", "succeeded", "dead", "cancelled", "skipped"]


def _refuse_cursor() -> PydanticCustomError:
    return PydanticCustomError(
        BadInput.code, "send the `after` of the header Link of the page before as it came"
    )


def _read_place(text: object) -> object:
    found = _PLACE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise _refuse_cursor()
    return int(found[1]), int(found[2])


def _read_place_of_all(text: object) -> object:
    found = _PLACE_OF_ALL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise _refuse_cursor()
    return int(found[1]), int(found[2]), found[3]


def _shown(place: re.Pattern[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "null"], "pattern": in_full(place)})


class _Filter(Taken):
    status: list[_Status] = []
    """Only executions that stand so; may be given again."""
    scheduled_after: Instant | None = None
    """Only nominal times from this one on."""
    scheduled_before: Instant | None = None
    """Only nominal times before this one."""
    limit: PageLimit = 100

    def to_asked(self, **more: Any) -> Asked:
        states = frozenset(map(ExecutionState, self.status)) or frozenset(ExecutionState)
        return Asked(states, self.scheduled_after, self.scheduled_before, **more)


class ListExecutions(_Filter):
    """The query of `GET /v1/jobs/{job_id}/executions`."""

    after: Annotated[Any, BeforeValidator(_read_place), _shown(_PLACE)] = None
    """The place that the header `Link` of the page before names."""


class ListAllExecutions(_Filter):
    """The query of `GET /v1/executions`."""

    group: Group | None = None
    queue: Queue | None = None
    after: Annotated[Any, BeforeValidator(_read_place_of_all), _shown(_PLACE_OF_ALL)] = None
    """The place that the header `Link` of the page before names."""


@contract(query=ListExecutions, gives=list[ExecutionOut | SkippedOut])
async def index(request: Request) -> Response:
    """Answer a job's executions, newest first: the live ones and what its history still holds.

    `Link` leads to the next page."""
    store, job_id = backend_of(request).store, job_id_of(request)
    query = read_query(request, ListExecutions)
    await check_job(request, job_id)
    found = await list_executions(store, job_id)
    asked = query.to_asked()
    meant = [e for e in found if e.state in asked.states and asked.takes_time(e.nominal_at)]
    page, following = _page(meant, query.after, query.limit)
    headers = next_link(request, following)
    return JsonResponse([execution_out(execution) for execution in page], headers=headers)


def _page(
    found: Sequence[Execution], after: tuple[int, int] | None, limit: int
) -> tuple[Sequence[Execution], str | None]:
    """Return a page of what is in order of nominal times, newest first, and the place of the next
    one: the nominal time of the last that was shown, and how many of that time were."""
    start = 0
    if after is not None:
        at, shown = after
        start = sum(e.nominal_at > at for e in found)
        start += min(shown, sum(e.nominal_at == at for e in found))
    page = found[start : start + limit]
    if start + limit >= len(found):
        return page, None
    last = page[-1].nominal_at
    return page, f"{last}-{sum(e.nominal_at == last for e in found[: start + limit])}"


@contract(query=ListAllExecutions, gives=list[ExecutionOut | SkippedOut])
async def index_all(request: Request) -> Response:
    """Answer executions of all jobs, newest nominal time first: what is live, and what ended
    lately.

    No list of all is kept, so this has a horizon: what waits or runs in the queues that are known
    (100 from each end of a stream), attempts that are due soon, the newest 1,000 dead letters, and
    about the last 5,000 events. What lies beyond it is found by its id or by its job. A page may be
    short, or empty, while `Link` leads on."""
    backend = backend_of(request)
    store, now = backend.store, backend.clock.now_ms()
    query, caller = read_query(request, ListAllExecutions), caller_of(request)

    def sees(group: str | None) -> bool:
        return caller.sees(group) and query.group in (None, group)

    if query.queue is None:
        known = await known_queues(store, await read_processes(store, now))
        queues = [standing.queue for standing in known]
    else:
        queues = [query.queue]
    asked, after = query.to_asked(queue=query.queue, sees=sees), query.after
    found, following = await find_recent(store, asked, queues, after=after, limit=query.limit)
    # Where to go on would name a job of others: for a restricted caller the look goes on at once.
    while caller.groups is not None and following and len(found) < query.limit:
        room = query.limit - len(found)
        more, following = await find_recent(store, asked, queues, after=following, limit=room)
        found += more
    headers = next_link(request, None if following is None else _place_text(following))
    return JsonResponse([execution_out(execution) for execution in found], headers=headers)


def _place_text(place: Place) -> str:
    nominal_at, was_skipped, job_id = place
    return f"{nominal_at}-{was_skipped}-{job_id}"


@contract(gives=ExecutionOut | SkippedOut)
async def show(request: Request) -> Response:
    """Answer an execution with its attempts, newest first, as far as the job's history or its dead
    letter holds them; `dead_letter` says where that letter is."""
    store = backend_of(request).store
    execution_id: str = request.path_params["execution_id"]
    try:
        job_id, _ = split_execution_id(execution_id)
    except BadInput:
        raise NotFound("there is no execution of this id, nor can there be") from None
    await check_job(request, job_id)
    execution, has_letter = await find_execution(store, execution_id)
    shown = execution_out(execution)
    letter = {"dead_letter": f"/v1/dead/{execution_id}"} if has_letter else {}
    return JsonResponse({**shown, **letter})
