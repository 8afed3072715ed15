"""Answers that mean harm: rows 33 to 43 of the abuse list. Each attempt ends in bounded time and
memory with a typed outcome; test_http_abuse.py goes into each kind at length."""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
import time
import tracemalloc

import calling
import httpx
import pytest
from calling import NOW, create
from fleet import ON_LOOPBACK
from reaching import listening, work
from test_http_abuse import bad_server, dripping
from test_http_target import AT, answering, attempt, call, delivery, responding, runner, serving

from engine.backoff import Retry
from engine.clock import ManualClock
from engine.codec import MAX_ERROR_CHARS
from engine.execution import DeadReason, ErrorKind
from engine.logs import OneLine, printable
from engine.model import HttpTarget
from engine.registration import register
from engine.reporting import judge
from engine.store import Store
from engine.store.jobs import create_jobs
from engine.targets import Attempted
from engine.targets.http import EXCERPT_BYTES, SPARED_BYTES, HttpRunner

runner = runner
clock = calling.clock
client = calling.client

MIB = 2**20


@pytest.mark.parametrize("status", [200, 500], ids=["row_33_success", "row_33_failure"])
async def test_of_an_endless_body_little_is_read_and_the_status_decides(
    runner: HttpRunner, status: int
) -> None:
    sent, over = 0, asyncio.Event()

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(f"HTTP/1.1 {status} -\r\n\r\n".encode())
        try:
            while True:
                writer.write(b"x" * 4_096)
                await writer.drain()
                sent += 4_096
        finally:
            over.set()

    async with bad_server(flood) as url:
        attempted = await attempt(runner, url, timeout_ms=60_000)
        await asyncio.wait_for(over.wait(), 5)
    assert (attempted.succeeded, attempted.status_code) == (status == 200, status)
    # What is on its way when the connection is closed lies in buffers of the system.
    assert sent < SPARED_BYTES + 16 * MIB
    assert len(attempted.error or "") <= EXCERPT_BYTES + len("HTTP 500: ")


