"""What a process is made of: the loops of a scheduler, and those of a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from engine import __version__
from engine.announcer import Announcer
from engine.backfiller import Backfiller
from engine.clock import SampledClock
from engine.codec import Promise, dump_promise
from engine.config import Config
from engine.errors import Unusable
from engine.execution import Delivery
from engine.gatekeeper import Gatekeeper
from engine.loop import keep_stepping
from engine.reclaimer import Reclaimer
from engine.relay import Relay
from engine.replanner import Replanner
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.processes import Role
from engine.store.reports import LONGEST_PROMISE_MS, signing_key
from engine.store.server import check_server, time_ms
from engine.store.snapshot import read_calendars
from engine.supervisor import Service
from engine.sweeper import Sweeper
from engine.targets import Runner, time_allowed
from engine.targets.dispatch import Dispatch
from engine.targets.http import HttpRunner
from engine.targets.shell import ShellRunner
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
    store: Store, clock: SampledClock, queues: Mapping[str, int], concurrency: int
) -> list[Service]:
    """Return what a worker process runs, in the order of starting. `queues` have weights."""
    return [ServerWatch(store, clock), *_worker_loops(store, clock, queues, concurrency)]


def worker_loops(store: Store, clock: SampledClock, worker: Worker) -> list[Service]:
    """Return what a process runs around a worker that somebody else has made."""
    return [ServerWatch(store, clock), *_with_reclaimer(store, clock, worker)]


def all_services(
    store: Store, clock: SampledClock, queues: Mapping[str, int], concurrency: int
) -> list[Service]:
    """Return what a process runs that is scheduler and worker in one, in the order of starting."""
    worker_loops = _worker_loops(store, clock, queues, concurrency)
    return [ServerWatch(store, clock), *worker_loops, *_scheduler_loops(store, clock)]


def _scheduler_loops(store: Store, clock: SampledClock) -> list[Service]:
    """Stopped in reverse: firing ends before leases go back."""
    keeper = ShardKeeper(store, clock, new_consumer_name())
    return [
        Announcer(store, clock, Role.SCHEDULER, keeper.holder),
        keeper,
        Scheduler(store, clock, keeper),
        Backfiller(store, clock, keeper),
        Gatekeeper(store, clock, keeper),
        Relay(store, clock, keeper),
        Replanner(store, clock, keeper),
        Sweeper(store, clock, keeper),
    ]


def _worker_loops(
    store: Store, clock: SampledClock, queues: Mapping[str, int], concurrency: int
) -> list[Service]:
    runner = _runner(store, clock)
    worker = Worker(store, clock, queues, lambda: runner, concurrency=concurrency)
    return _with_reclaimer(store, clock, worker)


def _with_reclaimer(store: Store, clock: SampledClock, worker: Worker) -> list[Service]:
    """Stopped in reverse: nothing is taken over while the worker drains."""
    announcer = Announcer(
        store,
        clock,
        Role.WORKER,
        worker.consumer,
        queues=worker.queues,
        concurrency=worker.concurrency,
        running=lambda: worker.running,
    )
    return [announcer, worker, Reclaimer(store, clock, worker)]


def _runner(store: Store, clock: SampledClock) -> Dispatch:
    """Return what makes the attempts of the engine's own workers."""

    async def http() -> HttpRunner:
        key = await signing_key(store)

        def callback_url(delivery: Delivery) -> str:
            return _callback_url(store.config, delivery, clock.now_ms(), key)

        guard = store.config.guard()
        return HttpRunner(
            __version__, guard=guard, clock=clock, callback_url=callback_url, store=store
        )

    async def shell() -> ShellRunner:
        return ShellRunner()

    makers: dict[str, Callable[[], Awaitable[Runner]]] = {"http": http}
    if store.config.allow_shell:
        makers["shell"] = shell
    return Dispatch(makers)


def _callback_url(config: Config, delivery: Delivery, now: int, key: bytes) -> str:
    """Return where a target reports on an attempt that begins now: good until the execution's
    deadline, and no longer than a promise may be."""
    allowed_ms, _ = time_allowed(delivery, LONGEST_PROMISE_MS, now)
    promise = Promise(delivery.execution_id, delivery.attempt, now, now + allowed_ms)
    base = (config.public_url or config.api_url).rstrip("/")
    return f"{base}/v1/callbacks/{dump_promise(promise, key)}"
