"""Worker processes whose handler does nothing, and the wait until they have emptied the streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

from bench.floor import server_cpu_s
from bench.spawned import Life, Spawned, spawned
from engine import Context, Worker
from engine.clock import ManualClock
from engine.config import Config
from engine.execution import Delivery
from engine.names import streams_of
from engine.store import Store
from engine.targets import Attempted
from engine.worker import Worker as WorkerLoop

QUEUE = "default"
"""Where executions of worker targets wait."""
CONCURRENCY = 1_000
"""Executions that one worker process runs at once."""
BEGIN = "{bench}begin"
"""A list on which ready worker processes wait, for an element each."""
LOOK_S = 0.01


async def live_as_worker(stop: asyncio.Event, config: Config) -> None:
    """Be a worker process, from the word to begin until `stop`: one as README shows it, with all of
    its loops, whose only handler returns at once."""
    worker = Worker(queues=[QUEUE], concurrency=CONCURRENCY, config=config)

    @worker.handler(default=True)
    async def noop(context: Context) -> None:
        pass

    async with await Store.open(config) as store:
        await wait_for_word(store, stop)
    await worker.run(stop)


async def wait_for_word(store: Store, stop: asyncio.Event) -> None:
    """Return when a process of a crew may begin, or is to stop."""
    begun = asyncio.create_task(_take(store))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([begun, stopped], return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    stopped.cancel()


async def _take(store: Store) -> None:
    while not await store.reader.blpop(BEGIN, 1):
        pass


@dataclass(frozen=True, slots=True)
class Drained:
    """What it took to do all that waited."""

    seconds: float
    worker_cpu_s: float
    server_cpu_s: float


class Crew:
    """Worker processes that have started, and wait for the word to begin."""

    def __init__(self, store: Store, processes: list[Spawned], queue: str) -> None:
        self._store = store
        self._processes = processes
        self._queue = queue

    async def begin(self) -> None:
        """Give the word. Once only."""
        await self._store.client.lpush(BEGIN, *("now" for _ in self._processes))

    async def drain(self) -> Drained:
        """Let them do all that waits in the queue; return what that took. Once only."""
        client = self._store.client
        worker_s, server_s = self._cpu_s(), await server_cpu_s(client)
        started = time.perf_counter()
        await self.begin()
        await wait_until_drained(self._store, self._queue)
        seconds = time.perf_counter() - started
        return Drained(seconds, self._cpu_s() - worker_s, await server_cpu_s(client) - server_s)

    def _cpu_s(self) -> float:
        return sum(process.cpu_s() for process in self._processes)


@asynccontextmanager
async def crew(
    store: Store, count: int, life: Life = live_as_worker, queue: str = QUEUE
) -> AsyncIterator[Crew]:
    """Start so many worker processes of a queue; yield them once all are ready, and end them at
    last. Their `life` begins with `wait_for_word`."""
    with ExitStack() as stack:
        processes = [stack.enter_context(spawned(life, store.config)) for _ in range(count)]
        while (await store.client.info("clients"))["blocked_clients"] < count:
            for process in processes:
                process.cpu_s()  # raises if it has ended
            await asyncio.sleep(LOOK_S)
        yield Crew(store, processes, queue)


class NoOp:
    """A runner whose attempts succeed at once."""

    async def run(self, delivery: Delivery) -> Attempted:
        return Attempted(True)

    async def close(self) -> None:
        pass


async def work_off(store: Store, at: int) -> None:
    """Do in this process all that waits in the queue, as if it were `at`, to have it done."""
    clock = ManualClock(at)
    worker = WorkerLoop(store, clock, {QUEUE: 1}, NoOp, concurrency=CONCURRENCY)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    await wait_until_drained(store)
    stop.set()
    await running


async def wait_until_drained(store: Store, queue: str = QUEUE) -> None:
    """Return once no execution of a queue waits or runs."""
    streams = [shard.ready(name) for shard in store.layout.shards for name in streams_of(queue)]
    while True:
        pipe = store.client.pipeline(transaction=False)
        for stream in streams:
            pipe.xlen(stream)
        if not any(await pipe.execute()):
            return
        await asyncio.sleep(LOOK_S)
