"""steady: how late recurring jobs fire at 1,000 to 50,000 a second, in open loop."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from bench.firing import POLL_S, Firing, added, firing_at, sleep_until
from bench.floor import server_cpu_s
from bench.seeding import midnight_after, seed
from bench.stage import Metrics, Scenario, Stage
from bench.stalls import percentile
from engine.names import HTTP_QUEUE
from engine.registration import Timing
from engine.store import Store
from engine.store.server import time_ms

RATES_PER_S = (1_000, 5_000, 20_000, 50_000)
MIN_LENGTH_MS = 1_000
"""Of each rate; with fewer jobs than that takes, the rates are not reached."""
PAGE = 1_000
"""Entries of one read."""
PATIENCE_MS = 60_000
"""How long the end is waited for when the last rate was more than the scheduler can do."""


@dataclass(slots=True)
class Window:
    """What is looked at of a rate: all but its first fifth, in which the scheduler gets used to it.

    Its jobs are of one plan, and each is due once, at a place of its own in a window.
    """

    first_at: int
    rate_per_s: int
    begin_at: int
    end_at: int
    lags_ms: array[int] = field(default_factory=lambda: array("q"))
    last_at: int = 0
    """When the newest of its entries was added."""
    redis_s: float = 0
    python_s: float = 0

    def metrics(self) -> Metrics:
        ordered = sorted(self.lags_ms)
        count, took_ms = len(ordered), max(self.last_at, self.end_at) - self.begin_at
        found = {f"lag_ms_p{percent}": percentile(ordered, percent) for percent in (50, 99)}
        found |= {
            "lag_ms_max": percentile(ordered, 100),
            "fires_per_s": count / took_ms * 1000,
            "redis_us_per_fire": self.redis_s / max(1, count) * 1e6,
            "python_us_per_fire": self.python_s / max(1, count) * 1e6,
        }
        return {f"{name}_at_{self.rate_per_s}": value for name, value in found.items()}


async def run(stage: Stage) -> Metrics:
    """Return for each rate how late jobs fired, how many a second, and what each cost.

    The rates follow one another, each with jobs of its own, since nobody ends the executions: a job
    that came again would find the one before still live. Nobody takes the entries either, which
    disturbs least: each is read in the end, and its id says when the server added it. The scheduler
    process runs in real time, with a clock that is a constant ahead.
    """
    length_ms = max(MIN_LENGTH_MS, stage.size * 1_000 // sum(RATES_PER_S))
    async with stage.store() as store:
        now = await time_ms(store.client)
        first_at = midnight_after(now)
        windows = [
            Window(begin, rate, begin + length_ms // 5, begin + length_ms)
            for n, rate in enumerate(RATES_PER_S)
            for begin in [first_at + n * length_ms]
        ]
        expected = await _register(store, stage.size, now, windows)
        async with firing_at(store, first_at) as firing:
            shift_ms = first_at - await firing.begin()
            for window in windows:
                await _spend(store, firing, window)
            give_up_at = windows[-1].end_at + PATIENCE_MS
            while await added(store, HTTP_QUEUE) < expected:
                if await time_ms(store.client) + shift_ms > give_up_at:
                    break
                await asyncio.sleep(POLL_S)
        async for added_at, due_at in _entries(store):
            for window in windows:
                if window.begin_at <= due_at < window.end_at:
                    window.lags_ms.append(added_at + shift_ms - due_at)
                    window.last_at = max(window.last_at, added_at + shift_ms)
    return {name: value for one in windows for name, value in one.metrics().items()}


async def _register(store: Store, size: int, now: int, windows: list[Window]) -> int:
    """Register the jobs of all rates, at most `size` in parts of the rates; return how many."""
    count = 0
    for window in windows:
        length_ms = window.end_at - window.first_at
        wanted = window.rate_per_s * min(length_ms / 1_000, size / sum(RATES_PER_S))
        timing = Timing("every 1d", start_at=window.first_at, window_ms=length_ms)
        await seed(store, math.ceil(wanted), now, timing, first=count)
        count += math.ceil(wanted)
    return count


async def _spend(store: Store, firing: Firing, window: Window) -> None:
    """Wait for a window's begin and its end; note the CPU time between."""
    for at, sign in ((window.begin_at, -1), (window.end_at, 1)):
        await sleep_until(store, at - firing.shift.value)
        window.redis_s += sign * await server_cpu_s(store.client)
        window.python_s += sign * firing.process.cpu_s()


async def _entries(store: Store) -> AsyncIterator[tuple[int, int]]:
    """Yield when each entry was added, and when it was due."""
    client: Any = store.client
    for shard in store.layout.shards:
        after = "-"
        while page := await client.xrange(shard.ready(HTTP_QUEUE), min=after, count=PAGE):
            for entry_id, fields in page:
                yield int(entry_id.partition(b"-")[0]), int(fields[b"due_at"])
            after = "(" + page[-1][0].decode()


SCENARIO = Scenario(run, size=15 * sum(RATES_PER_S), quick_size=sum(RATES_PER_S))
