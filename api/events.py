"""What happens, as it happens: the ledger as server-sent events.

A listener that comes back with the id of the last event that it saw (`Last-Event-ID`) goes on
behind it; ids stand on the last event of each read, so what was cut off in the middle of one comes
again. The ledger is capped: where it was trimmed in between, an event `gap` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.access import caller_of, is_still_let_in
from api.backend import backend_of
from api.events_read import KINDS, Read, joined
from api.events_seen import Seen
from api.events_shown import EventOut, Kind
from api.operations import contract
from api.problems import Invalid
from api.rules import Group, JobId, Prefix
from api.tailing import Listener, Tailing
from api.taken import Taken
from api.wire import read_query, rfc_3339
from engine.codec.positions import BEGINNING, Position, load_position
from engine.errors import BadInput, Busy
from engine.store import Store
from engine.store.following import behind, find_gaps, read_between

PULSE_S = 15.0
"""Without events a comment says so often that the connection lives."""
RETRY_MS = 2_000
CATCH_UP = 100

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Listen(Taken):
    """The query of `GET /v1/events`: which of them."""

    kind: list[Kind] = []
    """May be given several times; without it all kinds."""
    job_id: JobId | None = None
    prefix: Prefix = ""
    """How the job's id begins."""
    group: Group | None = None
    after: str | None = None
    """Where to begin, for who cannot send `Last-Event-ID`; `0` is the oldest that is kept."""


@contract(
    query=Listen,
    gives=EventOut,
    yields="text/event-stream",
    heeds=("Last-Event-ID",),
    refuses=("bad_input", "busy"),
    is_open=True,
)
async def listen(request: Request) -> Response:
    """Answer what happens as server-sent events, for as long as the caller listens: from now on, or
    behind the event that `Last-Event-ID` names. Refuses with Busy when too many listen here."""
    backend = backend_of(request)
    query = read_query(request, Listen)
    store = backend.store
    last_id = request.headers.get("last-event-id")
    begin = _begin_of(last_id, query.after, len(store.layout.shards))
    if backend.tailing.is_full:
        raise Busy("too many listen to this process; try another, or again later")
    seen = Seen(store, caller_of(request), query.job_id, query.prefix, query.group)
    told = _stream(store, backend.tailing, begin, frozenset(query.kind or KINDS), seen)
    stream = _while_let_in(request, told)
    return StreamingResponse(stream, headers=_HEADERS, media_type="text/event-stream")


async def _while_let_in(request: Request, stream: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream up to the moment when the caller's key is good no more."""
    async with aclosing(stream):
        async for part in stream:
            if not await is_still_let_in(request):
                return
            yield part


def _begin_of(last_id: str | None, after: str | None, shards: int) -> Position | None:
    text = last_id or after
    if not text:
        return None
    if text == "0":
        return (BEGINNING,) * shards
    try:
        return load_position(text, shards)
    except BadInput as error:
        if last_id:
            raise BadInput(f"Last-Event-ID: {error.message}") from None
        raise Invalid([{"parameter": "after", "detail": error.message}]) from None


async def _stream(
    store: Store, tailing: Tailing, begin: Position | None, kinds: frozenset[str], seen: Seen
) -> AsyncGenerator[bytes]:
    async with tailing.listen() as listener:
        yield b"retry: %d\n\n" % RETRY_MS
        position = listener.position if begin is None else begin
        if begin is not None:
            if gaps := await find_gaps(store, begin):
                yield _gap(min(gaps)[0])
            while entries := await read_between(store, position, listener.position, CATCH_UP):
                position = behind(position, entries)
                yield await _told(Read(entries), kinds, seen, position)
        # A position ahead of all that there is, after a failover say, waits for it to come.
        position = tuple(map(max, position, listener.position))
        async for read in _live(listener):
            position = behind(position, read)
            yield await _told(read, kinds, seen, position) if read else b":\n\n"


async def _live(listener: Listener) -> AsyncIterator[Read]:
    """Yield reads as they come, an empty one where none came for a while."""
    while True:
        try:
            async with asyncio.timeout(PULSE_S):
                read = await listener.reads.get()
        except TimeoutError:
            read = Read(())
        if read is None:
            return
        yield read


async def _told(read: Read, kinds: frozenset[str], seen: Seen, position: Position) -> bytes:
    """Return the events that are wanted as text, and the id behind them all."""
    if kinds == KINDS and seen.is_all:
        return read.in_full(position)
    wanted = [event for event in read.told if event[0] in kinds]
    visible = await seen.among(subject for _, subject, _ in wanted)
    return joined([text for _, subject, text in wanted if subject in visible], position)


def _gap(first_ms: int) -> bytes:
    said: dict[str, Any] = {"event": "gap", "until": rfc_3339(first_ms)}
    return b"event: gap\ndata: %b\n\n" % orjson.dumps(said)
