"""Connections to http targets: made only where the guard lets them, and kept for the next call.

Each address is judged at the moment at which a socket is made for it. There is no second look at a
name between that and the connection, so a name that leads somewhere else by now gains nothing; and
a redirect, or one of several addresses of a name, is nothing special. A kept connection has been
judged: it is used for the same host and port only.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextvars import ContextVar
from functools import partial

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType
from aiohttp.http import RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from engine.guard import Guard, addresses_of

MOST_QUEUED = 100
"""Answers to one request that wait to be looked at."""
KEEP_ALIVE_S = 1.5
"""Shorter than what common servers keep an idle connection for (2 to 75 s): a request that meets a
connection just being closed would fail an attempt for nothing."""
MOST_WARNED = 1_000

log = logging.getLogger("waterclock.worker")

CALLED: ContextVar[URL] = ContextVar("called")
"""What a task is about to call. A socket is asked for by address, which does not tell the host."""


class NotAllowed(OSError):
    """No connection was made. `is_final` if none can be, whatever the host's name leads to."""

    def __init__(self, why: str, *, is_final: bool) -> None:
        super().__init__(why)
        self.is_final = is_final


class Handler(ResponseHandler):
    """aiohttp's end of a connection, which gives up on a target that sends too much.

    Any number of interim answers (1xx) may come before the one that counts. A flood of them would
    be parsed and queued in one go, and nothing else would run meanwhile. What comes while nothing
    is asked would be taken for the answer to the next request, which may be another job's.
    """

    is_asked = False
    """Whether a request is out, or its answer still on its way."""

    def data_received(self, data: bytes) -> None:
        if self.is_asked:
            super().data_received(data)
        else:
            self.abort()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        if len(self) < MOST_QUEUED:
            super().feed_data(data, size)
        else:
            self.abort()


class _Sockets:
    """Makes the sockets of connections, or raises NotAllowed; warns once of each host."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._warned: set[str] = set()

    def __call__(self, there: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, (address, port, *_) = there
        host = CALLED.get().raw_host or ""
        why = self._guard.why_not(host, int(port), str(address))
        if why is None:
            return socket.socket(family, kind, protocol)
        self._warn(host, why)
        is_by_name = not addresses_of(host) and self._guard.allows_port(host, int(port))
        raise NotAllowed(why, is_final=not is_by_name)

    def _warn(self, host: str, why: str) -> None:
        if host not in self._warned and len(self._warned) < MOST_WARNED:
            self._warned.add(host)
            log.warning("target host %s is not called: %s", host, why)


def connector(guard: Guard, resolver: AbstractResolver | None = None) -> aiohttp.TCPConnector:
    """Return what connects, inside a running event loop. `resolver` takes the system's place."""
    made = aiohttp.TCPConnector(
        limit=0,
        ttl_dns_cache=10,
        keepalive_timeout=KEEP_ALIVE_S,
        resolver=resolver,
        socket_factory=_Sockets(guard),
    )
    handler: type[ResponseHandler] = Handler
    # There is no public way; a test floods, and sees whether this still works.
    made._factory = partial(handler, loop=asyncio.get_running_loop())
    return made
