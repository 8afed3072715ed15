"""Queues over HTTP: how they stand, what they are allowed, pause and resume."""

from __future__ import annotations

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.paging import next_link
from api.rules import PageLimit
from api.schemas import Nothing
from api.taken import Taken
from api.wire import JsonResponse, read_body, read_query
from engine.errors import NotFound
from engine.names import QUEUE
from engine.store.limits import Limit, change_queue
from engine.store.standing import QueueStanding, list_queues, read_queue_standing

MOST_AT_ONCE = 1_000_000


class PutLimit(Taken):
    """The body of `PUT /v1/queues/{queue}` and `PUT /v1/hosts/{host}`: what is left out is not
    limited."""

    concurrency: int | None = Field(None, ge=1, le=MOST_AT_ONCE)
    rate: float | None = Field(None, ge=0.001, le=MOST_AT_ONCE)
    """Executions a second."""
    burst: int = Field(1, ge=1, le=MOST_AT_ONCE)

    def to_limit(self) -> Limit:
        return Limit(self.concurrency, self.rate, self.burst)


class ListNames(Taken):
    """The query of `GET /v1/queues` and `GET /v1/hosts`."""

    limit: PageLimit = 100
    after: str = ""


class QueueOut(TypedDict):
    queue: str
    paused: bool
    fair: bool
    """Its groups share it."""
    concurrency: int | None
    rate: float | None
    burst: int
    waiting: dict[str, int]
    """By priority: what nobody has taken."""
    running: int
    held: dict[str, int]
    """What waits for a permit, by what keeps it: `queue` (its limits, or its pause), `groups`
    (their shares), `room`. What waits for a host is shown there."""


@contract(query=ListNames, gives=list[QueueOut], headers=("Link",))
async def index(request: Request) -> Response:
    """Answer the queues that have settings or something held at their gates, and the usual ones, in
    order of their names. Of any other its own page tells."""
    query = read_query(request, ListNames)
    store = backend_of(request).store
    found = await list_queues(store, after=query.after, limit=query.limit + 1)
    page = found[: query.limit]
    headers = next_link(request, page[-1].queue if len(found) > len(page) else None)
    return JsonResponse([_shown(queue) for queue in page], headers=headers)


@contract(gives=QueueOut)
async def show(request: Request) -> Response:
    """Answer how a queue stands, whether it is known or not."""
    return await _queue_response(request)


@contract(body=PutLimit, gives=QueueOut)
async def put(request: Request) -> Response:
    """Set what a queue is allowed, in place of what was set. Pause and fairness stay."""
    body = await read_body(request, PutLimit)
    await change_queue(backend_of(request).store, _queue_of(request), limit=body.to_limit())
    return await _queue_response(request)


@contract(body=Nothing, may_be_empty=True, gives=QueueOut)
async def pause(request: Request) -> Response:
    """Hand out nothing more of a queue. What runs goes on; what is due waits."""
    return await _set_paused(request, True)


@contract(body=Nothing, may_be_empty=True, gives=QueueOut)
async def resume(request: Request) -> Response:
    """Hand out a queue's executions again."""
    return await _set_paused(request, False)


async def _set_paused(request: Request, paused: bool) -> Response:
    await read_body(request, Nothing, may_be_empty=True)
    await change_queue(backend_of(request).store, _queue_of(request), paused=paused)
    return await _queue_response(request)


def _queue_of(request: Request) -> str:
    """Return the queue in the path. Refuses with NotFound what no queue can be called."""
    queue: str = request.path_params["queue"]
    if not QUEUE.fullmatch(queue):
        raise NotFound("there is no queue of this name, nor can there be")
    return queue


async def _queue_response(request: Request) -> Response:
    store = backend_of(request).store
    return JsonResponse(_shown(await read_queue_standing(store, _queue_of(request))))


def _shown(standing: QueueStanding) -> QueueOut:
    settings = standing.settings
    return {
        "queue": standing.queue,
        "paused": settings.paused,
        "fair": settings.fair,
        "concurrency": settings.limit.concurrency,
        "rate": settings.limit.rate,
        "burst": settings.limit.burst,
        "waiting": {priority.value: count for priority, count in standing.waiting.items()},
        "running": standing.running,
        "held": standing.held,
    }
