"""Hosts of http targets over HTTP: what they are allowed, and what they asked for."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.paging import next_link
from api.queues import ListNames, PutLimit
from api.wire import JsonResponse, read_body, read_query, rfc_3339
from engine.errors import NotFound
from engine.names import HOST
from engine.store.limits import Limit, write_host
from engine.store.standing import HostStanding, list_hosts, read_host_standing


class HostOut(TypedDict):
    host: str
    concurrency: int | None
    rate: float | None
    burst: int
    held: int
    """Executions that wait for a permit of this host."""
    pushed_back_at: str | None
    """When it last asked for less (429, 503); None once that is over."""


@contract(query=ListNames, gives=list[HostOut], headers=("Link",))
async def index(request: Request) -> Response:
    """Answer the hosts that have limits, asked for less, or are waited for."""
    query = read_query(request, ListNames)
    store = backend_of(request).store
    found = await list_hosts(store, after=query.after, limit=query.limit + 1)
    page = found[: query.limit]
    headers = next_link(request, page[-1].host if len(found) > len(page) else None)
    return JsonResponse([_shown(host) for host in page], headers=headers)


@contract(gives=HostOut)
async def show(request: Request) -> Response:
    """Answer how a host stands, whether it is known or not."""
    standing = await read_host_standing(backend_of(request).store, _host_of(request))
    return JsonResponse(_shown(standing))


@contract(body=PutLimit, gives=HostOut)
async def put(request: Request) -> Response:
    """Set what a host is allowed, in place of what was set."""
    body = await read_body(request, PutLimit)
    await write_host(backend_of(request).store, _host_of(request), body.to_limit())
    return await show(request)


@contract(status=204)
async def delete(request: Request) -> Response:
    """Lift all limits of a host."""
    await write_host(backend_of(request).store, _host_of(request), Limit())
    return Response(status_code=204)


def _host_of(request: Request) -> str:
    """Return the host in the path, in lower case. Refuses with NotFound what cannot be one."""
    host: str = request.path_params["host"]
    if not HOST.fullmatch(host):
        raise NotFound("there is no host of this name, nor can there be")
    return host.lower()


def _shown(standing: HostStanding) -> HostOut:
    limit, pushback = standing.limit, standing.pushback
    return {
        "host": standing.host,
        "concurrency": limit.concurrency,
        "rate": limit.rate,
        "burst": limit.burst,
        "held": standing.held,
        "pushed_back_at": None if pushback is None else rfc_3339(pushback.at),
    }
