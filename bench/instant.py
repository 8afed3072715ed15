"""How fast a scheduler process fires what is due at one instant, and what others feel meanwhile.

The process runs in real time with a clock that is a constant ahead: its midnight comes soon after
it has started, however long the jobs took to register. What it takes is counted from the due
instant, by the ids of the entries: when the server added them.
"""

from __future__ import annotations

import asyncio

from bench.firing import POLL_S, added, firing_at, last_added_at, sleep_until
from bench.floor import server_cpu_s
from bench.spawned import spawned
from bench.stage import Metrics
from bench.stalls import between, live_as_probe, percentile
from engine.store import Store

IDLE_MS = 1_000
"""What of the time before the due instant is looked at for the stalls of an idle server."""
BEFORE_MS = 100
"""How long before the due instant counting CPU time begins."""
LEAST_MS = 50
"""For so long another client is looked at, however soon all has fired."""


async def fire_instant(store: Store, count: int, due_at: int, queue: str) -> Metrics:
    """Fire `count` jobs of a queue that are due at `due_at`, and nothing else, until all are in its
    streams; return `fires_per_s`, its cost, the stalls and the server's memory peak.

    Raises RuntimeError if any was due before.
    """
    client = store.client
    peak = 0
    async with firing_at(store, due_at) as firing:
        with spawned(live_as_probe, store.config.redis_url) as probe:
            probe.cpu_s()  # is answered once it lives
            if early := await added(store, queue):
                raise RuntimeError(f"{early} of {count} jobs have fired before they were to")
            begin_at = await firing.begin()
            await sleep_until(store, begin_at - BEFORE_MS)
            redis_s, python_s = await server_cpu_s(client), firing.process.cpu_s()
            while await added(store, queue) < count:
                peak = max(peak, (await client.info("memory"))["used_memory"])
                await asyncio.sleep(POLL_S)
            redis_s = await server_cpu_s(client) - redis_s
            python_s = firing.process.cpu_s() - python_s
            waits = probe.stop()
    peak = max(peak, (await client.info("memory"))["used_memory"])
    end_at = await last_added_at(store, queue)
    felt = between(waits, begin_at, max(end_at, begin_at + LEAST_MS))
    return {
        "fires_per_s": count / max(1, end_at - begin_at) * 1000,
        "redis_us_per_fire": redis_s / count * 1e6,
        "python_us_per_fire": python_s / count * 1e6,
        "stall_ms_max": percentile(felt, 100),
        "stall_ms_p99": percentile(felt, 99),
        "idle_stall_ms_max": percentile(between(waits, begin_at - IDLE_MS, begin_at), 100),
        "memory_peak_mb": peak / 1e6,
    }
