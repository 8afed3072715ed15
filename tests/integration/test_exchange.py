"""What one connection carries: whose answer is whose, and what is left of a request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import test_http_target
from aiohttp import web
from fleet import ON_LOOPBACK
from test_http_abuse import bad_server
from test_http_target import AT, PAYLOAD, attempt, call, delivery, serving

from engine.clock import ManualClock
from engine.execution import Delivery, ErrorKind
from engine.model import MAX_PAYLOAD_BYTES, HttpTarget
from engine.targets import Attempted, connections, outgoing
from engine.targets.http import HttpRunner

runner = test_http_target.runner


@pytest.fixture
async def patient(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpRunner]:
    """A runner that closes no connection for being idle."""
    monkeypatch.setattr(connections, "KEEP_ALIVE_S", 3_600)
    runner = HttpRunner("9.9", guard=ON_LOOPBACK, clock=ManualClock(AT))
    yield runner
    await runner.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
WAIT_S = 5


@pytest.mark.parametrize("more", [b"HTTP/1.1 500 -\r\nContent-Length: 0\r\n\r\n", b"H", b"\r\n"])
async def test_what_comes_while_nothing_is_asked_answers_no_later_request(
    patient: HttpRunner, more: bytes
) -> None:
    goes_on, is_dropped = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        if not goes_on.is_set():
            await goes_on.wait()
            writer.write(more)
            try:
                await reader.read()
            finally:
                is_dropped.set()
        await reader.read()

    async with bad_server(answer) as url:
        assert await attempt(patient, url) == Attempted(True, 200)
        goes_on.set()
        await asyncio.wait_for(is_dropped.wait(), WAIT_S)
        assert await attempt(patient, url) == Attempted(True, 200)


async def test_of_an_answer_and_more_in_one_piece_the_answer_counts_and_the_rest_does_not(
    runner: HttpRunner,
) -> None:
    connections: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while True:
            writer.write(OK + b"HTTP/1.1 500 -\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(PAYLOAD)

    async with bad_server(answer) as url:
        for _ in range(3):
            assert await attempt(runner, url) == Attempted(True, 200)
    assert len(connections) == 3


class SmallSocket(socket.socket):
    """A socket whose system takes little of what is to be sent."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)


async def test_the_answer_to_an_attempt_that_was_cut_off_is_nobody_elses(
    patient: HttpRunner,
) -> None:
    heard = asyncio.Event()
    connections: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        if len(connections) == 1:
            heard.set()
            await reader.readuntil(PAYLOAD)  # of the next request, if that came here
            writer.write(b"HTTP/1.1 500 -\r\nContent-Length: 0\r\n\r\n")
        writer.write(OK)
        await reader.read()

    async with bad_server(answer) as url:
        cut_off = asyncio.create_task(attempt(patient, url))
        await heard.wait()
        cut_off.cancel()
        await asyncio.wait([cut_off])
        assert await attempt(patient, url) == Attempted(True, 200)


async def test_a_body_may_end_with_the_connection(runner: HttpRunner) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nWaterclock-Result: body\r\n\r\n[1]")
        writer.write_eof()
        await writer.drain()
        await asyncio.Event().wait()

    async with bad_server(answer) as url:
        assert await attempt(runner, url) == Attempted(True, 200, gave=b"[1]")


async def test_what_an_early_answer_left_unsent_is_never_sent(
    runner: HttpRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listening:
        monkeypatch.setattr(socket, "socket", SmallSocket)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        large = delivery(HttpTarget(url), payload=b"x" * MAX_PAYLOAD_BYTES)
        running = asyncio.create_task(runner.run(large))
        loop = asyncio.get_running_loop()
        theirs, _ = await loop.sock_accept(listening)
        with theirs:
            size = len(await loop.sock_recv(theirs, 1_024))
            await loop.sock_sendall(theirs, b"HTTP/1.1 413 -\r\nContent-Length: 0\r\n\r\n")
            assert (await running).status_code == 413
            with suppress(ConnectionError):
                while more := await asyncio.wait_for(loop.sock_recv(theirs, 65_536), WAIT_S):
                    size += len(more)
    assert size < MAX_PAYLOAD_BYTES


async def test_a_connection_that_nobody_keeps_open_is_not_used_again(runner: HttpRunner) -> None:
    peers: list[object] = []

    async def respond(request: web.Request) -> web.Response:
        peers.append(request.transport and request.transport.get_extra_info("peername"))
        answer = web.Response(body=b"ok")
        answer.force_close()
        return answer

    async with serving(respond) as url:
        for _ in range(3):
            assert await attempt(runner, url) == Attempted(True, 200)
    assert len({*peers}) == 3


async def test_a_job_cannot_change_what_its_body_is(runner: HttpRunner) -> None:
    request = await call(runner, headers={"content-length": "3", "ACCEPT": "text/plain"})
    assert request.headers.getall("Content-Length") == [str(len(PAYLOAD))]
    assert request.headers.getall("Accept") == ["text/plain"]
    assert await request.read() == PAYLOAD


async def test_a_look_for_what_a_template_asks_for_ends_at_the_timeout(
    runner: HttpRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look_for_ever(_: object, delivery: Delivery, target: HttpTarget) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(outgoing.Composer, "_context", look_for_ever)
    attempted = await attempt(runner, "http://127.0.0.1:9/", template=True, timeout_ms=50)
    assert attempted == Attempted(
        False, error="timeout: no answer within 50 ms", kind=ErrorKind.TIMEOUT
    )
