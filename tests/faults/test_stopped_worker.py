"""Workers with Python handlers that are frozen, blocked and killed in the middle of their work."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fleet import eventually, history
from seeding import AT_ONCE, QUEUE, registration

from engine.embedded import EmbeddedServer
from engine.execution import Outcome, Record
from engine.model import WorkerTarget
from engine.store import Store
from engine.store.executions import ensure_groups
from engine.store.jobs import create_jobs
from engine.store.server import time_ms

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
LEASE_MS = 600
SLACK_MS = 1_000
"""For a machine that does something else, too."""

WORKER = """
import asyncio, logging, time
from engine import Worker

logging.basicConfig(level=logging.INFO)
worker = Worker(queues=["default"])


@worker.handler()
async def wait(ctx):
    print("began", ctx.deliveries, flush=True)
    try:
        await asyncio.sleep(ctx.payload["seconds"])
        print("ended", ctx.deliveries, flush=True)
    except asyncio.CancelledError:
        print("cancelled", ctx.cancelled, flush=True)
        raise


@worker.handler()
async def block(ctx):
    print("began", ctx.deliveries, flush=True)
    time.sleep(ctx.payload["seconds"])


@worker.handler()
def freeze(ctx):
    print("began", ctx.deliveries, flush=True)
    time.sleep(ctx.payload["seconds"])


@worker.handler()
def hang(ctx):
    print("began", ctx.deliveries, flush=True)
    time.sleep(3600)


worker.main()
"""


class Crew:
    """Starts workers, and lets none outlive the test."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "WATERCLOCK_REDIS_URL": redis_url,
            "WATERCLOCK_EXECUTION_LEASE_MS": str(LEASE_MS),
        }
        self._script = folder / "worker.py"
        self._script.write_text(WORKER)
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, **settings: int) -> Started:
        more = {f"WATERCLOCK_{name.upper()}": str(value) for name, value in settings.items()}
        output = self._folder / f"{len(self._started)}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(self._script)],
                cwd=self._folder,
                env=self._environment | more,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._started.append(process)
        return Started(process, output)

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


class Started:
    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self.process = process
        self._output = output

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    async def says(self, text: str) -> None:
        """Return once its output has this text."""

        async def is_said() -> bool:
            return text in self._output.read_text()

        await eventually(is_said)

    def said(self, text: str) -> int:
        """Return how often its output has this text."""
        return self._output.read_text().count(text)

    async def end(self) -> int:
        """Return the exit code of a process that was told to stop."""
        self.send(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, 20)


@pytest.fixture
def crew(server: EmbeddedServer, tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(server.url, tmp_path)
    yield crew
    crew.close()


async def offer(
    store: Store, handler: str, seconds: float = 0, timeout_ms: int | None = None
) -> None:
    await ensure_groups(store, QUEUE)
    now = await time_ms(store.client)
    made = registration("job-0", AT_ONCE, next_run_at=None, run_at=now)
    target = WorkerTarget(handler, timeout_ms)
    payload = f'{{"seconds":{seconds}}}'.encode()
    await create_jobs(store, [replace(made, job=replace(made.job, target=target, payload=payload))])


async def records(store: Store) -> list[tuple[Outcome, int, int]]:
    """Return (outcome, attempt, deliveries) of what was recorded."""
    found = await history(store, "job-0")
    return [(r.outcome, r.attempt, r.deliveries) for r in found if isinstance(r, Record)]


async def is_recorded(store: Store) -> bool:
    return bool(await records(store))


@pytest.mark.parametrize("handler", ["wait", "freeze"])
async def test_a_worker_that_was_frozen_past_its_lease_records_nothing(
    store: Store, crew: Crew, handler: str
) -> None:
    frozen = crew.start()
    await offer(store, handler, 1.0)
    await frozen.says("began 1")
    frozen.send(signal.SIGSTOP)
    heir = crew.start()
    await heir.says("began 2")
    await eventually(lambda: is_recorded(store))
    frozen.send(signal.SIGCONT)
    await frozen.says("its lease was lost")
    assert await records(store) == [(Outcome.SUCCEEDED, 1, 2)]
    assert await frozen.end() == 0
    assert await heir.end() == 0
    assert await records(store) == [(Outcome.SUCCEEDED, 1, 2)]


@pytest.mark.parametrize("handler", ["block", "freeze"])
async def test_a_handler_that_blocks_for_three_leases_keeps_its_lease(
    store: Store, crew: Crew, handler: str
) -> None:
    blocked, rival = crew.start(), crew.start()
    await offer(store, handler, 3.5 * LEASE_MS / 1000)
    await eventually(lambda: is_recorded(store))
    assert await records(store) == [(Outcome.SUCCEEDED, 1, 1)]
    assert blocked.said("began") + rival.said("began") == 1
    assert [await blocked.end(), await rival.end()] == [0, 0]


async def test_what_a_killed_worker_held_is_taken_over_within_a_lease_and_a_sweep(
    store: Store, crew: Crew
) -> None:
    victim, heir = crew.start(), crew.start()
    await offer(store, "wait", 0.3)

    async def is_begun() -> bool:
        return victim.said("began 1") + heir.said("began 1") == 1

    await eventually(is_begun)
    if heir.said("began 1"):
        victim, heir = heir, victim
    victim.send(signal.SIGKILL)
    killed_at = await time_ms(store.client)
    await eventually(lambda: is_recorded(store))
    [record] = await history(store, "job-0")
    assert isinstance(record, Record)
    assert (record.outcome, record.deliveries) == (Outcome.SUCCEEDED, 2)
    sweep_ms = LEASE_MS / 4
    assert record.started_at - killed_at < LEASE_MS + sweep_ms + SLACK_MS
    assert await heir.end() == 0


async def test_a_function_that_hangs_does_not_keep_the_process_from_ending(
    store: Store, crew: Crew
) -> None:
    worker = crew.start(shutdown_ms=200)
    await offer(store, "hang")
    await worker.says("began 1")
    assert await worker.end() == 0
    assert await records(store) == []
    await worker.says("1 executions cut off")
