"""http: callbacks of one worker process to a local server, beside a bare loop of its client."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvloop

from bench.firing import fire_all
from bench.seeding import midnight_after, seed
from bench.spawned import spawned
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from bench.working import Drained, crew, wait_for_word
from engine.clock import ServerClock
from engine.config import Config
from engine.model import HttpTarget
from engine.names import HTTP_QUEUE
from engine.roles import worker_services
from engine.store import Store
from engine.store.server import time_ms
from engine.supervisor import run_services
from engine.targets.connections import KEEP_ALIVE_S

CONCURRENCY = 100
WARM_UP = 1_000
"""Requests that a bare loop makes before it is measured."""
HEADERS = {
    "Content-Type": "application/json",
    "Idempotency-Key": "job-000000000000@1800000000000",
    "Waterclock-Job": "job-000000000000",
    "Waterclock-Scheduled-For": "2027-01-15T08:00:00.000Z",
    "Waterclock-Attempt": "1",
    "traceparent": f"00-{'0' * 31}1-{'0' * 15}1-01",
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


@dataclass(frozen=True, slots=True)
class Called:
    """What calls took, in all."""

    seconds: float
    cpu_s: float


async def call_barely(_: asyncio.Event, url: str, count: int) -> Called:
    """Be a process that makes `count` requests with the client library alone; return what they
    took."""
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=10, keepalive_timeout=KEEP_ALIVE_S)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    ) as session:

        async def call(left: Iterator[int]) -> None:
            for _ in left:
                async with session.post(url, data=PAYLOAD, headers=HEADERS) as answer:
                    assert answer.status == 200

        async def call_all(number: int) -> None:
            left = iter(range(number))
            await asyncio.gather(*(call(left) for _ in range(CONCURRENCY)))

        await call_all(WARM_UP)
        started, cpu_started = time.perf_counter(), time.process_time()
        await call_all(count)
        return Called(time.perf_counter() - started, time.process_time() - cpu_started)


async def _bare(url: str, count: int) -> Called:
    with spawned(call_barely, url, count) as process:
        called = await asyncio.to_thread(process.stop)
    assert isinstance(called, Called)
    return called


async def live_as_http_worker(stop: asyncio.Event, config: Config) -> None:
    """Be a worker process as `waterclock worker` is one, from the word to begin until `stop`."""
    async with await Store.open(config) as store:
        await wait_for_word(store, stop)
        clock = ServerClock()
        clock.sample(await time_ms(store.client))
        services = worker_services(store, clock, {HTTP_QUEUE: 1}, CONCURRENCY)
        await run_services(services, stop, config.shutdown_ms)


async def _callbacks(store: Store, url: str, count: int, processes: int) -> Drained:
    """Return what it took worker processes to make `count` callbacks, from stream to history."""
    now = await time_ms(store.client)
    await seed(store, count, now, target=HttpTarget(url), prefix=f"of-{processes}")
    async with crew(store, processes, live_as_http_worker, HTTP_QUEUE) as workers:
        await fire_all(store, count, midnight_after(now))
        return await workers.drain()


async def run(stage: Stage) -> Metrics:
    """Return callbacks a second of one worker process and of two, what one process makes with the
    bare client, and the ratios to that, in time and in CPU time of the calling process."""
    count = stage.size
    async with stage.store(allow_networks="127.0.0.0/8") as store:
        with _server() as url:
            before = await _bare(url, count)
            one = await _callbacks(store, url, count, 1)
            between = await _bare(url, count)
            two = await _callbacks(store, url, count, 2)
            after = await _bare(url, count)
    beside_one, beside_two = _mean(before, between), _mean(between, after)
    bare = _mean(beside_one, beside_two)
    return {
        "callbacks_per_s": count / one.seconds,
        "callbacks_of_two_per_s": count / two.seconds,
        "bare_per_s": count / bare.seconds,
        "ratio": beside_one.seconds / one.seconds,
        "ratio_of_two": beside_two.seconds / two.seconds,
        "cpu_ratio": beside_one.cpu_s / one.worker_cpu_s,
        "python_us_per_callback": one.worker_cpu_s / count * 1e6,
        "bare_python_us_per_call": bare.cpu_s / count * 1e6,
        "redis_us_per_callback": one.server_cpu_s / count * 1e6,
    }


def _mean(one: Called, other: Called) -> Called:
    return Called((one.seconds + other.seconds) / 2, (one.cpu_s + other.cpu_s) / 2)


SCENARIO = Scenario(run, size=30_000, quick_size=5_000)
