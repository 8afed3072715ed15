"""http: callbacks of one worker process to a local server, beside a bare loop of its client."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from bench.scenarios.spike import CHUNK, PAYLOAD
from engine import __version__
from engine.clock import ManualClock
from engine.config import Config
from engine.guard import Guard
from engine.model import HttpTarget
from engine.registration import Timing, register
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store, jobs
from engine.store.server import time_ms
from engine.targets.connections import KEEP_ALIVE_S
from engine.targets.http import HttpRunner
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

    _run_fast(forever())


def _run_fast(life: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(life)
    else:
        uvloop.run(life)


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


async def _seed(store: Store, url: str, count: int, now: int, prefix: str) -> None:
    for first in range(0, count, CHUNK):
        batch = [
            register(
                now=now,
                target=HttpTarget(url),
                job_id=f"{prefix}-{n:012x}",
                timing=Timing("0 0 * * *"),
                payload=PAYLOAD,
            )
            for n in range(first, min(first + CHUNK, count))
        ]
        await jobs.create_jobs(store, batch)


async def _fire(store: Store, url: str, count: int, prefix: str) -> int:
    """Put `count` callbacks into the ready streams; return the time at which they are due."""
    now = await time_ms(store.client)
    await _seed(store, url, count, now, prefix)
    midnight = (now // 86_400_000 + 1) * 86_400_000
    clock = ManualClock(midnight)
    keeper = ShardKeeper(store, clock, "bench")
    await keeper.step()
    scheduler = Scheduler(store, clock, keeper)
    while scheduler.totals.fired < count:
        await scheduler.step()
    return midnight


def _worker(store: Store, now: int, consumer: str) -> Worker:
    clock = ManualClock(now)
    return Worker(
        store,
        clock,
        {"http": 1},
        lambda: HttpRunner(__version__, guard=Guard.of("127.0.0.1"), clock=clock),
        concurrency=CONCURRENCY,
        consumer=consumer,
    )


async def _drain(store: Store) -> None:
    """Return when all that was ready is in the history."""
    ready = [shard.ready("http") for shard in store.layout.shards]
    while True:
        pipe = store.client.pipeline(transaction=False)
        for stream in ready:
            pipe.xlen(stream)
        if not sum(await pipe.execute()):
            return
        await asyncio.sleep(0.01)


async def _callbacks(store: Store, url: str, count: int) -> tuple[float, float]:
    """Return callbacks a second of one worker, from stream to history, and Python's time for one
    (µs)."""
    worker = _worker(store, await _fire(store, url, count, "one"), "bench")
    stop = asyncio.Event()
    started, python_started = time.perf_counter(), time.process_time()
    running = asyncio.create_task(worker.run(stop))
    await _drain(store)
    elapsed, python_s = time.perf_counter() - started, time.process_time() - python_started
    stop.set()
    await running
    return count / elapsed, python_s / count * 1e6


def _work(config: Config, now: int, consumer: str, ready: Any, stop: Any) -> None:
    """The life of one worker process: works from when all are ready until the stop."""

    async def work() -> None:
        async with await Store.open(config) as store:
            worker = _worker(store, now, consumer)
            await asyncio.to_thread(ready.wait)
            stopping = asyncio.Event()
            running = asyncio.create_task(worker.run(stopping))
            await asyncio.to_thread(stop.wait)
            stopping.set()
            await running

    _run_fast(work())


async def _callbacks_of_two(store: Store, url: str, count: int) -> float:
    """Return callbacks a second of two worker processes."""
    now = await _fire(store, url, count, "two")
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Barrier(3), context.Event()
    processes = [
        context.Process(target=_work, args=(store.config, now, name, ready, stop), daemon=True)
        for name in ("bench-1", "bench-2")
    ]
    for process in processes:
        process.start()
    await asyncio.to_thread(ready.wait)
    started = time.perf_counter()
    await _drain(store)
    elapsed = time.perf_counter() - started
    stop.set()
    for process in processes:
        await asyncio.to_thread(process.join)
    return count / elapsed


async def run(store: Store, count: int) -> dict[str, float]:
    """Return callbacks a second of one worker process and of two, what one process makes with the
    bare client, and the ratios to that."""
    with _server() as url:
        await _bare(url, CONCURRENCY)  # until the server is up
        before = await _bare(url, count)
        callbacks_per_s, python_us = await _callbacks(store, url, count)
        of_two_per_s = await _callbacks_of_two(store, url, count)
        after = await _bare(url, count)
    bare_per_s = (before + after) / 2
    return {
        "callbacks_per_s": callbacks_per_s,
        "callbacks_of_two_per_s": of_two_per_s,
        "bare_per_s": bare_per_s,
        "ratio": callbacks_per_s / bare_per_s,
        "ratio_of_two": of_two_per_s / bare_per_s,
        "python_us_per_callback": python_us,
    }
