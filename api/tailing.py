"""All who listen to the ledger share one read of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from api.events_read import Read
from engine.codec.positions import Position
from engine.store import Store
from engine.store.connection import TRANSIENT
from engine.store.following import behind, read_ends, wait_for_entries

log = logging.getLogger(__name__)

COUNT = 100
"""Entries of a shard that one read takes at the most."""
MOST_WAITING = 200
"""Reads that wait for a listener who is slow; then that one is cut off, and comes back for them."""
MOST_LISTENERS = 5_000
PAUSE_S = 0.5
PACE_S = 0.0001
"""After a read it rests so long for each listener: telling one takes about as long, and what came
meanwhile is told together."""


@dataclass(eq=False, slots=True)
class Listener:
    """Who listens. `position` is where its part of the read began."""

    position: Position
    reads: asyncio.Queue[Read | None] = field(
        default_factory=lambda: asyncio.Queue(MOST_WAITING + 1)
    )
    """What came; None is the end: too slow, or the process is to end."""

    def give(self, read: Read) -> bool:
        """Take a read in; return whether the listener keeps up."""
        if self.reads.qsize() >= MOST_WAITING:
            return False
        self.reads.put_nowait(read)
        return True

    def end(self) -> None:
        with suppress(asyncio.QueueFull):
            self.reads.put_nowait(None)


class Tailing:
    """The ledger as one process hears it.

    1. `listen` gives a listener all that happens from then on.
    2. The ledger is read while somebody listens, and not otherwise.
    3. Who does not keep up is cut off; the others wait for nobody.
    4. `close` ends all listening, for good.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._listeners: set[Listener] = set()
        self._position: Position | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Listener]:
        """Have a listener for as long as it is wanted. Raises what the server raises."""
        async with self._lock:
            if self._position is None:
                self._position = await read_ends(self._store())
            listener = Listener(self._position)
            self._listeners.add(listener)
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="api-tailing")
        if self._is_closed:
            listener.end()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        self._is_closed = True
        for listener in self._listeners:
            listener.end()

    async def _run(self) -> None:
        """Read until nobody listens."""
        while self._listeners and not self._is_closed:
            assert self._position is not None
            try:
                entries = await wait_for_entries(self._store(), self._position, COUNT)
            except TRANSIENT as error:
                log.debug("the ledger cannot be read now: %s", type(error).__name__)
                await asyncio.sleep(PAUSE_S)
                continue
            except Exception:
                log.exception("reading the ledger failed; it goes on")
                await asyncio.sleep(PAUSE_S)
                continue
            if entries:
                self._position = behind(self._position, entries)
                self._tell(Read(entries))
                await asyncio.sleep(len(self._listeners) * PACE_S)
        self._task = self._position = None

    def _tell(self, read: Read) -> None:
        for listener in list(self._listeners):
            if not listener.give(read):
                self._listeners.discard(listener)
                listener.end()
