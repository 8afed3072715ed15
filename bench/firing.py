"""Fires what is registered: at once in this process, to have executions to measure with; or by a
scheduler process of its own, to measure that."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue

from bench.spawned import Spawned, spawned
from engine.clock import ManualClock, ServerClock
from engine.config import Config
from engine.roles import scheduler_services
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store, leases
from engine.store.server import time_ms
from engine.supervisor import run_services

HOUR_MS = 3_600_000
LEAD_MS = 1_500
"""How long after all processes have started the first jobs are due."""
POLL_S = 0.05

Shift = ctypes.c_int64
"""Memory that processes share."""


async def fire_all(store: Store, count: int, at: int) -> int:
    """Fire `count` jobs that are due at `at` or before, in this process, as if it were `at`; return
    how many fired. The leases are free again when it is done.

    Endless if fewer are due.
    """
    clock = ManualClock(at)
    keeper = ShardKeeper(store, clock, "bench")
    await keeper.step()
    scheduler = Scheduler(store, clock, keeper)
    while scheduler.totals.fired < count:
        await scheduler.step()
    stop = asyncio.Event()
    stop.set()
    await keeper.run(stop)
    return scheduler.totals.fired


class ShiftedClock(ServerClock):
    """The server's time and `shift_ms` more, which is shared with who started this process: it runs
    as time does, but a far midnight can be near."""

    def __init__(self, shift_ms: Shift) -> None:
        super().__init__()
        self._shift_ms = shift_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._shift_ms.value


async def live_as_scheduler(stop: asyncio.Event, config: Config, shift_ms: Shift) -> None:
    """Be a scheduler process, with all of its loops, until `stop`."""
    clock = ShiftedClock(shift_ms)
    async with await Store.open(config) as store:
        await run_services(scheduler_services(store, clock), stop, config.shutdown_ms)


@dataclass(frozen=True, slots=True)
class Firing:
    """A scheduler process that holds all shards. Until `begin` its clock is an hour before the time
    at which jobs are due, so that nothing fires while others start."""

    store: Store
    process: Spawned
    due_at: int
    shift: Shift

    async def begin(self) -> int:
        """Set the clock to LEAD_MS before the due time; return that, by the server's clock."""
        begin_at = await time_ms(self.store.client) + LEAD_MS
        self.shift.value = self.due_at - begin_at
        return begin_at


@asynccontextmanager
async def firing_at(store: Store, due_at: int) -> AsyncIterator[Firing]:
    """Run a scheduler process; yield it once it holds all shards."""
    shift = RawValue(ctypes.c_int64, due_at - HOUR_MS - await time_ms(store.client))
    with spawned(live_as_scheduler, store.config, shift) as process:
        while not all(name for name, _ in await leases.read_holders(store)):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        yield Firing(store, process, due_at, shift)


async def sleep_until(store: Store, at: int) -> None:
    """Return at a time of the server's clock, or at once if it is past."""
    await asyncio.sleep(max(0, at - await time_ms(store.client)) / 1000)


async def counts(store: Store, queue: str) -> tuple[int, int]:
    """Return how many entries a queue's streams hold, and how many they were ever given."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xinfo_stream(shard.ready(queue))
    # A stream that is not there yet answers with an error.
    found = [one for one in await pipe.execute(raise_on_error=False) if isinstance(one, dict)]
    return sum(one["length"] for one in found), sum(one["entries-added"] for one in found)


async def added(store: Store, queue: str) -> int:
    """Return how many entries a queue's streams were ever given."""
    return (await counts(store, queue))[1]


async def last_added_at(store: Store, queue: str) -> int:
    """Return the server's time at which a queue was given its newest entry that is still there."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xrevrange(shard.ready(queue), count=1)
    return max(int(one[0][0].partition(b"-")[0]) for one in await pipe.execute() if one)
