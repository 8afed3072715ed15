"""The announcer: says every few seconds what this scheduler or worker is, for those who look."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from engine import __version__
from engine.clock import Clock
from engine.loop import keep_stepping
from engine.plan import ZONE_DATABASE
from engine.store import Store
from engine.store.connection import TRANSIENT
from engine.store.processes import (
    Process,
    Role,
    announce_process,
    forget_process,
    sweep_processes,
)

BEAT_MS = 5_000
SWEEP_MS = 60_000


def wall_ms() -> int:
    """Return the time by this machine's own clock, which nothing is decided by."""
    return time.time_ns() // 1_000_000


class Announcer:
    """Says that one scheduler or worker is alive.

    1. Each beat writes down who it is and how much it runs.
    2. Now and then takes those off the list that have died without a word.
    3. At the end takes itself off.

    Beside the loops that do the work: none of them waits for it.
    """

    name = "announcer"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        role: Role,
        name: str,
        *,
        queues: tuple[str, ...] = (),
        concurrency: int | None = None,
        running: Callable[[], int] | None = None,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self._store = store
        self._clock = clock
        self._running = running
        self._wall = wall
        self._sweep_at = 0
        self._process = Process(
            name=name,
            role=role,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            zones=ZONE_DATABASE,
            started_at=0,
            seen_at=0,
            skew_ms=0,
            queues=queues,
            concurrency=concurrency,
        )

    async def step(self) -> float:
        """Announce the process once; return the ms until the next beat."""
        now = self._clock.now_ms()
        self._process = replace(
            self._process,
            started_at=self._process.started_at or now,
            seen_at=now,
            skew_ms=self._wall() - now,
            running=self._running() if self._running else None,
        )
        await announce_process(self._store, self._process)
        if self._clock.monotonic_ms() >= self._sweep_at:
            self._sweep_at = self._clock.monotonic_ms() + SWEEP_MS
            await sweep_processes(self._store, now)
        return BEAT_MS

    async def run(self, stop: asyncio.Event) -> None:
        """Announce the process until `stop`, then take it off the list."""
        await keep_stepping(self.name, self.step, stop)
        try:
            await forget_process(self._store, self._process.name)
        except TRANSIENT:
            pass  # it counts as gone soon enough
