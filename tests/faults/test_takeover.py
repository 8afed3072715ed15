"""Real processes that are killed, frozen and told to stop in the middle of their work.

A fleet runs against one server and calls one target, which notes the idempotency key of each call.
What holds at the end, whatever was done to the fleet: each nominal time of each job has one
execution, recorded once, and its target was called.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fleet import LOOPBACK, eventually, fired, history, http_job, times_of

from engine.embedded import EmbeddedServer
from engine.execution import Outcome, Record
from engine.model import JobState
from engine.plan import Every, Immediate, Plan
from engine.registration import Registration
from engine.store import Store
from engine.store.jobs import create_jobs, get_job
from engine.store.leases import read_holders
from engine.store.server import time_ms

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
LEASE_MS = 1_000
EVERY_SECOND = Plan.of(Every(1_000))
JOBS = [f"job-{n}" for n in range(200)]

Process = subprocess.Popen[bytes]


class Fleet:
    """Starts processes, and lets none outlive the test."""

    def __init__(self, redis_url: str) -> None:
        self._environment = {
            **os.environ,
            "WATERCLOCK_REDIS_URL": redis_url,
            "WATERCLOCK_LEASE_TTL_MS": str(LEASE_MS),
            "WATERCLOCK_EXECUTION_LEASE_MS": str(LEASE_MS),
            "WATERCLOCK_ALLOW_NETWORKS": LOOPBACK,
        }
        self._processes: list[Process] = []

    def start(self, role: str, **settings: int) -> Process:
        """Return a process of this role."""
        more = {f"WATERCLOCK_{name.upper()}": str(value) for name, value in settings.items()}
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", role], cwd=ROOT, env=self._environment | more
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def fleet(server: EmbeddedServer) -> Iterator[Fleet]:
    fleet = Fleet(server.url)
    yield fleet
    fleet.close()


class Target:
    """What the jobs call. It takes `delay_s` for each call, and counts calls by execution."""

    def __init__(self) -> None:
        self.url = ""
        self.delay_s = 0.05
        self.calls: Counter[str] = Counter()
        self.open = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.calls[request.headers["Idempotency-Key"]] += 1
        self.open += 1
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.open -= 1
        return web.Response()

    @property
    def repeats(self) -> int:
        return self.calls.total() - len(self.calls)


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    target = Target()
    app = web.Application()
    app.router.add_post("/", target.answer)
    async with TestServer(app) as server:
        target.url = str(server.make_url("/"))
        yield target


async def start_jobs(store: Store, target: Target) -> None:
    at = await time_ms(store.client) + 300
    await create_jobs(store, [http_job(name, target.url, EVERY_SECOND, at) for name in JOBS])


async def holders(store: Store) -> list[str | None]:
    return [holder for holder, _ in await read_holders(store)]


async def spread(store: Store) -> bool:
    """Return whether two schedulers have half of the shards each."""
    held = Counter(await holders(store))
    return sorted(held.values()) == [2, 2] and None not in held


async def readers(store: Store) -> int:
    """Return how many workers wait for work. Redis 7.0 lists a consumer only once it got some."""
    return sum(client["cmd"] == "xreadgroup" for client in await store.client.client_list())


async def start_fleet(fleet: Fleet, store: Store, workers: int = 2) -> list[Process]:
    """Return two schedulers and some workers that are at work."""
    started = [fleet.start("scheduler") for _ in range(2)]
    started += [fleet.start("worker") for _ in range(workers)]

    async def is_up() -> bool:
        return await spread(store) and await readers(store) == workers

    await eventually(is_up)
    return started


async def called_until(store: Store, target: Target, at: int) -> None:
    """Return when every job has been called for a time from `at` on."""
    anchor = (await get_job(store, JOBS[0])).job.anchor_at
    wanted = anchor + -(-(at - anchor) // 1_000) * 1_000

    async def is_called() -> bool:
        return all(f"{name}@{wanted}" in target.calls for name in JOBS)

    await eventually(is_called)


async def end(process: Process, number: int = signal.SIGTERM) -> int:
    """Return the exit code of a process that was sent a signal."""
    process.send_signal(number)
    return await asyncio.to_thread(process.wait, 10)


async def wind_down(store: Store, schedulers: list[Process], workers: list[Process]) -> None:
    """Stop firing, let the workers finish, and stop them; each process ends in order."""
    assert [await end(process) for process in schedulers] == [0] * len(schedulers)

    async def is_idle() -> bool:
        return not any([(await get_job(store, name)).live for name in JOBS])

    await eventually(is_idle)
    assert [await end(process) for process in workers] == [0] * len(workers)


async def check_promise(store: Store, target: Target) -> int:
    """Assert that each nominal time has one execution, recorded once, with its effect; return how
    many there are."""
    executions: list[str] = []
    for name in JOBS:
        times = await times_of(store, name)
        assert (times.missing, times.doubled, times.skipped, times.live) == ([], [], [], [])
        executions += [f"{name}@{at}" for at in times.succeeded]
    assert sorted(await fired(store)) == sorted(executions)
    assert target.calls.keys() == set(executions)
    return len(executions)


async def deliveries(store: Store, job_id: str) -> list[tuple[Outcome, int, int]]:
    """Return (outcome, attempt, deliveries) of a job's records."""
    found = await history(store, job_id)
    return [(r.outcome, r.attempt, r.deliveries) for r in found if isinstance(r, Record)]


