"""execute: executions of a handler that does nothing, by one worker process and by two.

All wait in the ready streams when the processes begin; it ends when all are in the history. The
floor is what a bare loop of the unavoidable commands completes a second.
"""

from __future__ import annotations

from bench.firing import fire_all
from bench.floor import mean, measure_floor
from bench.seeding import DAY_MS, WORKER, clear, midnight_after, seed
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from bench.working import CONCURRENCY, Drained, crew
from engine.store.server import time_ms


async def run(stage: Stage) -> Metrics:
    """Return executions a second of one worker process and of two, their cost in Python and in the
    server, and the ratio to the floor's completions."""
    stage.notes["worker_concurrency"] = CONCURRENCY
    floors = [await _measure_floor(stage)]
    one, two = [await _drain(stage, processes) for processes in (1, 2)]
    floors.append(await _measure_floor(stage))
    floor = mean(*floors)
    floor = {name: value for name, value in floor.items() if "completion" in name}
    per_s = stage.size / one.seconds
    redis_us = one.server_cpu_s / stage.size * 1e6
    return floor | {
        "executions_per_s": per_s,
        "executions_per_s_of_two": stage.size / two.seconds,
        "ratio": per_s / floor["floor_completions_per_s"],
        "redis_ratio": floor["floor_redis_us_per_completion"] / redis_us,
        "redis_us_per_execution": redis_us,
        "python_us_per_execution": one.worker_cpu_s / stage.size * 1e6,
        "python_us_per_execution_of_two": two.worker_cpu_s / stage.size * 1e6,
    }


async def _measure_floor(stage: Stage) -> Metrics:
    async with stage.store() as store:
        return await measure_floor(store.client, stage.size, PAYLOAD)


async def _drain(stage: Stage, processes: int) -> Drained:
    """Return what so many worker processes need for an execution of each job; the server is empty
    before and after."""
    async with stage.store() as store:
        # A midnight of the past: workers go by the server's clock.
        due_at = midnight_after(await time_ms(store.client)) - DAY_MS
        await seed(store, stage.size, due_at - 1, target=WORKER)
        await fire_all(store, stage.size, due_at)
        async with crew(store, processes) as workers:
            drained = await workers.drain()
        await clear(store.client)
    return drained


SCENARIO = Scenario(run, size=200_000, quick_size=20_000)
