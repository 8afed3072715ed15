"""http: callbacks of one worker process to a local server, beside a bare loop of its client."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from bench.scenarios.spike import CHUNK, PAYLOAD
from engine import __version__
from engine.clock import ManualClock
from engine.model import HttpTarget
from engine.registration import Timing, register
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store, jobs
from engine.store.server import time_ms
from engine.targets.http import KEEP_ALIVE_S, HttpRunner
from engine.worker import Worker

CONCURRENCY = 100
HEADERS = {
    "Content-Type": "application/json",
    "Idempotency-Key": "job-000000000000@1800000000000",
    "Waterclock-Job": "job-000000000000",
    "Waterclock-Scheduled-For": "2027-01-15T08:00:00.000Z",
    "Waterclock-Attempt": "1",
}
"""What the bare client sends: as much as the engine does, worked out beforehand."""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Answering(asyncio.Protocol):
    """Answers 200 to every request, and looks at no more of it than where it ends."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._begun = bytearray()

    def data_received(self, data: bytes) -> None:
        self._begun += data
        while (end := self._begun.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._begun[:end]).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            if len(self._begun) < end + 4 + length:
                return
            del self._begun[: end + 4 + length]
            self._transport.write(ANSWER)


def _serve(listening: socket.socket) -> None:
    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Answering, sock=listening)
        await server.serve_forever()

    try:
        import uvloop
    except ImportError:
        asyncio.run(forever())
    else:
        uvloop.run(forever())


@contextmanager
def _server() -> Iterator[str]:
    """Run a server in a process of its own; yield a URL of it."""
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listening:
        port = listening.getsockname()[1]
        # What connects before it is up waits in the backlog.
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(listening,), daemon=True
        )
        process.start()
    try:
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        process.terminate()
        process.join()


async def _bare(url: str, count: int) -> float:
    """Return how many requests a second the client library makes by itself."""
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=10, keepalive_timeout=KEEP_ALIVE_S)
    left = iter(range(count))
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:

        async def call() -> None:
            for _ in left:
                async with session.post(url, data=PAYLOAD, headers=HEADERS) as answer:
                    assert answer.status == 200

        started = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(CONCURRENCY)))
        return count / (time.perf_counter() - started)


async def _seed(store: Store, url: str, count: int, now: int) -> None:
    for first in range(0, count, CHUNK):
        batch = [
            register(
                now=now,
                target=HttpTarget(url),
                job_id=f"job-{n:012x}",
                timing=Timing("0 0 * * *"),
                payload=PAYLOAD,
            )
            for n in range(first, min(first + CHUNK, count))
        ]
        await jobs.create_jobs(store, batch)


async def _callbacks(store: Store, url: str, count: int) -> tuple[float, float]:
    """Return callbacks a second, from stream to history, and Python's time for one (µs)."""
    now = await time_ms(store.client)
    await _seed(store, url, count, now)
    clock = ManualClock((now // 86_400_000 + 1) * 86_400_000)
    keeper = ShardKeeper(store, clock, "bench")
    await keeper.step()
    scheduler = Scheduler(store, clock, keeper)
    while scheduler.totals.fired < count:
        await scheduler.step()
    worker = Worker(
        store,
        clock,
        {"http": 1},
        lambda: HttpRunner(__version__, clock=clock),
        concurrency=CONCURRENCY,
        consumer="bench",
    )
    stop = asyncio.Event()
    started, python_started = time.perf_counter(), time.process_time()
    running = asyncio.create_task(worker.run(stop))
    ready = [shard.ready("http") for shard in store.layout.shards]
    while True:
        pipe = store.client.pipeline(transaction=False)
        for stream in ready:
            pipe.xlen(stream)
        if not sum(await pipe.execute()):
            break
        await asyncio.sleep(0.01)
    elapsed, python_s = time.perf_counter() - started, time.process_time() - python_started
    stop.set()
    await running
    return count / elapsed, python_s / count * 1e6


async def run(store: Store, count: int) -> dict[str, float]:
    """Return callbacks a second of one worker, what the bare client makes, and their ratio."""
    with _server() as url:
        await _bare(url, CONCURRENCY)  # until the server is up
        before = await _bare(url, count)
        callbacks_per_s, python_us = await _callbacks(store, url, count)
        after = await _bare(url, count)
    bare_per_s = (before + after) / 2
    return {
        "callbacks_per_s": callbacks_per_s,
        "bare_per_s": bare_per_s,
        "ratio": callbacks_per_s / bare_per_s,
        "python_us_per_callback": python_us,
    }
