"""Targets that behave badly: each attempt ends with a typed outcome, in bounded time and memory,
and nobody else notices.

The bad ones are real servers on this machine, and each says in its own words what it does wrong.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import ssl
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import test_http_target
from aiohttp import web
from test_http_target import PAYLOAD, answering, attempt, delivery, responding, serving, untold

from engine.execution import ErrorKind
from engine.model import MAX_PAYLOAD_BYTES, HttpTarget
from engine.targets import Attempted, http
from engine.targets.http import EXCERPT_BYTES, HttpRunner

runner = test_http_target.runner

Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

MIB = 2**20
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
NOT_HTTP = "the answer is not HTTP, or its head is too large"

CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgkj/DprUL3oNWZjFv
yT+qVvDBarrHOs4B+shKyY0vENuhRANCAARQP9MJ87Sw3tDLXzaVipiAnA0clWWz
PGXjT3TZaIg1MCKRsfWDFdOtJkMPoHCaMXGG1zo1Mxy+ZSbE9ZMTIK3b
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBljCCATugAwIBAgIUfmk0NVfNxO+ekFQol4OAzN8htxEwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDExMTIwMFoYDzIxMjYxMTA2
MTExMjAwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARQP9MJ87Sw3tDLXzaVipiAnA0clWWzPGXjT3TZaIg1MCKRsfWDFdOt
JkMPoHCaMXGG1zo1Mxy+ZSbE9ZMTIK3bo2kwZzAdBgNVHQ4EFgQU39s0RldV9E2p
YS8xDdE+CA8XRfgwHwYDVR0jBBgwFoAU39s0RldV9E2pYS8xDdE+CA8XRfgwDwYD
VR0TAQH/BAUwAwEB/zAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0EAwID
SQAwRgIhAOvswsQ2E/Zp5UmTyPjahlV9AEwyAdyzZNL/AdYdHDldAiEAiJNsHo7A
pw9tOLO/hYy5AhhmmzdXlqAdAlP2EL5MsC4=
-----END CERTIFICATE-----
"""
"""A key and the certificate that it signed for localhost itself; nobody trusts it."""


@asynccontextmanager
async def bad_server(
    serve: Server, context: ssl.SSLContext | None = None, *, reads: bool = True
) -> AsyncIterator[str]:
    """Serve every connection with `serve`, once the request has come; yield a URL. What still runs
    at the end is cut off."""
    running: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            if reads:
                await reader.readuntil(PAYLOAD)
            await serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            running.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        scheme = "https" if context else "http"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/run"
    finally:
        server.close()
        for task in [*running]:
            task.cancel()
        await asyncio.gather(*running)


def dripping(head: bytes, drops: bytes) -> Server:
    """Send a head at once, and then a byte every 10 ms, over and over."""

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, gone = asyncio.get_running_loop(), asyncio.Event()

        def drop(n: int) -> None:
            if writer.transport.is_closing():
                gone.set()
            else:
                writer.write(drops[n % len(drops) :][:1])
                loop.call_later(0.01, drop, n + 1)

        writer.write(head)
        drop(0)
        await gone.wait()

    return drip


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


# Slow


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 500 -\r\nX: a"])
async def test_a_head_that_comes_byte_by_byte_does_not_stretch_the_timeout(
    runner: HttpRunner, head: bytes
) -> None:
    async with bad_server(dripping(head, b"HTTP/1.1 200 OK" if not head else b"a")) as url:
        started = time.monotonic()
        attempted = await attempt(runner, url, timeout_ms=200)
        assert 0.19 <= time.monotonic() - started < 5
    untold(attempted, ErrorKind.TIMEOUT, "no answer within 200 ms")


async def test_a_slow_body_of_a_success_is_not_waited_for(runner: HttpRunner) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"
    async with bad_server(dripping(head, b"x")) as url:
        started = time.monotonic()
        assert await attempt(runner, url, timeout_ms=60_000) == Attempted(True, 200)
        assert time.monotonic() - started < 5


async def test_a_slow_body_of_a_failure_is_read_as_far_as_it_comes_in_a_short_time(
    runner: HttpRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "EXCERPT_S", 0.2)
    head = b"HTTP/1.1 503 -\r\nRetry-After: 7\r\nContent-Length: 9000\r\n\r\n"
    async with bad_server(dripping(head, b"x")) as url:
        started = time.monotonic()
        attempted = await attempt(runner, url, timeout_ms=60_000)
        assert time.monotonic() - started < 5
    assert (attempted.kind, attempted.status_code) == (ErrorKind.STATUS, 503)
    assert (attempted.error or "").startswith("HTTP 503: x")
    assert attempted.retry_after_ms == 7_000


@pytest.mark.parametrize("status", [200, 503])
async def test_a_slow_body_is_not_waited_for_beyond_the_timeout(
    runner: HttpRunner, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "EXCERPT_S", 60)
    monkeypatch.setattr(http, "SPARED_S", 60)
    head = f"HTTP/1.1 {status} -\r\nContent-Length: 9000\r\n\r\n".encode()
    async with bad_server(dripping(head, b"x")) as url:
        started = time.monotonic()
        attempted = await attempt(runner, url, timeout_ms=200)
        assert time.monotonic() - started < 5
    assert attempted.status_code == status, "the status has come, and decides"


