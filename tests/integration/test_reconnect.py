"""A server that goes away and comes back, under the services of a whole fleet: nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fleet import LOOPBACK, eventually, http_job, times_of
from invariants import check_invariants

from engine.clock import ServerClock
from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.model import Overlap
from engine.plan import Every, Misfire, Plan
from engine.registration import Registration
from engine.roles import scheduler_services, worker_services
from engine.store import Store
from engine.store.jobs import create_jobs
from engine.store.server import time_ms
from engine.supervisor import run_services

EVERY_MS = 100
OUTAGE_S = 0.7

EVERY_TIME = Plan.of(Every(EVERY_MS))
"""Catches up with every time that an outage delayed."""
LATEST_ONLY = Plan.of(Every(EVERY_MS), Misfire("fire_once", grace_ms=200))


@pytest.fixture
async def calls() -> AsyncIterator[tuple[str, Counter[str]]]:
    """The URL of a target, and how often it was called for each execution."""
    seen: Counter[str] = Counter()

    async def note(request: web.Request) -> web.Response:
        seen[request.headers["Idempotency-Key"]] += 1
        return web.Response()

    app = web.Application()
    app.router.add_post("/", note)
    async with TestServer(app) as server:
        yield str(server.make_url("/")), seen


def jobs(url: str, at: int) -> list[Registration]:
    """Return ten jobs that want every time, and ten that want the latest one."""
    return [http_job(f"job-{n}", url, EVERY_TIME, at) for n in range(10)] + [
        http_job(f"job-{n}", url, LATEST_ONLY, at, Overlap.SKIP) for n in range(10, 20)
    ]


@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_every_due_time_is_fired_or_recorded_across_an_outage(
    tmp_path: Path, calls: tuple[str, Counter[str]], ending: str
) -> None:
    url, seen = calls
    with EmbeddedServer(tmp_path / "data") as server:
        config = Config(
            redis_url=server.url,
            shards=4,
            lease_ttl_ms=400,
            execution_lease_ms=500,
            history_limit=10_000,
            allow_networks=LOOPBACK,
        )
        async with await Store.open(config) as store:
            now = await time_ms(store.client)
            clock = ServerClock()
            services = [
                *worker_services(store, clock, {"http": 1}, concurrency=20),
                *scheduler_services(store, clock),
            ]
            stop = asyncio.Event()
            running = asyncio.create_task(run_services(services, stop, deadline_ms=5_000))
            await create_jobs(store, jobs(url, now))
            await eventually(lambda: is_past(seen, now + 300))

            if ending == "killed":
                os.kill(server.pid, signal.SIGKILL)
            await asyncio.to_thread(server.stop)
            gone_at = time.monotonic()
            await eventually(lambda: has_passed(gone_at + OUTAGE_S))
            assert not running.done()
            await asyncio.to_thread(server.start)

            back_at = await time_ms(store.client)
            await eventually(lambda: is_past(seen, back_at + 300))
            stop.set()
            await running

            skipped = 0
            for n in range(20):
                times = await times_of(store, f"job-{n}")
                assert (times.missing, times.doubled) == ([], [])
                assert {f"job-{n}@{at}" for at in times.succeeded} <= seen.keys()
                assert n >= 10 or times.skipped == []
                skipped += len(times.skipped)
            assert skipped >= 10 * (OUTAGE_S * 1000 - 200) // EVERY_MS / 2
            await check_invariants(store)


async def is_past(seen: Counter[str], at: int) -> bool:
    """Return whether every job was called for a nominal time after `at`."""
    newest: dict[str, int] = {}
    for execution_id in seen:
        job_id, _, nominal_at = execution_id.partition("@")
        newest[job_id] = max(newest.get(job_id, 0), int(nominal_at))
    return len(newest) == 20 and min(newest.values()) > at


async def has_passed(moment: float) -> bool:
    return time.monotonic() >= moment
