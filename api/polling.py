"""Long polls: claims that wait for work, without a connection to Redis for each of them.

All that wait for a queue share one look at it, made in turns by one task, so that what it costs
depends on the queues and not on how many wait. A look that finds work wakes as many as there is
work for, who came first first; what they then find is decided by claiming.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from engine.names import streams_of
from engine.store import Store
from engine.store.executions import Stream
from engine.store.limits import is_paused
from engine.store.queues import count_unread, find_stale

SHORTEST_MS = 20
LONGEST_MS = 250
"""Looks at a queue come more seldom the longer it stays empty, so much apart at the most."""
MOST_WAITING = 10_000
"""Claims that may wait in one process; further ones are answered at once."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where there is something to claim: a stream of one shard, and what is there."""

    stream: Stream
    is_stale: bool
    """Deliveries whose lease ran out; else entries that nobody has read."""
    count: int
    """How many, as far as is known: at least one."""


async def find_work(store: Store, queue: str, first: int = 0) -> list[Place]:
    """Return where a queue has something to claim, in the order in which it is to be taken: the
    most urgent first, of a stream what is stale first, from shard number `first` on. Nothing of a
    paused queue. Makes no stream and no consumer."""
    if await is_paused(store, queue):
        return []
    shards = [*store.layout.shards[first:], *store.layout.shards[:first]]
    streams = [(name, shard) for name in streams_of(queue) for shard in shards]
    unread = await count_unread(store, streams)
    stale = await find_stale(store, streams)
    found = [Place(stream, True, 1) for stream in stale]
    found += [Place(stream, False, n) for stream, n in unread.items() if n]
    order = {name: n for n, name in enumerate(streams_of(queue))}
    return sorted(found, key=lambda place: order[place.stream[0]])


Waiter = asyncio.Future[None]


class Polls:
    """The claims of one process that wait for work.

    1. `wait` returns when there may be work in one of its queues, or after its time.
    2. A queue is looked at while somebody waits for it, and not otherwise.
    3. `close` answers all that wait, and lets nobody wait any more: the process is to end.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self.waiting = 0
        """How many claims wait."""
        self._waiters: dict[str, list[Waiter]] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def watched(self) -> list[str]:
        """The queues that somebody waits for."""
        return sorted(self._watches)

    async def wait(self, queues: Sequence[str], timeout_ms: float) -> bool:
        """Wait until one of the queues may have work; return whether that is so. It is not after so
        long, when too many wait, and when the process is to end."""
        if self._is_closed or self.waiting >= MOST_WAITING:
            return False
        self.waiting += 1
        waiter: Waiter = asyncio.get_running_loop().create_future()
        for queue in queues:
            self._waiters.setdefault(queue, []).append(waiter)
            if queue not in self._watches:
                self._watches[queue] = asyncio.create_task(self._watch(queue), name=f"poll-{queue}")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await waiter
        finally:
            self.waiting -= 1
            for queue in queues:
                self._waiters[queue].remove(waiter)
                if not self._waiters[queue]:
                    self._forget(queue)
        return not self._is_closed and not waiter.cancelled()

    def close(self) -> None:
        """Wake all that wait, for good."""
        self._is_closed = True
        for queue in list(self._waiters):
            self._wake(queue, MOST_WAITING)

    async def _watch(self, queue: str) -> None:
        """Look at a queue again and again, until nobody waits for it."""
        pause_ms: float = SHORTEST_MS
        while True:
            await asyncio.sleep(pause_ms / 1000)
            try:
                work = sum(place.count for place in await find_work(self._store(), queue))
            except Exception:
                # Their own claims tell them.
                work = MOST_WAITING
            pause_ms = SHORTEST_MS if work else min(LONGEST_MS, pause_ms * 1.5)
            self._wake(queue, work)

    def _wake(self, queue: str, most: int) -> None:
        asleep = [waiter for waiter in self._waiters.get(queue, []) if not waiter.done()]
        for waiter in asleep[:most]:
            waiter.set_result(None)

    def _forget(self, queue: str) -> None:
        del self._waiters[queue]
        self._watches.pop(queue).cancel()
