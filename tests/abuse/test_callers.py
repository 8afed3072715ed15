"""Callers that are slow, send too much, or lie about it: row 93 of the list of abuses, over bare
sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from calling import Read, eventually
from calling import keyspace as keyspace
from test_api_server import serving

from api import connections, wire
from engine.store import Store

JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"job_id": "mail", "target": {"type": "worker"}}'


@asynccontextmanager
async def connected(
    store: Store,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection to a server that runs."""
    async with serving(store, asyncio.Event()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until the server closes, which it must before uvicorn itself would."""
    async with asyncio.timeout(4):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize(
    "length", [b"5000", b"-1", b"1e3", b"+46", b"0x2e", b"46, 47", b"99999999999999999999999"]
)
async def test_row_93_a_length_that_lies_stores_nothing_and_ends_the_connection(
    store: Store, keyspace: Read, monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    monkeypatch.setattr(wire, "BODY_S", 0.05)
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    before = await keyspace()
    async with connected(store) as (reader, writer):
        writer.write(HEAD + b"Content-Length: " + length + b"\r\n\r\n" + BODY)
        status = (await until_closed(reader)).split(b" ")[1]
    assert status == (b"408" if length == b"5000" else b"400")
    assert await keyspace() == before


async def test_row_93_two_lengths_or_a_length_and_chunks_are_refused(
    store: Store, keyspace: Read
) -> None:
    """What one reader takes for a body, another takes for the next request."""
    before = await keyspace()
    body = BODY
    length = b"Content-Length: %d\r\n" % len(body)
    for lines in (length + b"Content-Length: 5\r\n", length + b"Transfer-Encoding: chunked\r\n"):
        async with connected(store) as (reader, writer):
            writer.write(HEAD + lines + b"\r\n" + body)
            answer = await until_closed(reader)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"code":"bad_input"' in answer
    assert await keyspace() == before


@pytest.mark.parametrize("path", [b"/v1/jobs", b"/v1/jobs/report/run", b"/v1/calendars/a"])
async def test_row_93_a_body_that_does_not_go_on_is_answered_and_the_connection_closed(
    store: Store, keyspace: Read, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    monkeypatch.setattr(wire, "BODY_S", 0.05)
    before = await keyspace()
    method = b"PUT" if b"calendars" in path else b"POST"
    head = HEAD.replace(b"POST /v1/jobs", method + b" " + path)
    async with connected(store) as (reader, writer):
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{   ")
        answer = await until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b'"code":"request_timeout"' in answer
    assert b"connection: close" in answer.lower()
    assert await keyspace() == before


async def test_row_93_a_slow_body_that_goes_on_is_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time counts from one part to the next, and not from the first to the last."""
    monkeypatch.setattr(wire, "BODY_S", 0.5)
    body, loop = BODY, asyncio.get_running_loop()

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 8):
            began = loop.time()

            async def is_late(began: float = began) -> bool:
                return loop.time() - began > 0.1

            await eventually(is_late)
            yield body[at : at + 8]

    async with (
        serving(store, asyncio.Event()) as (port, _),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.post("/v1/jobs", content=parts(), headers=JSON)).status_code == 201


async def test_row_93_lines_that_do_not_go_on_are_answered_as_far_as_they_came(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wire, "BODY_S", 0.05)
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    head = HEAD.replace(b"/v1/jobs", b"/v1/jobs/bulk").replace(b"/json", b"/x-ndjson")
    line = BODY + b"\n"
    async with connected(store) as (reader, writer):
        part = b"%x\r\n%b\r\n" % (len(line) + 5, line + b'{"job')
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n" + part)
        answer = await until_closed(reader)
    assert b'"line":1,"job_id":"mail","status":201' in answer
    assert b'"status":408,"code":"request_timeout"' in answer
    assert caplog.text == ""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="nothing"),
        pytest.param([GET], id="a head without an end"),
        pytest.param([GET + b"\r\n", GET], id="a second head without an end"),
        pytest.param([GET + b"\r\n", b"\r\n"], id="blank lines"),
    ],
)
async def test_row_93_a_head_that_does_not_come_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, sent: list[bytes]
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    async with connected(store) as (reader, writer):
        for part in sent:
            writer.write(part)
            if part.endswith(b"\r\n\r\n"):
                assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 OK")
        assert await until_closed(reader) == b""


