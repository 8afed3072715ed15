"""One connection of a caller, within bounds: who is slow, or sends too much, does not stay.

uvicorn's own connection waits for ever for the end of a head, reads one of any length, and keeps
what a caller does not read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from api.problems import problem

HEAD_S = 30.0
"""From the beginning of a connection, and from each answer on, so long until the head of the next
request is there in full."""
UNREAD_S = 60.0
"""How long a caller may leave unread what waits for it."""
MAX_HEAD_BYTES = 64 * 1024
MOST_CONNECTIONS = 20_000
"""Open ones in a process: room for all long polls and listeners, and for requests beside them."""


class _HeadTooLarge(Exception):
    """Ends the parser's work on a request."""


class Connection(HttpToolsProtocol):
    """A connection of HTTP/1.1. It is closed

    1. where the head of a request is not there in time, also while the rest of a body comes whose
       request was answered already;
    2. where a head, or what follows a body in chunks, is too large, with 431;
    3. where its caller does not read;
    4. at once, with 503, where too many are open.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._in_head = True
        self._coming = 0
        """Bytes of a head that is not there in full."""
        self._counted = 0
        """Bytes of the lines of a request that are."""
        self._too_slow: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse("busy", "this process has too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._too_slow, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._coming += len(data)
        super().data_received(data)
        if self._in_head and self._coming > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._counted = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head, self._coming = False, 0
        if self._too_slow is not None:
            self._too_slow.cancel()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering:
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser gave up on."""
        if self._counted > MAX_HEAD_BYTES:
            self._refuse_head()
        else:
            self._refuse("bad_input", "this is not HTTP/1.1")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        if self._too_slow is not None:
            self._too_slow.cancel()
        self._too_slow = self.loop.call_later(HEAD_S, self.transport.abort)

    def _count(self, size: int) -> None:
        self._counted += size
        if self._counted > MAX_HEAD_BYTES:
            raise _HeadTooLarge

    def _refuse_head(self) -> None:
        most = f"{MAX_HEAD_BYTES} bytes at the most"
        self._refuse("head_too_large", f"the lines before a body have {most}, together")

    def _refuse(self, code: str, detail: str) -> None:
        """Answer and close; only close in the middle of another answer."""
        if self._is_answering:
            self.transport.abort()
            return
        answer = problem(code, detail, headers={"Connection": "close"})
        lines = [name + b": " + value + b"\r\n" for name, value in answer.raw_headers]
        head = b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n"])
        self.transport.write(head + bytes(answer.body))
        self.transport.close()
