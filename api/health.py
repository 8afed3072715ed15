"""Is the API alive, can it do its work, and what is it."""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.wire import JsonResponse
from engine import __version__
from engine.errors import Unusable, WaterclockError
from engine.plan import ZONE_DATABASE
from engine.store.connection import TRANSIENT
from engine.store.due import peek_due
from engine.store.leases import read_holders
from engine.store.server import check_server


class IndexOut(TypedDict):
    name: str
    version: str
    links: dict[str, str]


class AliveOut(TypedDict):
    status: Literal["ok"]


class FitServerOut(TypedDict):
    name: str
    version: str
    maxmemory_policy: str
    is_persistent: bool


class ReadyOut(TypedDict):
    status: Literal["ready"]
    server: FitServerOut
    shards: int
    shards_without_scheduler: int
    timezones: str
    """The edition of the time zone database."""


@contract(gives=IndexOut)
async def index(_: Request) -> Response:
    """Answer what this is, and where to go on."""
    links = {
        "docs": "/docs",
        "openapi": "/openapi.json",
        "jobs": "/v1/jobs",
        "healthz": "/healthz",
        "readyz": "/readyz",
    }
    return JsonResponse({"name": "waterclock", "version": __version__, "links": links})


@contract(gives=AliveOut)
async def healthz(_: Request) -> Response:
    """Answer that this process serves requests. Touches no server, so that a restart of Redis does
    not restart the API."""
    return JsonResponse({"status": "ok"})


@contract(gives=ReadyOut)
async def readyz(request: Request) -> Response:
    """Answer that jobs can be taken: the server is reached, fit, and runs scripts. Refuses with
    503, saying what to do."""
    store = backend_of(request).store
    try:
        server = await check_server(store.client)
        [reply] = await peek_due(store, store.layout.shards[:1], now=0, limit=1)
        holders = [holder for holder, _ in await read_holders(store)]
        if isinstance(reply, Exception):
            raise reply
    except Exception as error:
        if isinstance(error, (WaterclockError, *TRANSIENT)):
            raise
        raise Unusable(
            f"the server refuses what Waterclock needs: {error}; give its user the right to run"
            " INFO and EVALSHA"
        ) from None
    return JsonResponse(
        {
            "status": "ready",
            "server": {
                "name": server.name,
                "version": server.version,
                "maxmemory_policy": server.maxmemory_policy,
                "is_persistent": server.is_persistent,
            },
            "shards": len(store.layout.shards),
            "shards_without_scheduler": holders.count(None),
            "timezones": ZONE_DATABASE,
        }
    )
