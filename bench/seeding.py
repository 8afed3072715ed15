"""Registers many jobs through the engine, as a process of the engine itself would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bench.stage import PAYLOAD
from engine.model import HttpTarget, Overlap, Target, WorkerTarget
from engine.registration import Timing, register
from engine.store import Store, jobs

CHUNK = 2_000
"""Jobs of one round trip."""

DAY_MS = 86_400_000

HTTP = HttpTarget("http://127.0.0.1:9/hook")
WORKER = WorkerTarget()

DAILY = Timing("0 0 * * *")
"""Due at midnight; all jobs share one plan."""


def of_1000_plans(n: int) -> Timing:
    """Return when the nth job is due: at midnight, and at times of the day before 21:00 that it
    shares with each thousandth job. One that is registered after that is due at midnight first."""
    hour, minute = divmod(n % 1_000, 50)
    return Timing(f"0,{minute + 1} 0,{hour + 1} * * *")


EVENING_MS = 2 * 3_600_000
"""Before midnight, when jobs that are due then may be taken to be registered."""


def midnight_after(now: int) -> int:
    """Return the next midnight, UTC."""
    return (now // DAY_MS + 1) * DAY_MS


async def seed(
    store: Store,
    count: int,
    now: int,
    timing: Timing | Callable[[int], Timing] = DAILY,
    *,
    target: Target = HTTP,
    prefix: str = "job",
    first: int = 0,
    overlap: Overlap = Overlap.SKIP,
) -> float:
    """Register `count` jobs at `now`, numbered from `first`; return jobs a second.

    `timing` is that of all jobs, or of the nth one. Ids are `<prefix>-<n, twelve hex digits>`, the
    payload is PAYLOAD. Jobs that exist are left as they are.
    """
    timing_of = timing if callable(timing) else lambda _: timing
    started = time.perf_counter()
    for begin in range(first, first + count, CHUNK):
        batch = [
            register(
                now=now,
                target=target,
                job_id=f"{prefix}-{n:012x}",
                timing=timing_of(n),
                payload=PAYLOAD,
                overlap=overlap,
            )
            for n in range(begin, min(begin + CHUNK, first + count))
        ]
        await jobs.create_jobs(store, batch)
    return count / (time.perf_counter() - started)


async def clear(client: Any) -> None:
    """Delete everything on the server, and wait until its memory is free. Stores that were open
    before are of no use after."""
    await client.flushdb(asynchronous=True)
    while (await client.info("memory"))["lazyfree_pending_objects"]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
