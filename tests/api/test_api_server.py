"""The listener, over real sockets: where it listens, what it lets in, how it stops."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from calling import CRON, refused

from api import jobs
from api.server import serve
from api.wire import MAX_BODY_BYTES
from engine.errors import Unusable
from engine.store import Store
from engine.store.search import Search, search_jobs

REQUEST = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 46\r\nExpect: 100-continue\r\n\r\n"
)
BODY = b'{"job_id": "late", "target":{"type":"worker"}}'


@asynccontextmanager
async def serving(
    store: Store, stop: asyncio.Event, shutdown_ms: int = 10_000
) -> AsyncIterator[tuple[int, asyncio.Task[None]]]:
    """The port of a server that runs, and its task; stopped at the end."""
    config = store.config.model_copy(update={"port": 0, "shutdown_ms": shutdown_ms})
    listening = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(config, stop, store=store, on_listening=listening.set_result))
    try:
        async with asyncio.timeout(10):
            yield await listening, task
            stop.set()
            await task
    finally:
        task.cancel()


async def test_it_tells_its_port_answers_and_stops(store: Store) -> None:
    stop = asyncio.Event()
    before = signal.getsignal(signal.SIGINT)
    async with serving(store, stop) as (port, task):
        # Signals belong to the supervisor.
        assert signal.getsignal(signal.SIGINT) is before
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.post("/v1/jobs", json=CRON)).status_code == 201
        stop.set()
        await task
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
    assert await store.client.ping()


async def test_a_port_in_use_is_refused_with_the_way_out(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = store.config.model_copy(update={"port": port})
        with pytest.raises(Unusable) as refusal:
            await serve(config, asyncio.Event(), store=store)
    wanted = f"port {port} on 127.0.0.1 is in use; choose another with --port"
    assert refusal.value.message == wanted


async def test_an_address_of_another_machine_is_refused(store: Store) -> None:
    config = store.config.model_copy(update={"host": "192.0.2.1", "port": 0})
    with pytest.raises(Unusable, match=r"cannot listen on 192\.0\.2\.1"):
        await serve(config, asyncio.Event(), store=store)


async def test_an_unfit_server_ends_it_and_frees_the_port(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = store.config.model_copy(update={"port": port})
    await store.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Unusable, match="noeviction"):
            await serve(config, asyncio.Event())
    finally:
        await store.client.config_set("maxmemory-policy", "noeviction")
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_a_body_too_large_is_answered_over_a_socket(store: Store) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(2 * MAX_BODY_BYTES // 65_536):
            yield b" " * 65_536

    async with (
        serving(store, asyncio.Event()) as (port, _),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        json = {"Content-Type": "application/json"}
        for body in (b" " * (MAX_BODY_BYTES + 1), chunks()):
            answer = await client.post("/v1/jobs", content=body, headers=json)
            refused(answer, 413, "too_large")
        assert (await client.post("/v1/jobs", json=CRON)).status_code == 201


async def test_a_request_that_runs_is_answered_before_it_stops(store: Store) -> None:
    stop = asyncio.Event()
    async with serving(store, stop) as (port, task):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        stop.set()
        writer.write(BODY)
        await task
        assert b"HTTP/1.1 201 Created\r\n" in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_request_that_does_not_end_is_cut_off_at_the_deadline(store: Store) -> None:
    stop = asyncio.Event()
    async with serving(store, stop, shutdown_ms=0) as (port, task):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        stop.set()
        await task
        writer.close()


async def test_an_unforeseen_error_is_logged_with_its_cause(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the wiring")

    monkeypatch.setattr(jobs, "search_jobs", fail)
    with caplog.at_level(logging.ERROR):
        async with (
            serving(store, asyncio.Event()) as (port, _),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            refused(await client.get("/v1/jobs"), 500, "internal")
    assert "the wiring" in caplog.text


async def test_a_caller_that_hangs_up_in_the_middle_stores_nothing_and_is_no_error(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(store, asyncio.Event()) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
            writer.write(BODY[:-1])
            writer.close()
            await writer.wait_closed()
    assert caplog.text == ""
    assert (await search_jobs(store, Search())) == ([], None)