async def test_nothing_is_lost_or_doubled_when_a_scheduler_and_a_worker_are_killed(
    store: Store, fleet: Fleet, target: Target
) -> None:
    target.delay_s = 0.3
    victim, scheduler, prey, worker = await start_fleet(fleet, store)
    await start_jobs(store, target)
    await called_until(store, target, await time_ms(store.client) + 1_000)

    await end(victim, signal.SIGKILL)

    async def is_busy() -> bool:
        return target.open > 100  # more than one worker runs: both are in the middle of calls

    await eventually(is_busy)
    await end(prey, signal.SIGKILL)
    await called_until(store, target, await time_ms(store.client) + 2 * LEASE_MS)
    assert len(set(await holders(store))) == 1
    await wind_down(store, [scheduler], [worker])

    assert await check_promise(store, target) >= 4 * len(JOBS)
    again = [n for name in JOBS for _, _, n in await deliveries(store, name) if n > 1]
    assert 0 < target.repeats <= len(again)


async def test_a_scheduler_that_was_frozen_past_its_leases_doubles_nothing(
    store: Store, fleet: Fleet, target: Target
) -> None:
    frozen, scheduler, worker = await start_fleet(fleet, store, workers=1)
    await start_jobs(store, target)
    await called_until(store, target, await time_ms(store.client))

    frozen.send_signal(signal.SIGSTOP)

    async def is_taken_over() -> bool:
        return None not in await holders(store) and len(set(await holders(store))) == 1

    await eventually(is_taken_over)
    await called_until(store, target, await time_ms(store.client))
    frozen.send_signal(signal.SIGCONT)
    await eventually(lambda: spread(store))
    await called_until(store, target, await time_ms(store.client) + 1_000)
    await wind_down(store, [frozen, scheduler], [worker])

    assert await check_promise(store, target) >= 4 * len(JOBS)
    assert target.repeats == 0


async def start_slow_call(store: Store, target: Target) -> None:
    """Return when a call is open that takes a while."""
    now = await time_ms(store.client)
    made = http_job("slow", target.url, Plan.of(Immediate()), now)
    job = replace(made.job, next_run_at=None, state=JobState.COMPLETED)
    await create_jobs(store, [Registration(job, made.plan, now)])

    async def is_open() -> bool:
        return target.open == 1

    await eventually(is_open)


async def test_a_worker_that_is_told_to_stop_ends_its_call_first(
    store: Store, fleet: Fleet, target: Target
) -> None:
    target.delay_s = 1.5
    worker = fleet.start("worker")
    await start_slow_call(store, target)
    assert await end(worker) == 0
    assert await deliveries(store, "slow") == [(Outcome.SUCCEEDED, 1, 1)]
    assert target.calls.total() == 1
    assert await readers(store) == 0


async def test_a_call_that_outlasts_the_deadline_is_made_again_by_another_worker(
    store: Store, fleet: Fleet, target: Target
) -> None:
    target.delay_s = 1.5
    hasty = fleet.start("worker", shutdown_ms=100)
    await start_slow_call(store, target)
    heir = fleet.start("worker")
    assert await end(hasty) == 0
    assert await deliveries(store, "slow") == []
    await eventually(lambda: is_recorded(store))
    assert await deliveries(store, "slow") == [(Outcome.SUCCEEDED, 1, 2)]
    assert [*target.calls.values()] == [2]
    assert await end(heir) == 0


async def is_recorded(store: Store) -> bool:
    return bool(await deliveries(store, "slow"))


async def test_a_worker_that_was_frozen_past_its_lease_records_nothing(
    store: Store, fleet: Fleet, target: Target
) -> None:
    target.delay_s = 1.5
    frozen = fleet.start("worker")
    await start_slow_call(store, target)
    frozen.send_signal(signal.SIGSTOP)
    heir = fleet.start("worker")
    await eventually(lambda: is_recorded(store))
    frozen.send_signal(signal.SIGCONT)
    assert await end(frozen) == 0
    assert await end(heir) == 0
    assert await deliveries(store, "slow") == [(Outcome.SUCCEEDED, 1, 2)]
    assert [*target.calls.values()] == [2]