async def test_row_93_a_head_that_comes_byte_by_byte_is_not_waited_for_either(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    async with connected(store) as (reader, writer):
        writer.write(GET)

        async def is_closed() -> bool:
            writer.write(b"X-A: b\r\n")
            return writer.is_closing() or reader.at_eof()

        await eventually(is_closed)
        assert await until_closed(reader) == b""


async def test_row_93_the_rest_of_a_body_that_was_refused_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    async with connected(store) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 9999999\r\n\r\n" + b" " * 100)
        answer = await until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_row_93_a_request_that_waits_for_work_is_not_cut_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    async with (
        serving(store, asyncio.Event()) as (port, _),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        body = {"worker": "w1", "wait_ms": 300}
        assert (await client.post("/internal/executions/claim", json=body)).status_code == 204


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"X-A: " + b"a" * 70_000 + b"\r\n\r\n", id="one line"),
        pytest.param(b"X-A: " + b"a" * 400_000, id="one line without an end"),
        pytest.param(b"X-A: a\r\n" * 20_000 + b"\r\n", id="many lines"),
        pytest.param(b"X-A: a\r\n" * 100_000, id="many lines without an end"),
    ],
)
async def test_row_93_a_head_without_measure_is_refused(store: Store, lines: bytes) -> None:
    async with connected(store) as (reader, writer):
        writer.write(GET + lines)
        answer = await until_closed(reader)
    # A reset may take the answer away from a caller who still sends.
    assert answer.startswith(b"HTTP/1.1 431 ") or answer == b""


async def test_row_93_many_heads_one_after_the_other_are_taken(store: Store) -> None:
    async with connected(store) as (reader, writer):
        for _ in range(5):
            writer.write(GET + b"X-A: " + b"a" * 20_000 + b"\r\n\r\n")
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 OK")


async def test_row_93_a_head_of_much_is_taken(store: Store) -> None:
    async with connected(store) as (reader, writer):
        writer.write(GET + b"Connection: close\r\nX-A: " + b"a" * 60_000 + b"\r\n\r\n")
        assert (await until_closed(reader)).startswith(b"HTTP/1.1 200 ")


async def test_row_93_a_url_without_measure_is_refused(store: Store) -> None:
    async with connected(store) as (reader, writer):
        writer.write(b"GET /" + b"a" * 66_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await until_closed(reader)).startswith(b"HTTP/1.1 431 ")


async def test_row_93_lines_without_measure_behind_a_body_end_the_connection(store: Store) -> None:
    async with connected(store) as (reader, writer):
        chunks = b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n"
        writer.write(HEAD + chunks + b"X-A: a\r\n" * 20_000)
        answer = await until_closed(reader)
    assert not answer.startswith(b"HTTP/1.1 2")


async def test_row_93_who_reads_nothing_is_cut_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.1)
    closed = asyncio.Event()
    lost = connections.Connection.connection_lost

    def note(self: connections.Connection, exc: Exception | None) -> None:
        lost(self, exc)
        closed.set()

    monkeypatch.setattr(connections.Connection, "connection_lost", note)
    async with connected(store) as (reader, writer):
        asking = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        transport = writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()
        writer.write(asking * 100)
        async with asyncio.timeout(8):
            await closed.wait()
        transport.resume_reading()
        assert reader is not None


async def test_row_93_one_connection_too_many_is_told_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    async with serving(store, asyncio.Event()) as (port, _):
        first, one = await asyncio.open_connection("127.0.0.1", port)
        one.write(GET + b"\r\n")
        assert await first.readline() == b"HTTP/1.1 200 OK\r\n"
        second, two = await asyncio.open_connection("127.0.0.1", port)
        answer = await until_closed(second)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"code":"busy"' in answer
        one.write(GET + b"Connection: close\r\n\r\n")
        assert b"HTTP/1.1 200 OK" in await until_closed(first)
        one.close()
        two.close()
