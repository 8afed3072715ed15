"""The reclaimer: takes over deliveries whose worker has gone silent, and clears away its name."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from engine.clock import Clock
from engine.execution import Delivery
from engine.loop import LONGEST_WAIT_MS, keep_stepping
from engine.names import streams_of
from engine.store import Store, executions
from engine.store.executions import Stream
from engine.store.queues import find_stale

SWEEP_MS = 1_000
"""The longest time between two sweeps."""
RETURN_MS = LONGEST_WAIT_MS + 500
"""How long workers may take to come back to a server that was away, and to extend their leases."""
FORGET_AFTER_MS = 3_600_000
"""A consumer that holds nothing and was silent for so long is forgotten."""

log = logging.getLogger("waterclock.reclaimer")


class Taker(Protocol):
    """Who runs what is taken over: a worker."""

    consumer: str
    queues: tuple[str, ...]

    @property
    def free(self) -> int: ...
    async def wait_for_slot(self) -> bool: ...
    def take(self, delivery: Delivery) -> None: ...
    async def refresh(self) -> None: ...


class Reclaimer:
    """Takes stale deliveries over for a worker, as far as it has free slots.

    1. Looks in a round which streams of the worker's queues hold what is stale, and sweeps those.
       Where the slots run out it waits for one, beside the worker's readers, and goes on from
       there: a worker that is never idle takes over too.
    2. Before that sees that the worker's own leases are fresh, so that it never reclaims from
       itself. (If it did, the worker would go on with what it runs under the new proof.)
    3. Where the server was away, lets the others come back first: what they held has grown stale
       meanwhile, and much of it is done, and waits to be reported.
    4. Once an hour forgets consumers that are gone.
    """

    name = "reclaimer"

    def __init__(self, store: Store, clock: Clock, worker: Taker) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._streams = [
            (name, shard)
            for queue in worker.queues
            for name in streams_of(queue)
            for shard in store.layout.shards
        ]
        self._left: list[Stream] = []
        self._cursor: str | None = None
        self._forget_at = 0
        self._is_cut_off = False
        """The last step did not come to its end."""
        self.taken = 0
        self.poisoned = 0

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Sweep what is stale, as far as there are slots; return the ms until the next step."""
        was_cut_off, self._is_cut_off = self._is_cut_off, True
        pause_ms = await self._go_on(was_cut_off)
        self._is_cut_off = False
        return pause_ms

    async def _go_on(self, was_cut_off: bool) -> float:
        # After a failure a round begins anew, with the worker's leases.
        left, self._left = self._left, []
        if not left:
            await self._worker.refresh()
            left = await find_stale(self._store, self._streams)
            self._cursor = None
            if was_cut_off:
                return RETURN_MS
        if left:
            await self._worker.wait_for_slot()
        while left and self._worker.free:
            self._cursor = await self._sweep(left[-1], self._cursor)
            if self._cursor is None:
                left.pop()
        if left:
            self._left = left
            return 0
        await self._forget_consumers()
        return min(SWEEP_MS, self._store.config.execution_lease_ms / 4)

    async def _sweep(self, stream: Stream, cursor: str | None) -> str | None:
        """Look at a bounded part of one stream; return where to go on, None at its end."""
        found = await executions.reclaim_executions(
            self._store,
            *stream,
            self._worker.consumer,
            self._clock.now_ms(),
            cursor=cursor,
            room=self._worker.free,
        )
        for delivery in found.deliveries:
            log.info(
                "execution %s: taken over, delivery %d", delivery.execution_id, delivery.deliveries
            )
            self._worker.take(delivery)
        self.taken += len(found.deliveries)
        self.poisoned += found.poisoned
        return found.cursor

    async def _forget_consumers(self) -> None:
        now = self._clock.monotonic_ms()
        if now < self._forget_at:
            return
        self._forget_at = now + FORGET_AFTER_MS
        for name in dict.fromkeys(name for name, _ in self._streams):
            await executions.forget_consumers(self._store, name, idle_ms=FORGET_AFTER_MS)
