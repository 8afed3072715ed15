"""One request and its answer over a kept connection: as little of aiohttp as that takes.

aiohttp's session makes a request, a response, headers, cookies, and a task that writes, anew for
each call; that is three times the work that is left here (bench/README.md). What stays is the part
with the risk in it: its connector (names, TLS, kept connections) and its parser, with their bounds.
These are below what it documents, so pyproject.toml names the versions that this was tested with.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL  # aiohttp's own: what is compared here is what is called there

from engine.guard import Guard
from engine.targets.connections import CALLED, Handler, connector
from engine.targets.deadlines import Deadlines, Late

MAX_HEADER_BYTES = 16_384
MOST_PLACES = 1_024

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""What could end a header's line, and would begin another."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where requests go, and what all of them begin with."""

    url: URL
    request: ClientRequest
    """What the connector is asked with; it is never sent."""
    head: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer, and its body as far as it has come. Release it in any case."""

    status: int
    headers: CIMultiDictProxy[str]
    body: StreamReader
    url: URL
    _connection: Connection

    def release(self) -> None:
        """Keep the connection for the next request, if this answer has come to its end; else close
        it."""
        protocol, transport = self._connection.protocol, self._connection.transport
        if transport is not None and transport.get_write_buffer_size():
            _abort(self._connection)  # it came before all of the request had gone out
            return
        if isinstance(protocol, Handler):
            protocol.is_asked = False
        self._connection.release()  # closes it where the body goes on


class Exchange:
    """Sends requests and reads the heads of answers. Use it inside a running event loop.

    It connects where `guard` lets it. `resolver` takes the system's place.
    """

    def __init__(self, version: str, guard: Guard, resolver: AbstractResolver | None) -> None:
        self._connector = connector(guard, resolver)
        self._usual = {
            "User-Agent": f"waterclock/{version}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",  # a small answer can unpack to a huge one
        }
        self._place = lru_cache(MOST_PLACES)(self._make_place)
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop)

    async def close(self) -> None:
        self._deadlines.close()
        await self._connector.close()

    async def post(
        self,
        url: str | URL,
        theirs: Mapping[str, str],
        ours: Mapping[str, str],
        body: bytes,
        until: float,
    ) -> Answer:
        """Return the answer to one POST, whatever it is, when its head is there. It is sent once.

        `theirs` and `ours` are headers; `ours` count where both have one. Raises ValueError for
        what cannot be sent, and Late when there is no answer by `until` (the event loop's time);
        else what aiohttp raises. Cancelled, it closes the connection.
        """
        place = self._place(url, tuple(theirs.items()), tuple(ours) if theirs else ())
        head = f"{place.head}{_lines(ours)}Content-Length: {len(body)}\r\n\r\n"
        connection = await self._connect(place, until)
        protocol = connection.protocol
        assert isinstance(protocol, Handler)
        self._deadlines.set(protocol, until)
        try:
            protocol.is_asked = True
            protocol.set_response_params(
                read_until_eof=True,
                auto_decompress=False,
                max_line_size=MAX_HEADER_BYTES,
                max_field_size=MAX_HEADER_BYTES,
            )
            if protocol.transport is not None:  # else it is lost already, and `read` says why
                protocol.transport.write(head.encode() + body)
            while True:
                said, content = await protocol.read()
                if said.code >= 200 or said.code == 101:
                    return Answer(said.code, said.headers, content, place.url, connection)
        except BaseException:
            _abort(connection)
            raise
        finally:
            self._deadlines.drop(protocol)

    async def _connect(self, place: _Place, until: float) -> Connection:
        """Return a connection, kept or new. Raises Late."""
        left_ms = ceil((until - self._loop.time()) * 1000)
        if left_ms <= 0:
            raise Late
        CALLED.set(place.url)
        try:
            return await self._connector.connect(place.request, [], _within(left_ms))
        except TimeoutError:
            raise Late from None

    def _make_place(
        self, url: str | URL, theirs: tuple[tuple[str, str], ...], ours: tuple[str, ...]
    ) -> _Place:
        """Return the place of a URL, and the headers of all requests there but for `ours`."""
        there = URL(url)
        if there.scheme not in ("http", "https"):
            raise aiohttp.NonHttpUrlClientError(there)
        headers = CIMultiDict(self._usual)
        for name, value in theirs:
            headers[name] = value
        request = ClientRequest("POST", there, headers=headers)
        for name in (*ours, "Content-Length"):
            request.headers.popall(name, None)
        start = f"POST {request.url.raw_path_qs} HTTP/1.1\r\n"
        return _Place(there, request, start + _lines(request.headers))


def _lines(headers: Mapping[str, str]) -> str:
    """Return headers as they are sent. Refuses with ValueError one that would not stay one line."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    together = "".join(lines)
    # The first question is the quick one, and says no to a few more than the second.
    if not together.isprintable() and _CONTROL.search(together):
        raise ValueError("a header holds a control character")
    return "\r\n".join([*lines, ""])


@lru_cache(MOST_PLACES)
def _within(ms: int) -> aiohttp.ClientTimeout:
    """Return how long a connection may take to be made; one that is there costs no timer."""
    return aiohttp.ClientTimeout(total=None, connect=ms / 1000, ceil_threshold=inf)


def _abort(connection: Connection) -> None:
    """Close a connection at once, whatever is still to be written."""
    if connection.protocol is not None:
        connection.protocol.abort()
    connection.close()