async def test_row_34_no_compressed_answer_is_asked_for_and_none_is_unpacked(
    runner: HttpRunner,
) -> None:
    assert (await call(runner)).headers["Accept-Encoding"] == "identity"
    bomb = gzip.compress(bytes(64 * MIB), 9)
    head = f"HTTP/1.1 500 -\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    async with answering(head.encode(), bomb) as (url, _):
        tracemalloc.start()
        try:
            attempted = await attempt(runner, url)
            assert tracemalloc.get_traced_memory()[1] < 4 * MIB
        finally:
            tracemalloc.stop()
    excerpt = bomb[:EXCERPT_BYTES].decode("utf-8", "replace")
    assert attempted.error == f"HTTP 500: {excerpt}".rstrip(": ")


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nX: "], ids=["row_36_silence", "row_35_byte_by_byte"]
)
async def test_an_answer_that_does_not_come_to_its_end_ends_at_the_jobs_timeout(
    runner: HttpRunner, head: bytes
) -> None:
    async def keep_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with bad_server(dripping(head, b"a") if head else keep_silent) as url:
        started = time.monotonic()
        attempted = await attempt(runner, url, timeout_ms=200)
        assert 0.19 <= time.monotonic() - started < 5
    assert attempted == Attempted(
        False, error="timeout: no answer within 200 ms", kind=ErrorKind.TIMEOUT
    )


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"x" * MIB + b"\r\n\r\n",
        b"X: a\r\n" * 10_000 + b"\r\n",
    ],
    ids=["row_37_long_line", "row_37_many_lines"],
)
async def test_a_head_without_bounds_is_not_http(runner: HttpRunner, head: bytes) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", head) as (url, _):
        tracemalloc.start()
        try:
            attempted = await attempt(runner, url)
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()
    assert attempted.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["row_38_chunks", "row_38_two_lengths", "row_38_length_and_chunks"],
)
async def test_an_answer_that_is_not_http_fails(runner: HttpRunner, answer: bytes) -> None:
    async with answering(answer) as (url, _):
        assert (await attempt(runner, url)).kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    ("said", "least_ms"),
    [
        ("999999999", 60_000),
        ("9" * 400, 0),
        ("-1", 0),
        ("abc", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 60_000),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 0),
        ("30", 30_000),
    ],
    ids=[
        "row_39_far",
        "row_39_farther",
        "row_39_negative",
        "row_39_word",
        "row_39_year_9999",
        "row_39_past",
        "row_40_half_a_minute",
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_the_wait_that_a_target_asks_for_is_kept_up_to_the_jobs_own_cap(
    runner: HttpRunner, status: int, said: str, least_ms: int
) -> None:
    retry = Retry(base_ms=1_000, max_ms=60_000)
    async with serving(responding(status, Retry_After=said)) as url:
        held = delivery(HttpTarget(url), retry=retry)
        attempted = await runner.run(held)
    result = judge(held, attempted, AT, 5, AT + 5, random.Random(1))
    assert result.retry_at is not None
    wait_ms = result.retry_at - (AT + 5)
    assert max(least_ms, 500) <= wait_ms <= max(least_ms, 1_000)


GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("rules", [{}, {"max_runs": 9}], ids=["row_41_plain", "row_41_with_rules"])
async def test_a_target_that_is_gone_pauses_its_job_and_says_why(
    store: Store, clock: ManualClock, client: httpx.AsyncClient, rules: dict[str, int]
) -> None:
    async with calling.calling(
        store.config.model_copy(update={"allow_networks": "127.0.0.1"}), store, clock
    ) as api:
        async with listening(answer=GONE) as outside:
            url = f"http://127.0.0.1:{outside.port}/"
            job = {
                "job_id": "a",
                "schedule_expr": "every 1m",
                "target": {"type": "http", "url": url},
            }
            await create(api, {**job, **rules})
            await api.post("/v1/jobs/a/run")
            own = HttpRunner("9.9", guard=ON_LOOPBACK, clock=clock)
            await work(store, clock, own)
            await own.close()
            assert outside.connections == 1
        shown = (await api.get("/v1/jobs/a")).json()
        assert (shown["state"], shown["next_run_at"]) == ("paused", None)
        assert shown["pause_note"] == {
            "by": "waterclock",
            "at": calling.NOW_TEXT,
            "note": "its target answered 410 Gone",
        }
        [letter] = (await api.get("/v1/dead?reason=gone")).json()
        assert letter["job_id"] == "a"
        assert (await api.post("/v1/jobs/a/resume")).json()["state"] == "active"


async def test_row_41_a_policy_that_tries_410_again_does_not_pause(runner: HttpRunner) -> None:
    held = delivery(HttpTarget("http://a.example/"), retry=Retry(on=(410,)))
    gone = Attempted(False, 410, "HTTP 410", True, ErrorKind.STATUS)
    result = judge(held, gone, AT, 5, AT + 5, random.Random(1))
    assert (result.reason, result.retry_at is None) == (None, False)
    usual = judge(delivery(HttpTarget("http://a.example/")), gone, AT, 5, AT, random.Random(1))
    assert usual.reason is DeadReason.GONE


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, None),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 101),
    ],
    ids=["row_42_continue", "row_42_switching"],
)
async def test_an_answer_that_is_no_end_fails(
    runner: HttpRunner, answer: bytes, status: int | None
) -> None:
    async with answering(answer) as (url, _):
        attempted = await attempt(runner, url, timeout_ms=5_000)
    assert (attempted.succeeded, attempted.status_code) == (False, status)


async def test_row_43_what_a_target_says_stays_one_line_and_is_never_markup(
    store: Store, clock: ManualClock, client: httpx.AsyncClient
) -> None:
    evil = "\x1b[2J\r\n2026 error forged <script>alert(1)</script> \u202e\x00"
    body = evil.encode()
    head = f"HTTP/1.1 400 -\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    async with listening(answer=head + body) as outside:
        target = HttpTarget(f"http://127.0.0.1:{outside.port}/")
        await create_jobs(store, [register(now=NOW, target=target, job_id="a", payload=b"1")])
        own = HttpRunner("9.9", guard=ON_LOOPBACK, clock=clock)
        await work(store, clock, own)
        await own.close()
    answer = await client.get("/v1/jobs/a/executions")
    # As JSON, with no control character in it, under a type that no browser takes for a page.
    assert answer.headers["content-type"] == "application/json"
    assert not any(byte < 0x20 for byte in answer.content)
    [execution] = answer.json()
    error = execution["attempts"][0]["error"]
    assert error == f"HTTP 400: {evil}"
    assert len(error) <= MAX_ERROR_CHARS
    assert printable(error).isprintable()
    logged = logging.LogRecord("waterclock", logging.WARNING, "", 0, "it said %s", (error,), None)
    assert OneLine().format(logged).isprintable()
