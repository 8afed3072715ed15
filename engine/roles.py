"""What a process is made of: the loops of a scheduler, and those of a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from engine import __version__
from engine.backfiller import Backfiller
from engine.clock import SampledClock
from engine.errors import Unusable
from engine.loop import keep_stepping
from engine.reclaimer import Reclaimer
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.server import check_server, time_ms
from engine.store.snapshot import read_calendars
from engine.supervisor import Service
from engine.targets.http import HttpRunner
from engine.worker import Worker, new_consumer_name

log = logging.getLogger("waterclock.server")

CHECK_MS = 60_000
SAMPLE_MS = 1_000


class ServerWatch:
    """Looks after what is known of the server.

    1. Keeps the process's clock on the server's time.
    2. Keeps the process's calendars as the server has them.
    3. Looks each minute whether the server is still fit: a policy that evicts keys can be set while
       it runs. It says so, again and again, and goes on: to stop would not keep a key.
    """

    name = "server-watch"

    def __init__(self, store: Store, clock: SampledClock) -> None:
        self._store = store
        self._clock = clock
        self._check_at = clock.monotonic_ms() + CHECK_MS

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Take the server's time and calendars; return the ms until the next look."""
        self._clock.sample(await time_ms(self._store.client))
        await read_calendars(self._store)
        if self._clock.monotonic_ms() >= self._check_at:
            self._check_at = self._clock.monotonic_ms() + CHECK_MS
            try:
                await check_server(self._store.client)
            except Unusable as error:
                log.error("%s", error)
        return SAMPLE_MS


def scheduler_services(store: Store, clock: SampledClock) -> list[Service]:
    """Return what a scheduler process runs, in the order of starting."""
    return [ServerWatch(store, clock), *_scheduler_loops(store, clock)]


def worker_services(
    store: Store, clock: SampledClock, queues: Sequence[str], concurrency: int
) -> list[Service]:
    """Return what a worker process runs, in the order of starting."""
    return [ServerWatch(store, clock), *_worker_loops(store, clock, queues, concurrency)]


def all_services(
    store: Store, clock: SampledClock, queues: Sequence[str], concurrency: int
) -> list[Service]:
    """Return what a process runs that is scheduler and worker in one, in the order of starting."""
    worker_loops = _worker_loops(store, clock, queues, concurrency)
    return [ServerWatch(store, clock), *worker_loops, *_scheduler_loops(store, clock)]


def _scheduler_loops(store: Store, clock: SampledClock) -> list[Service]:
    """Stopped in reverse: firing ends before leases go back."""
    keeper = ShardKeeper(store, clock, new_consumer_name())
    return [keeper, Scheduler(store, clock, keeper), Backfiller(store, clock, keeper)]


def _worker_loops(
    store: Store, clock: SampledClock, queues: Sequence[str], concurrency: int
) -> list[Service]:
    """Stopped in reverse: nothing is taken over while the worker drains."""
    worker = Worker(store, clock, queues, lambda: HttpRunner(__version__), concurrency=concurrency)
    return [worker, Reclaimer(store, clock, worker)]
