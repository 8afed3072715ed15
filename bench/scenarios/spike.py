"""spike: many recurring jobs due at one instant, fired by one scheduler process."""

from __future__ import annotations

from collections.abc import Callable

from bench.floor import mean, measure_floor
from bench.instant import fire_instant
from bench.seeding import DAILY, EVENING_MS, clear, midnight_after, of_1000_plans, seed
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from engine.names import HTTP_QUEUE
from engine.registration import Timing
from engine.store.server import time_ms


async def run(stage: Stage) -> Metrics:
    """Return fires a second, their ratio to the floor and their cost, what another client felt
    meanwhile, and what registering took; for jobs of one plan, and `…_of_1000_plans`."""
    floors = [await _measure_floor(stage)]
    one = await _spike(stage, DAILY)
    floors.append(await _measure_floor(stage))
    many = await _spike(stage, of_1000_plans)
    floors.append(await _measure_floor(stage))
    floor = mean(*floors)
    named = {f"{name}_of_1000_plans": value for name, value in _beside(many, floor).items()}
    return floor | _beside(one, floor) | named


async def _measure_floor(stage: Stage) -> Metrics:
    async with stage.store() as store:
        return await measure_floor(store.client, stage.size, PAYLOAD)


async def _spike(stage: Stage, timing: Timing | Callable[[int], Timing]) -> Metrics:
    """Return the figures of one spike, on an empty server that is empty again afterwards."""
    async with stage.store() as store:
        midnight = midnight_after(await time_ms(store.client))
        empty = (await store.client.info("memory"))["used_memory"]
        registered_per_s = await seed(store, stage.size, midnight - EVENING_MS, timing)
        filled = (await store.client.info("memory"))["used_memory"]
        metrics = await fire_instant(store, stage.size, midnight, HTTP_QUEUE)
        await clear(store.client)
    metrics["registered_per_s"] = registered_per_s
    metrics["bytes_per_job"] = (filled - empty) / stage.size
    return metrics


def _beside(metrics: Metrics, floor: Metrics) -> Metrics:
    """Return the figures, and how near they come to the floor: in time, and in the server's CPU
    time, which other load on the machine disturbs less."""
    return metrics | {
        "ratio": metrics["fires_per_s"] / floor["floor_fires_per_s"],
        "redis_ratio": floor["floor_redis_us_per_fire"] / metrics["redis_us_per_fire"],
    }


SCENARIO = Scenario(run, size=1_000_000, quick_size=20_000)
