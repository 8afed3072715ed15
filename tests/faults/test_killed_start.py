"""Starts of the deployment with real processes: who begins, who joins, who is killed on the way,
and a server that comes back."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
from fleet import eventually, history
from invariants import check_invariants
from seeding import QUEUE, registration
from test_takeover import LEASE_MS, Fleet, end, fleet, spread  # noqa: F401

from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.execution import SkipReason, SkipRecord
from engine.keys import SCHEDULERS
from engine.model import Overlap
from engine.plan import Plan, Reboot, wait_from
from engine.store import Store
from engine.store.jobs import create_jobs
from engine.store.leases import read_starts
from engine.store.server import time_ms

pytestmark = pytest.mark.faults

AT_START = Plan.of(Reboot())
MANY = 3_000


async def register(store: Store, count: int, since: int) -> None:
    """Store jobs that fire at each start of the deployment after `since`."""
    jobs = [
        registration(f"job-{n}", AT_START, next_run_at=wait_from(since), overlap=Overlap.ALLOW)
        for n in range(count)
    ]
    for first in range(0, count, 500):
        await create_jobs(store, jobs[first : first + 500])


async def count_offered(store: Store) -> int:
    return sum([await store.client.xlen(shard.ready(QUEUE)) for shard in store.layout.shards])


async def offered(store: Store) -> Counter[str]:
    """Return how often each execution is in a stream; nobody takes any out."""
    found: Counter[str] = Counter()
    for shard in store.layout.shards:
        entries = await store.client.xrange(shard.ready(QUEUE))
        found.update(fields[b"execution_id"].decode() for _, fields in entries)
    return found


def each_once(count: int, *starts: int) -> Counter[str]:
    return Counter(f"job-{n}@{at}" for n in range(count) for at in starts)


async def wait_for(store: Store, count: int) -> None:
    """Return once so many executions are offered."""

    async def is_there() -> bool:
        return await count_offered(store) >= count

    await eventually(is_there, 30)


async def test_a_start_fires_once_whoever_joins_and_once_more_when_all_begin_again(
    store: Store,
    fleet: Fleet,  # noqa: F811
) -> None:
    await register(store, 20, await time_ms(store.client) - 1)
    first = fleet.start("scheduler")
    await wait_for(store, 20)
    second = fleet.start("scheduler")

    async def both_hold() -> bool:
        return await spread(store)

    await eventually(both_hold)
    assert await end(first) == 0
    third = fleet.start("scheduler")
    await eventually(both_hold)
    [start_at] = await read_starts(store)
    assert await offered(store) == each_once(20, start_at)
    assert [await end(process) for process in (second, third)] == [0, 0]
    last = fleet.start("scheduler")
    await wait_for(store, 40)
    starts = await read_starts(store)
    assert len(starts) == 2
    assert await offered(store) == each_once(20, *starts)
    assert await end(last) == 0


async def test_a_scheduler_killed_in_the_middle_of_a_start_leaves_the_rest_to_the_other(
    store: Store,
    fleet: Fleet,  # noqa: F811
) -> None:
    victim, heir = (fleet.start("scheduler", batch=2) for _ in range(2))

    async def both_hold() -> bool:
        return await spread(store)

    await eventually(both_hold)
    [start_at] = await read_starts(store)
    await register(store, MANY, start_at - 1)
    await wait_for(store, 200)
    await end(victim, signal.SIGKILL)
    assert 0 < await count_offered(store) < MANY, "the kill comes too late to say anything"
    await wait_for(store, MANY)
    assert await read_starts(store) == [start_at]
    assert await offered(store) == each_once(MANY, start_at)
    assert await end(heir) == 0


async def test_a_start_cut_short_by_the_death_of_all_is_accounted_for_at_the_next(
    store: Store,
    fleet: Fleet,  # noqa: F811
) -> None:
    await register(store, MANY, await time_ms(store.client) - 1)
    victim = fleet.start("scheduler", batch=2)
    await wait_for(store, 200)
    await end(victim, signal.SIGKILL)
    before = await offered(store)
    assert 0 < before.total() < MANY, "the kill comes too late to say anything"

    async def is_gone() -> bool:
        alive = await store.client.zcount(SCHEDULERS, await time_ms(store.client), "+inf")
        return bool(alive == 0)

    await eventually(is_gone)
    heir = fleet.start("scheduler")
    await wait_for(store, before.total() + MANY)
    first, second = await read_starts(store)
    assert await offered(store) == before + each_once(MANY, second)
    assert before == before & each_once(MANY, first)
    late = SkipRecord(first, first, 1, SkipReason.LATE)
    for n in range(0, MANY, 100):
        fired = f"job-{n}@{first}" in before
        assert await history(store, f"job-{n}") == ([] if fired else [late])
    assert await end(heir) == 0


async def test_a_server_that_comes_back_under_its_schedulers_is_no_start(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "data")
    server.start()
    fleet = Fleet(server.url)  # noqa: F811
    try:
        async with await Store.open(Config(redis_url=server.url, shards=4)) as store:
            await register(store, 20, await time_ms(store.client) - 1)
            fleet.start("scheduler")
            await wait_for(store, 20)
        await asyncio.to_thread(server.stop)
        # Longer than a scheduler counts as alive.
        await asyncio.sleep(1.5 * LEASE_MS / 1000)
        await asyncio.to_thread(server.start)
        async with await Store.open(Config(redis_url=server.url, shards=4)) as store:
            late = registration("job-20", AT_START, next_run_at=wait_from(0))
            await create_jobs(store, [late])
            # It fires for the one start that there was: the scheduler is at work again.
            await wait_for(store, 21)
            [start_at] = await read_starts(store)
            assert await offered(store) == each_once(21, start_at)
            await check_invariants(store)
    finally:
        fleet.close()
        server.stop()
