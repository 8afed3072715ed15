"""oneoff: many one-off jobs due at one instant, until all are triggered, and until all are done."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from bench.firing import counts, firing_at, sleep_until
from bench.floor import mean, measure_oneoff_floor
from bench.instant import fire_instant
from bench.seeding import WORKER, clear, midnight_after, seed
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from bench.working import QUEUE, crew
from engine.registration import Timing
from engine.store import Store
from engine.store.server import time_ms

MANY = 10
"""By so much the second part of a full run is larger: a million."""
POLL_S = 0.01


async def run(stage: Stage) -> Metrics:
    """Return one-off jobs triggered a second, their ratio to the floor's, and how long one
    scheduler and one worker process take until all are done; in full also `…_of_a_million`."""
    floors = [await _measure_floor(stage)]
    metrics = await _measure(stage, stage.size)
    floors.append(await _measure_floor(stage))
    if not stage.is_quick:
        many = await _measure(stage, MANY * stage.size)
        floors.append(await _measure_floor(stage))
        metrics |= {f"{name}_of_a_million": value for name, value in many.items()}
    floor = mean(*floors)
    return (
        floor
        | metrics
        | {
            "ratio": metrics["triggered_per_s"] / floor["floor_oneoff_fires_per_s"],
            "redis_ratio": floor["floor_oneoff_redis_us_per_fire"] / metrics["redis_us_per_fire"],
        }
    )


async def _measure_floor(stage: Stage) -> Metrics:
    async with stage.store() as store:
        return await measure_oneoff_floor(store.client, stage.size, PAYLOAD)


async def _measure(stage: Stage, count: int) -> Metrics:
    """Return how fast `count` jobs are triggered with no worker there, and, with others and one
    worker, how long after the due instant all are done."""
    async with stage.store() as store:
        due_at = await _register(store, count)
        fired = await fire_instant(store, count, due_at, QUEUE)
        await clear(store.client)
    async with stage.store() as store:
        due_at = await _register(store, count)
        complete_s = await _complete(store, count, due_at)
        await clear(store.client)
    return {
        "triggered_per_s": fired["fires_per_s"],
        "redis_us_per_fire": fired["redis_us_per_fire"],
        "python_us_per_fire": fired["python_us_per_fire"],
        "complete_s": complete_s,
        "completed_per_s": count / complete_s,
    }


async def _register(store: Store, count: int) -> int:
    """Register jobs that are due once, at the next midnight; return that."""
    now = await time_ms(store.client)
    due_at = midnight_after(now)
    text = datetime.fromtimestamp(due_at / 1000, UTC).isoformat()
    await seed(store, count, now, Timing(text), target=WORKER)
    return due_at


async def _complete(store: Store, count: int, due_at: int) -> float:
    """Return the seconds from the due instant until a worker process has done all."""
    async with crew(store, 1) as workers, firing_at(store, due_at) as firing:
        await workers.begin()
        begin_at = await firing.begin()
        await sleep_until(store, begin_at)
        while True:
            waiting, ever = await counts(store, QUEUE)
            if ever == count and not waiting:
                return (await time_ms(store.client) - begin_at) / 1000
            await asyncio.sleep(POLL_S)


SCENARIO = Scenario(run, size=100_000, quick_size=20_000)
