"""memory: the server's bytes for a registered job, a waiting execution, and a record of history.

What the server's used memory grows by, divided by how many. Its hash tables grow by doubling, so a
figure at one size is good or bad luck: registering is measured at sizes spread over an octave, and
the mean taken. The ledgers hold the same however many jobs there are, and are left out.
"""

from __future__ import annotations

from bench.firing import fire_all
from bench.seeding import DAY_MS, HTTP, WORKER, clear, midnight_after, seed
from bench.stage import Metrics, Scenario, Stage
from bench.working import work_off
from engine.model import Target
from engine.store import Store
from engine.store.server import time_ms

OCTAVE = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Sizes at which a job is weighed, by the stage's own: nearly from one doubling to the next."""
DAYS = 10
"""Records of history that each job gets."""
HISTORY_PART = 4
"""One job of so many gets a history."""


async def run(stage: Stage) -> Metrics:
    """Return the bytes of a job with an http target, and of one for workers, each with a payload of
    100 bytes; of its execution that waits; and of a record in its history: of the first one, which
    brings the list, and of each further one."""
    metrics = {"bytes_per_job": await _weigh_jobs(stage, HTTP)}
    metrics["bytes_per_worker_job"] = await _weigh_jobs(stage, WORKER)
    metrics["bytes_per_waiting_execution"] = await _weigh_waiting(stage)
    return metrics | await _weigh_history(stage)


async def _weigh_jobs(stage: Stage, target: Target) -> float:
    weights, stored = [], 0
    async with stage.store() as store:
        now, empty = await time_ms(store.client), await _used(store)
        for part in OCTAVE:
            size = max(1, int(part * stage.size))
            await seed(store, size - stored, now, target=target, first=stored)
            stored = size
            weights.append((await _used(store) - empty) / size)
        await clear(store.client)
    return sum(weights) / len(weights)


async def _weigh_waiting(stage: Stage) -> float:
    async with stage.store() as store:
        due_at = midnight_after(await time_ms(store.client))
        await seed(store, stage.size, due_at - 1, target=WORKER)
        before = await _used(store)
        await fire_all(store, stage.size, due_at)
        weight = (await _used(store) - before) / stage.size
        await clear(store.client)
    return weight


async def _weigh_history(stage: Stage) -> Metrics:
    jobs = max(1, stage.size // HISTORY_PART)
    weights = []
    async with stage.store() as store:
        first_at = midnight_after(await time_ms(store.client))
        await seed(store, jobs, first_at - 1, target=WORKER)
        for day in range(DAYS):
            before, due_at = await _used(store), first_at + day * DAY_MS
            await fire_all(store, jobs, due_at)
            await work_off(store, due_at)
            weights.append((await _used(store) - before) / jobs)
        await clear(store.client)
    first, *further = weights
    return {
        "bytes_per_first_history_record": first,
        "bytes_per_history_record": sum(further) / len(further),
    }


async def _used(store: Store) -> int:
    """Return the bytes that the server uses. Empties the ledgers before, and takes the scripts from
    the server, with what they have left behind: both are the same for any number of jobs."""
    await store.client.delete(*(shard.ledger for shard in store.layout.shards))
    await store.client.script_flush("SYNC")
    return int((await store.client.info("memory"))["used_memory"])


SCENARIO = Scenario(run, size=100_000, quick_size=10_000)
