"""spike: many recurring jobs due at one instant, fired by one scheduler, beside the floor."""

from __future__ import annotations

import time

from bench.floor import measure_floor
from engine.clock import ManualClock
from engine.model import HttpTarget
from engine.registration import Timing, register
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store, jobs
from engine.store.server import time_ms

PAYLOAD = b'"' + b"x" * 98 + b'"'
CHUNK = 2_000


async def seed(store: Store, count: int, now: int, schedule_expr: str) -> float:
    """Register `count` jobs of one plan; return jobs a second."""
    target = HttpTarget("http://127.0.0.1:9/hook")
    started = time.perf_counter()
    for first in range(0, count, CHUNK):
        batch = [
            register(
                now=now,
                target=target,
                job_id=f"job-{n:012x}",
                timing=Timing(schedule_expr),
                payload=PAYLOAD,
            )
            for n in range(first, min(first + CHUNK, count))
        ]
        await jobs.create_jobs(store, batch)
    return count / (time.perf_counter() - started)


async def run(store: Store, count: int) -> dict[str, float]:
    """Return fires a second and their ratio to the floor, cost in Redis, memory, seeding speed."""
    client = store.client
    metrics = await measure_floor(client, min(count, 100_000), PAYLOAD)
    now = await time_ms(client)
    empty = (await client.info("memory"))["used_memory"]
    metrics["registered_per_s"] = await seed(store, count, now, "0 0 * * *")
    metrics["bytes_per_job"] = ((await client.info("memory"))["used_memory"] - empty) / count
    midnight = (now // 86_400_000 + 1) * 86_400_000
    clock = ManualClock(midnight)
    keeper = ShardKeeper(store, clock, "bench")
    await keeper.step()
    scheduler = Scheduler(store, clock, keeper)
    cpu_before = (await client.info("cpu"))["used_cpu_user"]
    started, python_started = time.perf_counter(), time.process_time()
    while scheduler.totals.fired < count:
        await scheduler.step()
    elapsed = time.perf_counter() - started
    python_s = time.process_time() - python_started
    redis_s = (await client.info("cpu"))["used_cpu_user"] - cpu_before
    metrics["fires_per_s"] = count / elapsed
    metrics["ratio"] = metrics["fires_per_s"] / metrics["floor_fires_per_s"]
    metrics["redis_us_per_fire"] = redis_s / count * 1e6
    metrics["python_us_per_fire"] = python_s / count * 1e6
    metrics["memory_peak_mb"] = (await client.info("memory"))["used_memory_peak"] / 1e6
    return metrics
