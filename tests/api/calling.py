"""What the API's tests call: the application over the test's own store, while time stands still.

Test modules take the fixtures by name: `client = calling.client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conforming import check_answer
from invariants import Keyspace, read_shard

from api.app import create_app
from engine.clock import ManualClock, SampledClock
from engine.config import Config
from engine.store import Store

NOW = 1_800_000_000_000
NOW_TEXT = "2027-01-15T08:00:00.000Z"
MINUTE = 60_000

SECRET = "s3cret"
CRON: dict[str, Any] = {
    "job_id": "report",
    "schedule_expr": "0 9 * * *",
    "timezone": "Asia/Tokyo",
    "target": {"type": "http", "url": f"https://example.com/hook?key={SECRET}"},
}
"""A job that fires each day at nine in Tokyo, midnight UTC."""
AT_ONCE: dict[str, Any] = {"job_id": "mail", "target": {"type": "worker"}, "payload": {"to": "me"}}
"""A job for workers, which runs once, at once."""

Read = Callable[[], Awaitable[list[Keyspace]]]


@asynccontextmanager
async def calling(
    config: Config, store: Store | None = None, clock: SampledClock | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that is started, without a socket between them."""
    app = create_app(config, store, clock)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            event_hooks={"response": [check_answer]},
        ) as client,
    ):
        yield client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def client(store: Store, clock: ManualClock) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(store.config, store, clock) as client:
        yield client


@pytest.fixture
def keyspace(store: Store) -> Read:
    """Return a function that reads all that the store holds."""

    async def read() -> list[Keyspace]:
        return [await read_shard(store, shard) for shard in store.layout.shards]

    return read


async def create(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """Return the job that was created."""
    answer = await client.post("/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


async def claim(client: httpx.AsyncClient, worker: str = "w1") -> dict[str, Any]:
    """Return what was handed to the worker."""
    answer = await client.post("/internal/executions/claim", json={"worker": worker})
    assert answer.status_code == 200, answer.text
    claimed: dict[str, Any] = answer.json()
    return claimed


async def claims(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    """Return what a claim of several was answered."""
    answer = await client.post(
        "/internal/executions/claim", json={"worker": "w1", "max": 100, **body}
    )
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def job_ids(found: list[dict[str, Any]]) -> list[str]:
    return [claimed["job_id"] for claimed in found]


async def create_many(
    client: httpx.AsyncClient, count: int, name: str = "mail", **more: Any
) -> None:
    for n in range(count):
        await create(client, {**AT_ONCE, **more, "job_id": f"{name}-{n}"})


async def let_lease_run_out(store: Store, stream: str = "default") -> None:
    """Make what w1 holds of the job `mail` as old as its lease: the server's clock is real."""
    ready = store.layout.shard_of("mail").ready(stream)
    [row] = await store.client.xpending_range(ready, "workers", "-", "+", 1)
    entry = [row["message_id"]]
    await store.client.xclaim(ready, "workers", "w1", 0, entry, idle=10_000, justid=True)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Return the problem that an answer must be."""
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert problem["type"] == "about:blank"
    assert problem["detail"]
    return problem


def version_of(answer: httpx.Response) -> int:
    """Return the version that an answer's ETag begins with."""
    return int(answer.headers["etag"].strip('"').partition(".")[0])


def pointers(problem: dict[str, Any]) -> list[str]:
    """Return where the faults of a problem lie."""
    return sorted(fault["pointer"] for fault in problem["errors"])


async def eventually(what: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so: for what happens in another process, or in the background."""
    async with asyncio.timeout(10):
        while not await what():  # noqa: ASYNC110 nothing here could set an event
            await asyncio.sleep(0.005)
