"""A deployment that moves while real processes are at work, and an import that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from carrying import busy, content, lines_of
from fleet import eventually, http_job, times_of
from invariants import check_invariants
from seeding import registration
from test_takeover import ROOT, Fleet, Target, end, fleet, readers, target  # noqa: F401

from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.errors import Unusable
from engine.plan import Every, Plan
from engine.store import Store
from engine.store.connection import connect
from engine.store.freezing import freeze
from engine.store.jobs import create_jobs
from engine.store.phase import Phase, read_phase
from engine.store.server import time_ms

pytestmark = pytest.mark.faults

STEP_MS = 500
LEASE = {"execution_lease_ms": 10_000}
"""Long enough that no load of this machine costs a worker its lease."""
JOBS = [f"job-{n}" for n in range(100)]


@pytest.fixture
def there(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "there") as server:
        yield server


@pytest.fixture
async def away(there: EmbeddedServer) -> AsyncIterator[Store]:
    """A deployment of another number of shards, on another server."""
    async with await Store.open(Config(redis_url=there.url, shards=3), even_frozen=True) as store:
        yield store
        await check_invariants(store)


def command(*words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Return `waterclock deployment …`, running."""
    return subprocess.Popen(
        [sys.executable, "-m", "engine", "deployment", *words],
        cwd=ROOT,
        env=os.environ | {"WATERCLOCK_SHARDS": "3"},
        stdin=stdin,
    )


async def called_since(target: Target, at: int) -> None:  # noqa: F811
    """Return when every job was called for a time from `at` on."""

    async def is_called() -> bool:
        seen = {name for name, _, t in (key.partition("@") for key in target.calls) if int(t) >= at}
        return seen == set(JOBS)

    await eventually(is_called, within_s=30)


async def test_no_time_is_missed_or_called_twice_while_a_deployment_moves(
    store: Store,
    server: EmbeddedServer,
    away: Store,
    there: EmbeddedServer,
    fleet: Fleet,  # noqa: F811
    target: Target,  # noqa: F811
) -> None:
    old = [fleet.start("scheduler"), *(fleet.start("worker", **LEASE) for _ in range(2))]
    target.delay_s = 0.2
    at = await time_ms(store.client) + 500
    plan = Plan.of(Every(STEP_MS))
    await create_jobs(store, [http_job(name, target.url, plan, at) for name in JOBS])
    await called_since(target, await time_ms(store.client) + 1_000)

    mover = command("move", "--from", server.url, "--to", there.url, "--yes")
    heirs = Fleet(there.url)
    try:
        assert await asyncio.to_thread(mover.wait, 30) == 0
        moved_at = await time_ms(away.client)
        new = [heirs.start("scheduler"), heirs.start("worker", **LEASE)]
        await called_since(target, moved_at + 1_000)
        assert await end(new[0]) == 0

        async def is_idle() -> bool:
            return not any([(await times_of(away, name)).live for name in JOBS])

        await eventually(is_idle)
        assert await end(new[1]) == 0
    finally:
        heirs.close()

    executions = []
    for name in JOBS:
        times = await times_of(away, name)
        assert (times.missing, times.doubled, times.skipped) == ([], [], []), name
        executions += [f"{name}@{time}" for time in times.succeeded]
    assert sorted(target.calls) == sorted(executions)
    assert target.repeats == 0
    # Those that were left stand still, and end in order.
    assert [process.poll() for process in old] == [None] * 3
    assert [await end(process) for process in old] == [0] * 3
    assert len(executions) == target.calls.total()


async def test_an_import_that_was_killed_is_run_again(
    store: Store, away: Store, there: EmbeddedServer
) -> None:
    await busy(store)
    await create_jobs(store, [registration(f"more-{n}") for n in range(1_000)])
    await freeze(store, Phase.FROZEN)
    lines = await lines_of(store)

    killed = command("import", "-", "--redis-url", there.url, stdin=subprocess.PIPE)
    assert killed.stdin is not None
    # More than a batch: it has been written in part when it stops for more.
    killed.stdin.writelines(lines[:-5])
    killed.stdin.flush()

    async def has_begun() -> bool:
        return any([await away.client.exists(shard.jobs) for shard in away.layout.shards])

    await eventually(has_begun)
    killed.send_signal(signal.SIGKILL)
    killed.stdin.close()
    await asyncio.to_thread(killed.wait)
    assert await read_phase(away.client) is Phase.IMPORTING
    with pytest.raises(Unusable, match="run the import again"):
        await Store.open(away.config)

    again = command("import", "-", "--redis-url", there.url, stdin=subprocess.PIPE)
    await asyncio.to_thread(again.communicate, b"".join(lines))
    assert again.returncode == 0
    assert await content(away) == await content(store)
    async with connect(there.url) as client:
        assert await read_phase(client) is None