async def test_a_handshake_that_never_ends_ends_at_the_timeout(runner: HttpRunner) -> None:
    async def keep_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(MIB):
            pass

    async with bad_server(keep_silent, reads=False) as url:
        attempted = await attempt(runner, url.replace("http:", "https:"), timeout_ms=100)
    untold(attempted, ErrorKind.TIMEOUT, "no answer within 100 ms")


async def test_a_target_that_does_not_read_ends_at_the_timeout_and_leaves_nothing_open(
    runner: HttpRunner,
) -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        before = open_files()
        target = HttpTarget(url, timeout_ms=100)
        attempted = await runner.run(delivery(target, payload=b"x" * MAX_PAYLOAD_BYTES))
        await asyncio.sleep(0)
        assert open_files() == before
    untold(attempted, ErrorKind.TIMEOUT, "no answer within 100 ms")


async def test_an_answer_before_the_payload_was_read_counts(runner: HttpRunner) -> None:
    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 -\r\nContent-Length: 3\r\n\r\nbig")
        await asyncio.Event().wait()

    async with bad_server(answer_early, reads=False) as url:
        held = delivery(HttpTarget(url, timeout_ms=5_000), payload=b"x" * MAX_PAYLOAD_BYTES)
        started = time.monotonic()
        attempted = await runner.run(held)
        assert time.monotonic() - started < 4
    assert attempted == Attempted(False, 413, "HTTP 413: big", True, ErrorKind.STATUS)


# Endless


