"""execute: how fast one worker process takes executions that do nothing, from stream to history."""

from __future__ import annotations

import asyncio
import time

from bench.floor import measure_floor
from bench.scenarios.spike import PAYLOAD, seed
from engine.clock import ManualClock
from engine.execution import Delivery
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.server import time_ms
from engine.targets import Attempted
from engine.worker import Worker


class NoOp:
    """A runner whose attempts succeed at once."""

    async def run(self, delivery: Delivery) -> Attempted:
        return Attempted(True, 200)

    async def close(self) -> None:
        pass


async def run(store: Store, count: int) -> dict[str, float]:
    """Return executions a second of one worker, and the ratio to the floor's completions."""
    metrics = await measure_floor(store.client, min(count, 50_000), PAYLOAD)
    now = await time_ms(store.client)
    await seed(store, count, now, "0 0 * * *")
    clock = ManualClock((now // 86_400_000 + 1) * 86_400_000)
    keeper = ShardKeeper(store, clock, "bench")
    await keeper.step()
    scheduler = Scheduler(store, clock, keeper)
    while scheduler.totals.fired < count:
        await scheduler.step()
    worker = Worker(store, clock, {"http": 1}, NoOp, concurrency=2_000, consumer="bench")
    stop = asyncio.Event()
    started, python_started = time.perf_counter(), time.process_time()
    running = asyncio.create_task(worker.run(stop))
    ready = [shard.ready("http") for shard in store.layout.shards]
    while True:
        pipe = store.client.pipeline(transaction=False)
        for stream in ready:
            pipe.xlen(stream)
        if not sum(await pipe.execute()):
            break
        await asyncio.sleep(0.01)
    elapsed, python_s = time.perf_counter() - started, time.process_time() - python_started
    stop.set()
    await running
    metrics["executions_per_s"] = count / elapsed
    metrics["ratio"] = metrics["executions_per_s"] / metrics["floor_completions_per_s"]
    metrics["python_us_per_execution"] = python_s / count * 1e6
    return metrics
