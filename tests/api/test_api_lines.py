"""Lines over real sockets: answered while they come, held within bounds, and cut off anywhere."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from calling import CRON
from test_api_server import serving

from api import bulk, lines
from api.app import create_app
from engine.clock import ManualClock
from engine.store import Store
from engine.store.creating import NewJob, store_new
from engine.store.search import Search, search_jobs

HEAD = (
    b"POST /v1/jobs/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
MANY = 20_000


def line(job_id: str) -> bytes:
    return json.dumps({**CRON, "job_id": job_id}).encode() + b"\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(store: Store) -> AsyncIterator[Connection]:
    async with serving(store, asyncio.Event()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def read_head(reader: asyncio.StreamReader) -> None:
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    await reader.readuntil(b"\r\n\r\n")


async def read_chunk(reader: asyncio.StreamReader) -> list[dict[str, Any]]:
    """Return the answers of one chunk; none at the end of the body."""
    size = int(await reader.readline(), 16)
    data = await reader.readexactly(size)
    assert await reader.readline() == b"\r\n"
    return [json.loads(text) for text in data.splitlines()]


async def read_all(reader: asyncio.StreamReader) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    while some := await read_chunk(reader):
        answers += some
    return answers


async def ids(store: Store) -> list[str]:
    found, _ = await search_jobs(store, Search(), limit=100)
    return [one.job.id for one in found]


async def test_a_line_is_answered_before_the_next_one_comes(store: Store) -> None:
    async with connected(store) as (reader, writer):
        writer.write(HEAD)
        await read_head(reader)
        for number, job_id in enumerate(("a", "b", "c"), 1):
            writer.write(chunk(line(job_id)))
            [answer] = await read_chunk(reader)
            assert answer == {"line": number, "job_id": job_id, "status": 201}
        writer.write(chunk(b""))
        assert await read_chunk(reader) == []


async def test_a_caller_may_send_all_before_it_reads_anything(store: Store) -> None:
    async with connected(store) as (reader, writer):
        writer.write(HEAD)
        for first in range(0, MANY, 1_000):
            writer.write(chunk(b"".join(line(f"job-{n}") for n in range(first, first + 1_000))))
            await writer.drain()
        writer.write(chunk(b""))
        await read_head(reader)
        answers = await read_all(reader)
    assert [answer["line"] for answer in answers] == [*range(1, MANY + 1)]
    assert {answer["status"] for answer in answers} == {201}


async def test_of_a_connection_that_is_cut_what_was_answered_is_stored(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with connected(store) as (reader, writer):
            writer.write(HEAD + chunk(line("a") + line("b") + line("c")[:-1]))
            await read_head(reader)
            answers = await read_chunk(reader)
            assert [answer["job_id"] for answer in answers] == ["a", "b"]
            writer.close()
            await writer.wait_closed()
    # A line without its end may be a piece of one.
    assert await ids(store) == ["a", "b"]
    assert caplog.text == ""


async def test_a_caller_that_never_reads_is_told_where_its_lines_were_left(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_HELD_BYTES", 0)
    monkeypatch.setattr(lines, "STALL_S", 0)
    async with connected(store) as (reader, writer):
        writer.write(HEAD + chunk(line("a")))
        await read_head(reader)
        for n in range(MANY):
            writer.write(chunk(line(f"job-{n}")))
            await writer.drain()
        writer.write(chunk(b""))
        *answers, last = await read_all(reader)
    assert {answer["status"] for answer in answers} == {201}
    assert (last["status"], last["code"]) == (413, "too_large")
    assert last["line"] == answers[-1]["line"] + 1 <= MANY
    assert "read answers while you send" in last["detail"]


async def test_no_more_is_read_than_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, storing, may_go_on = 0, asyncio.Event(), asyncio.Event()

    async def wait(store: Store, jobs: list[NewJob]) -> list[int | Exception]:
        storing.set()
        await may_go_on.wait()
        return await store_new(store, jobs)

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        is_last = taken == 50
        return {"type": "http.request", "body": line(f"job-{taken}"), "more_body": not is_last}

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    monkeypatch.setattr(bulk, "store_new", wait)
    headers = [(b"host", b"localhost"), (b"content-type", b"application/x-ndjson")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/jobs/bulk",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }
    app = create_app(store.config, store, ManualClock(1_800_000_000_000))
    async with app.router.lifespan_context(app):
        answering = asyncio.create_task(app(scope, receive, send))
        await storing.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert taken == 2
        may_go_on.set()
        await answering
    assert taken == 50
    assert sum(message.get("body", b"").count(b'"status":201') for message in sent) == 50