@pytest.mark.parametrize(
    ("head", "more", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536, 200),
        (b"HTTP/1.1 500 -\r\n\r\n", b"x" * 65_536, 500),
        (b"HTTP/1.1 500 -\r\n" + CHUNKED, b"1\r\nx\r\n" * 9_000, 500),
        (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"5;", b"x" * 65_536, 200),
        (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"5\r\nhello\r\n0\r\n", b"X: a\r\n" * 9_000, None),
        (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n" * 9_000, None),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536, None),
        (b"HTTP/1.1 200 ", b"x" * 65_536, None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", b"x" * 65_536, 101),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 9_000, None),
        (b"\r\n", b"\r\n" * 30_000, None),
    ],
)
async def test_an_answer_without_an_end_costs_little_time_and_memory(
    runner: HttpRunner, head: bytes, more: bytes, status: int | None
) -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(more)
            await writer.drain()

    async with bad_server(flood) as url:
        tracemalloc.start()
        try:
            started = time.monotonic()
            attempted = await attempt(runner, url, timeout_ms=1_000)
            assert time.monotonic() - started < 5
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
    assert (attempted.succeeded, attempted.status_code) == (status == 200, status)
    if status is None:
        assert attempted.kind in (ErrorKind.PROTOCOL, ErrorKind.CONNECTION, ErrorKind.TIMEOUT)


async def test_a_flood_of_interim_answers_is_cut_off_at_once(runner: HttpRunner) -> None:
    more = b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000
    async with answering(endless=more) as (url, over):
        attempted = await attempt(runner, url, timeout_ms=60_000)
        await asyncio.wait_for(over.wait(), 5)
    untold(attempted, ErrorKind.CONNECTION, "closed without an answer")


async def test_a_few_interim_answers_are_no_flood(runner: HttpRunner) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 10
    async with answering(interim, b"HTTP/1.1 204 -\r\n\r\n") as (url, _):
        assert await attempt(runner, url) == Attempted(True, 204)


@pytest.mark.parametrize("status", [200, 500])
async def test_a_compressed_bomb_is_not_unpacked(runner: HttpRunner, status: int) -> None:
    bomb = gzip.compress(bytes(256 * MIB), 1)
    head = f"HTTP/1.1 {status} -\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    async with answering(head.encode(), bomb) as (url, _):
        tracemalloc.start()
        try:
            attempted = await attempt(runner, url)
            assert tracemalloc.get_traced_memory()[1] < 16 * MIB
        finally:
            tracemalloc.stop()
    assert (attempted.succeeded, attempted.status_code) == (status == 200, status)
    assert len(attempted.error or "") <= EXCERPT_BYTES + len("HTTP 500: ")
    assert "\0" * 100 not in (attempted.error or "")


# Broken


async def test_a_reset_is_tried_again(runner: HttpRunner) -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with bad_server(reset) as url:
        untold(await attempt(runner, url), ErrorKind.CONNECTION, "Connection reset by peer")


@pytest.mark.parametrize("length", [b"-1", b"1, 2", b"99999999999999999999999", b"0x10"])
async def test_a_length_that_is_none_is_not_http(runner: HttpRunner, length: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n"
    async with answering(answer, b"hello") as (url, _):
        untold(await attempt(runner, url), ErrorKind.PROTOCOL, NOT_HTTP)


async def test_a_body_that_is_broken_from_its_first_byte_is_not_http(runner: HttpRunner) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"zz\r\n") as (url, _):
        untold(await attempt(runner, url), ErrorKind.PROTOCOL, NOT_HTTP)


@pytest.mark.parametrize("status", [200, 500])
async def test_a_body_that_breaks_later_does_not_change_what_the_status_says(
    runner: HttpRunner, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "EXCERPT_S", 0.2)
    head = f"HTTP/1.1 {status} -\r\n".encode() + CHUNKED
    async with bad_server(dripping(head, b"1\r\nx\r\nzz\r\n")) as url:
        attempted = await attempt(runner, url)
    assert (attempted.succeeded, attempted.status_code) == (status == 200, status)


@pytest.fixture
def own_tls(tmp_path: Path) -> ssl.SSLContext:
    """The server's side of a connection to `https://localhost`."""
    (tmp_path / "both.pem").write_text(CERTIFICATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "both.pem")
    return context


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process trust the certificate, as if an authority had signed it."""
    context = ssl.create_default_context(cadata=CERTIFICATE[CERTIFICATE.index("-----BEGIN C") :])
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", context)


async def redirect_to_plain_http(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 307 -\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    await asyncio.Event().wait()


async def test_a_certificate_that_nobody_trusts_is_a_failure_that_may_pass(
    runner: HttpRunner, own_tls: ssl.SSLContext
) -> None:
    async with bad_server(redirect_to_plain_http, own_tls) as url:
        attempted = await attempt(runner, url.replace("127.0.0.1", "localhost"))
    untold(attempted, ErrorKind.TLS, "certificate: self-signed certificate")


@pytest.mark.usefixtures("trusted")
async def test_a_certificate_of_another_host_is_told_without_naming_the_host(
    runner: HttpRunner, own_tls: ssl.SSLContext
) -> None:
    async with bad_server(redirect_to_plain_http, own_tls) as url:
        attempted = await attempt(runner, url)
    untold(attempted, ErrorKind.TLS, "certificate: IP address mismatch")


@pytest.mark.usefixtures("trusted")
async def test_a_redirect_from_https_to_http_is_not_followed(
    runner: HttpRunner, own_tls: ssl.SSLContext
) -> None:
    async with bad_server(redirect_to_plain_http, own_tls) as url:
        secure = url.replace("127.0.0.1", "localhost")
        attempted = await attempt(runner, secure, follow_redirects=1)
    assert attempted == Attempted(
        False, 307, "redirect: HTTP 307, from https to http", True, ErrorKind.REDIRECT
    )


async def test_the_body_of_a_redirect_is_not_waited_for(runner: HttpRunner) -> None:
    over = asyncio.Event()

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 307 -\r\nLocation: {good}\r\nContent-Length: 9\r\n\r\n".encode())
        await reader.read(MIB)
        over.set()

    async with serving(responding(200)) as good, bad_server(redirect) as url:
        assert await attempt(runner, url, follow_redirects=1) == Attempted(True, 200)
        await asyncio.wait_for(over.wait(), 5)


# The others


async def test_targets_that_never_answer_do_not_hold_up_one_that_does(runner: HttpRunner) -> None:
    async def keep_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(MIB):
            pass

    async with bad_server(keep_silent) as silent, serving(responding(200)) as good:
        waiting = [asyncio.create_task(attempt(runner, silent)) for _ in range(200)]
        async with asyncio.timeout(10):
            assert await attempt(runner, good) == Attempted(True, 200)
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("body", [b"", b"ok", b"x" * 60_000])
async def test_the_connection_of_an_ordinary_answer_is_used_again(
    runner: HttpRunner, body: bytes
) -> None:
    peers: set[object] = set()

    async def respond(request: web.Request) -> web.Response:
        peers.add(request.transport and request.transport.get_extra_info("peername"))
        return web.Response(body=body, status=[200, 500][len(peers) % 2])

    async with serving(respond) as url:
        for _ in range(5):
            await attempt(runner, url)
    assert len(peers) == 1


async def test_the_connection_of_a_long_answer_is_not(runner: HttpRunner) -> None:
    peers: set[object] = set()

    async def respond(request: web.Request) -> web.Response:
        peers.add(request.transport and request.transport.get_extra_info("peername"))
        return web.Response(body=b"x" * MIB)

    async with serving(respond) as url:
        for _ in range(3):
            assert await attempt(runner, url) == Attempted(True, 200)
    assert len(peers) == 3


async def test_the_connection_of_a_success_whose_body_comes_later_is_used_again(
    runner: HttpRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SPARED_S", 60)
    connections: list[int] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while True:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            asyncio.get_running_loop().call_later(0.02, writer.write, b"ok")
            await reader.readuntil(PAYLOAD)

    async with bad_server(respond) as url:
        for _ in range(3):
            assert await attempt(runner, url) == Attempted(True, 200)
    assert len(connections) == 1
