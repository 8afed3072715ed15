"""What a worker holds: the deliveries that it runs, or has run and not yet reported.

The loop takes and releases; the thread that extends leases looks on. Each delivery that is held
takes a slot.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

from engine.execution import Delivery

Place = tuple[int, str, str]
"""Where a delivery's entry is: shard, stream, entry id."""


def place_of(delivery: Delivery) -> Place:
    return delivery.shard, delivery.queue, delivery.entry_id


@dataclass(slots=True, eq=False)
class Held:
    """One entry that is held, under the newest delivery of it."""

    delivery: Delivery
    place: Place
    beaten_at: int
    """When its lease was last known to be whole (monotonic)."""
    taken_at: int
    """When it was taken (monotonic)."""
    task: asyncio.Task[None] | None = None
    has_ended: bool = False
    """Its attempt is over, and its outcome waits to be reported."""
    is_lost: bool = False
    """The lease is somebody else's, or the execution was cancelled: nothing of it counts."""
    ends_at: int | None = None
    """When its attempt must be over (monotonic), once somebody asked; see beats.py."""

    def lose(self, delivery: Delivery) -> bool:
        """Note that this delivery is somebody else's by now; return whether it was news: not if
        the entry is held under another one since."""
        if self.is_lost or self.delivery is not delivery:
            return False
        self.is_lost = True
        return True


class Holding:
    """All that one worker holds."""

    def __init__(self) -> None:
        self._held: dict[Place, Held] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, delivery: Delivery) -> Held | None:
        """Return under what the entry of a delivery is held; None if it is not."""
        return self._held.get(place_of(delivery))

    def add(self, delivery: Delivery, now: int) -> Held:
        """Hold one more entry, of which a delivery was read just now (monotonic)."""
        held = Held(delivery, place_of(delivery), now, now)
        with self._lock:
            self._held[held.place] = held
        return held

    def release(self, held: Held) -> None:
        """Hold an entry no longer, unless it is held anew since."""
        with self._lock:
            if self._held.get(held.place) is held:
                del self._held[held.place]

    def all(self) -> list[Held]:
        """Return what is held now. Any thread may ask."""
        with self._lock:
            return [*self._held.values()]
