"""NDJSON both ways: lines of a body while it still comes, and a line of answer for each.

What is held is bounded, whatever a caller does. Lines are taken a chunk at a time, and a chunk is
asked for when the one before was worked off, so what cannot be stored yet stays with the sender.
Answers go out while lines come in. A caller that sends all before it reads anything is borne with
until `MOST_HELD_BYTES` wait for it, and after `STALL_S` more the rest of its lines is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from api.problems import STATUS, UNAVAILABLE, faults_of
from api.wire import MAX_BODY_BYTES, read_chunks, refuse_compressed
from engine.errors import WaterclockError
from engine.store.connection import TRANSIENT

NDJSON = "application/x-ndjson"
MAX_LINE_BYTES = MAX_BODY_BYTES
MOST_LINES = 1_000_000
MOST_TOGETHER = 1_000
"""Lines that are worked on at once."""
MOST_HELD_BYTES = 16 * 1024 * 1024
STALL_S = 5.0

Write = Callable[[bytes], Awaitable[None]]
Line = tuple[int, bytes]
"""Number, from 1, and text. A text over `MAX_LINE_BYTES` is cut off behind that."""

_NDJSON_TYPE = re.compile(
    r'application/(x-ndjson|jsonl|x-jsonlines)\s*(;\s*charset="?utf-8"?\s*)?', re.IGNORECASE
)


async def read_lines(request: Request) -> AsyncIterator[list[Line]]:
    """Yield the lines of a body, as many as are there and 1,000 at the most; blank ones are left
    out. The last may lack its line feed. Of more than `MOST_LINES` the first ones are yielded, and
    one more."""
    count, rest = 0, b""
    async for chunk in read_chunks(request):
        *whole, rest = (rest + chunk).split(b"\n")
        # What follows in a line that is too long is not kept.
        rest = rest[: MAX_LINE_BYTES + 1]
        for first in range(0, len(whole), MOST_TOGETHER):
            texts = whole[first : first + MOST_TOGETHER]
            if lines := _numbered(texts, count):
                yield lines
            count += len(texts)
            if count > MOST_LINES:
                return
    if lines := _numbered([rest], count):
        yield lines


def _numbered(texts: list[bytes], before: int) -> list[Line]:
    return [
        (number, text)
        for number, text in enumerate(texts, before + 1)
        if number <= MOST_LINES + 1 and text and not text.isspace()
    ]


class TooLarge(Exception):
    """A line is past a bound."""


REFUSED: tuple[type[Exception], ...] = (TooLarge, WaterclockError, *TRANSIENT)
"""What becomes the answer to a line, and not to the whole request."""


def check_line(line: Line) -> None:
    """Refuse with TooLarge a line that is too long, or one too many."""
    number, text = line
    if number > MOST_LINES:
        raise TooLarge(f"a request has {MOST_LINES:,} lines at the most; send the rest in another")
    if len(text) > MAX_LINE_BYTES:
        raise TooLarge(f"a line has {MAX_LINE_BYTES} bytes at the most")


def refusal(line: int, job_id: str | None, error: Exception) -> bytes:
    """Return the line of answer for what was refused, or could not be tried."""
    said: dict[str, Any] = {"line": line, "job_id": job_id}
    match error:
        case WaterclockError():
            said |= {"status": STATUS[error.code], "code": error.code, "detail": error.message}
            said |= {"errors": faults} if (faults := faults_of(error)) else {}
        case TooLarge():
            said |= {"status": 413, "code": "too_large", "detail": str(error)}
        case HTTPException():
            said |= {"status": 408, "code": "request_timeout", "detail": error.detail}
        case _:
            said |= {"status": 503, "code": "unavailable", "detail": UNAVAILABLE}
    return dump_line(said)


def dump_line(said: Mapping[str, Any]) -> bytes:
    return orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE)


Store = Callable[[], Awaitable[bytes]]
"""Stores what lines ask for, and returns their answer."""
Take = Callable[[list[Line]], Awaitable[Store]]
"""Looks at lines, while those before are being stored."""


def answer_lines(request: Request, take: Take) -> Response:
    """Return the answer to a body of lines: what `take` and then its Store make of them, batch
    after batch. Refuses with 415 what is not NDJSON."""
    if not _NDJSON_TYPE.fullmatch(request.headers.get("content-type", "")):
        raise HTTPException(415, f"send one JSON value a line as Content-Type: {NDJSON}")
    refuse_compressed(request)

    async def work(write: Write) -> None:
        answered, storing = 0, asyncio.create_task(_nothing())

        async def store(lines: list[Line], what: Store) -> None:
            nonlocal answered
            answer = await what()
            answered = lines[-1][0]
            await write(answer)

        try:
            async for lines in read_lines(request):
                what = await take(lines)
                await storing
                storing = asyncio.create_task(store(lines, what), name="api-lines-store")
            await storing
        except Stalled:
            # What still comes is dropped by the server, as after any answer.
            left = TooLarge("it was left alone, with all behind it: read answers while you send")
            with suppress(Stalled):
                await write(refusal(answered + 1, None, left))
        except HTTPException as slow:
            await storing
            await write(refusal(answered + 1, None, slow))
        finally:
            # What is on its way into the store is let through: cut off, it would be so anyhow.
            await asyncio.wait([storing])

    return _LinesAnswer(work)


async def _nothing() -> None:
    pass


class Stalled(Exception):
    """Answers wait to be read, more than are held, and nobody reads them."""


class _LinesAnswer(StreamingResponse):
    """Answers lines as they are written. `work` gets the function that writes some, which raises
    Stalled when it has written them and cannot go on."""

    media_type = NDJSON

    def __init__(self, work: Callable[[Write], Awaitable[None]]) -> None:
        super().__init__(self._parts())
        self._work = work
        self._held = bytearray()
        self._is_done = False
        self._changed = asyncio.Condition()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # No ear for a caller who goes: that would take away parts of the body, which still comes.
        await self.stream_response(send)

    async def _parts(self) -> AsyncIterator[bytes]:
        working = asyncio.create_task(self._run(), name="api-lines")
        try:
            is_last = False
            while not is_last:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._held or self._is_done)
                    part, self._held = bytes(self._held), bytearray()
                    is_last = self._is_done
                    self._changed.notify_all()
                if part:
                    yield part
            await working
        finally:
            working.cancel()
            await asyncio.wait([working])

    async def _run(self) -> None:
        try:
            # A caller who has gone is no error; what was answered is stored.
            with suppress(ClientDisconnect):
                await self._work(self._write)
        finally:
            async with self._changed:
                self._is_done = True
                self._changed.notify_all()

    async def _write(self, lines: bytes) -> None:
        async with self._changed:
            self._held += lines
            self._changed.notify_all()
            try:
                async with asyncio.timeout(STALL_S):
                    await self._changed.wait_for(lambda: len(self._held) < MOST_HELD_BYTES)
            except TimeoutError:
                raise Stalled from None
