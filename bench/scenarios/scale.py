"""scale: what ten, a hundred, a thousand times as many registered jobs change.

From 10,000 jobs on, each size is ten times the one before, up to `--jobs` (10,000,000 shows it all,
and takes about 7 GB). All but a few are due in half a year, spread over the minutes of a day. At
each size some more are registered, and fired, a few fire steadily, a scheduler starts, and another
one takes over from it. Take-over is measured with a lease TTL of a second, not the usual ten.
"""

from __future__ import annotations

import asyncio
import os
import time

from bench.distant import seed_distant
from bench.firing import fire_all
from bench.processes import Fleet
from bench.seeding import WORKER, midnight_after, seed
from bench.stage import Metrics, Scenario, Stage
from bench.stalls import percentile
from bench.units import Better, better
from bench.working import QUEUE, work_off
from engine.errors import Unusable
from engine.model import Overlap
from engine.registration import Timing
from engine.store import Store, leases
from engine.store.server import time_ms

LEAST = 10_000
COMPARED = 100_000
"""The size with which the largest is compared."""
BYTES_PER_JOB = 700
DUE, QUICK_DUE = 50_000, 5_000
"""Jobs of a size that are registered and fired."""
STEADY_PER_S = 500
STEADY_S, QUICK_STEADY_S = 5, 2
LEAD_MS = 500
LEASE_TTL_MS = 1_000
LOOK_S = 0.002
FLAT = {
    "flat_ratio": "fires_per_s",
    "flat_ratio_of_register": "registered_per_s",
    "flat_ratio_of_lag": "lag_ms_p99",
    "flat_ratio_of_start": "start_ms",
    "flat_ratio_of_take_over": "take_over_ms",
}
"""What of the largest size is compared, so that 1 is flat and less is worse."""


async def run(stage: Stage) -> Metrics:
    """Return for each size the rates of registering and firing, the lag of a steady load, and how
    long starting and taking over take; and how the largest size compares with 100,000 jobs."""
    _check_memory(stage.size)
    stage.notes["lease_ttl_ms"] = LEASE_TTL_MS
    sizes = _sizes(stage.size)
    metrics: Metrics = {}
    async with stage.store(lease_ttl_ms=LEASE_TTL_MS) as store:
        registered = 0
        for size in sizes:
            due = min(QUICK_DUE if stage.is_quick else DUE, (size - registered) // 2)
            await seed_distant(store, size - registered - due, first=registered)
            registered = size
            found = await _measure(store, due, f"due-{size}")
            found |= await _measure_scheduler(store, f"steady-{size}", stage.is_quick)
            metrics |= {f"{name}_at_{size}": value for name, value in found.items()}
    other = COMPARED if COMPARED in sizes else sizes[0]
    for ratio, name in FLAT.items():
        large, small = (metrics[f"{name}_at_{size}"] for size in (sizes[-1], other))
        metrics[ratio] = small / large if better(name) is Better.LESS else large / small
    return metrics


def _sizes(most: int) -> list[int]:
    sizes = []
    size = LEAST
    while size < most:
        sizes.append(size)
        size *= 10
    return [*sizes, most]


def _check_memory(jobs: int) -> None:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if free < jobs * BYTES_PER_JOB:
        raise Unusable(
            f"{jobs:,} jobs need {jobs * BYTES_PER_JOB / 1e9:.1f} GB of memory, and"
            f" {free / 1e9:.1f} GB are free: ask for fewer with --jobs"
        )


async def _measure(store: Store, count: int, prefix: str) -> Metrics:
    """Register and fire `count` jobs more; return how many a second. Nothing of them is left to
    do."""
    now = await time_ms(store.client)
    registered_per_s = await seed(store, count, now, target=WORKER, prefix=prefix)
    due_at = midnight_after(now)
    started = time.perf_counter()
    await fire_all(store, count, due_at)
    fires_per_s = count / (time.perf_counter() - started)
    await work_off(store, due_at)
    return {"registered_per_s": registered_per_s, "fires_per_s": fires_per_s}


async def _measure_scheduler(store: Store, prefix: str, is_quick: bool) -> Metrics:
    """Return how long a scheduler process takes from its start until it holds all shards, how late
    a steady load fires then, and how long all shards take to be held again after a kill -9."""
    with Fleet(store.config) as fleet:
        started = time.perf_counter()
        first = fleet.start("engine", "scheduler")
        await _wait_for_holders(store, fleet, {first.pid})
        start_ms = (time.perf_counter() - started) * 1000
        lags = await _fire_steadily(store, prefix, QUICK_STEADY_S if is_quick else STEADY_S)
        second = fleet.start("engine", "scheduler")
        await _wait_for_holders(store, fleet, {first.pid, second.pid})
        killed = time.perf_counter()
        await fleet.kill(first)
        await _wait_for_holders(store, fleet, {second.pid})
        take_over_ms = (time.perf_counter() - killed) * 1000
    return {
        "start_ms": start_ms,
        "take_over_ms": take_over_ms,
        "lag_ms_p50": percentile(lags, 50),
        "lag_ms_p99": percentile(lags, 99),
    }


async def _wait_for_holders(store: Store, fleet: Fleet, pids: set[int]) -> None:
    """Return once each shard is held by one of these processes, and each of them holds some."""
    while True:
        fleet.check()
        names = [name for name, _ in await leases.read_holders(store)]
        # A holder's name is `<host>-<pid>-<random>`.
        held_by = {int(name.rsplit("-", 2)[1]) if name else None for name in names}
        if held_by == pids:
            return
        await asyncio.sleep(LOOK_S)


async def _fire_steadily(store: Store, prefix: str, seconds: int) -> list[int]:
    """Return the lags (ms) of jobs that fire twice, evenly in time; the shortest first. Those of
    the second time: in the first one plans are read."""
    interval_ms, count = seconds * 1000, seconds * STEADY_PER_S
    now = await time_ms(store.client)
    first_at = now + LEAD_MS + count // 10
    second_at, end_at = first_at + interval_ms, first_at + 2 * interval_ms

    def timing(n: int) -> Timing:
        return Timing(
            f"every {interval_ms}ms",
            start_at=first_at + n * interval_ms // count,
            end_at=end_at - 1,
        )

    # Nothing ends an execution here: the next one must not wait for that.
    await seed(store, count, now, timing, target=WORKER, prefix=prefix, overlap=Overlap.ALLOW)
    await asyncio.sleep((end_at + LEAD_MS - await time_ms(store.client)) / 1000)
    lags = []
    for shard in store.layout.shards:
        for entry_id, fields in await store.client.xrange(shard.ready(QUEUE)):
            due_at = int(fields[b"due_at"])
            if due_at >= second_at:
                lags.append(int(entry_id.partition(b"-")[0]) - due_at)
    await work_off(store, end_at)
    return sorted(lags)


SCENARIO = Scenario(run, size=1_000_000, quick_size=50_000)
