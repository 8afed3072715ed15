"""register: jobs stored by single POSTs, in bulk and directly, beside a bare endpoint."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.server import listen, serve, serve_app
from bench.seeding import seed
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from engine.config import Config
from engine.store.connection import connect
from engine.store.server import time_ms

CONNECTIONS = 64
BARE_SCRIPT = "return redis.call('SET', KEYS[1], ARGV[1])"
_AS_THE_API: dict[str, Any] = {"http": "httptools", "server_header": False, "proxy_headers": False}


def _job(job_id: str) -> bytes:
    target = {"type": "http", "url": "https://example.com/hook"}
    body = {"job_id": job_id, "schedule_expr": "0 0 * * *", "target": target}
    return json.dumps({**body, "payload": json.loads(PAYLOAD)}).encode()


def _head(path: str, media_type: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media_type}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


# Servers, each in a process of its own


def _serve_api(config: Config) -> None:
    uvloop.run(serve(config, asyncio.Event()))


def _serve_bare(config: Config) -> None:
    uvloop.run(_bare(config))


async def _bare(config: Config) -> None:
    """Answer each POST with what a script stored: the least that a store behind HTTP does."""
    async with connect(config.redis_url) as client:
        sha = await client.script_load(BARE_SCRIPT)

        async def create(request: Request) -> Response:
            body = await request.body()
            await client.evalsha(sha, 1, "bare", body)
            return Response(body, 201, media_type="application/json")

        app = Starlette(routes=[Route("/v1/jobs", create, methods=["POST"])])
        with listen(config.host, config.port) as listener:
            await serve_app(app, listener, asyncio.Event(), **_AS_THE_API)


@asynccontextmanager
async def _served(life: Callable[[Config], None], config: Config) -> AsyncIterator[int]:
    """Run a server in a process; yield its port once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    given = config.model_copy(update={"port": port})
    process = multiprocessing.get_context("spawn").Process(target=life, args=(given,), daemon=True)
    process.start()
    try:
        while not await _is_up(port):  # noqa: ASYNC110 nothing here could set an event
            await asyncio.sleep(0.05)
        yield port
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


async def _is_up(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


# Load


class _Posting(asyncio.Protocol):
    """Sends request after request on one connection, each when the one before was answered."""

    def __init__(self, requests: Iterator[bytes], answered: asyncio.Queue[int]) -> None:
        self._requests, self._answered = requests, answered
        self._begun = bytearray()
        self._count = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            self._answered.put_nowait(self._count)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._begun += data
        end = self._begun.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._begun[:end]).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(self._begun) < end + 4 + length:
            return
        if not head.startswith(b"http/1.1 201"):
            self._transport.close()
            self._answered.put_nowait(self._count)
            return
        self._begun.clear()
        self._count += 1
        self._send()


async def _post(port: int, count: int, prefix: str) -> float:
    """Return POSTs a second over connections that stay open."""
    bodies = (_job(f"{prefix}-{n:012x}") for n in range(count))
    head = _head("/v1/jobs", "application/json", len(_job(f"{prefix}-{0:012x}")))
    requests = iter([head + body for body in bodies])
    answered: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: _Posting(requests, answered), "127.0.0.1", port)
    done = sum([await answered.get() for _ in range(CONNECTIONS)])
    if done < count:
        raise RuntimeError(f"{count - done} of {count} POSTs did not create a job")
    return count / (time.perf_counter() - started)


async def _bulk(port: int, lines: Iterable[bytes]) -> float:
    """Return lines a second of one request, its answer read while it is sent."""
    sent = [*lines]
    body = b"\n".join(sent) + b"\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.perf_counter()

    async def send() -> None:
        writer.write(_head("/v1/jobs/bulk", "application/x-ndjson", len(body)))
        for first in range(0, len(body), 1 << 18):
            writer.write(body[first : first + (1 << 18)])
            await writer.drain()

    sending = asyncio.create_task(send())
    assert b" 200 " in await reader.readline()
    created = 0
    while created < len(sent) and (data := await reader.read(1 << 18)):
        created += data.count(b'"status":201')
    await sending
    writer.close()
    return created / (time.perf_counter() - started)


async def run(stage: Stage) -> Metrics:
    """Return jobs stored a second: one API process asked by single POSTs and in bulk, and a process
    that stores them itself; and the ratio of the POSTs to a bare endpoint's."""
    count, config = stage.size, stage.config()
    posts = max(count // 10, CONNECTIONS)
    async with _served(_serve_bare, config) as bare_port, _served(_serve_api, config) as port:
        for at in (bare_port, port):
            await _post(at, CONNECTIONS, "warm")
        before = await _post(bare_port, posts, "bare")
        posts_per_s = await _post(port, posts, "post")
        bare_per_s = (before + await _post(bare_port, posts, "bare")) / 2
        bulk_per_s = await _bulk(port, (_job(f"bulk-{n:012x}") for n in range(count)))
    async with stage.store() as store:
        direct_per_s = await seed(store, count, await time_ms(store.client))
    return {
        "posts_per_s": posts_per_s,
        "bare_posts_per_s": bare_per_s,
        "ratio": posts_per_s / bare_per_s,
        "bulk_jobs_per_s": bulk_per_s,
        "direct_jobs_per_s": direct_per_s,
    }


SCENARIO = Scenario(run, size=200_000, quick_size=30_000)
