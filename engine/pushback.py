"""Hosts that asked for less: notes who did, and says who is still to be left alone.

A note is in the server for all workers; the gatekeeper makes a gate of it. A worker looks at its
own notes at once, and at those of others as the last read of the limits found them.
"""

from __future__ import annotations

from engine import codec
from engine.clock import Clock
from engine.execution import Delivery
from engine.model import HttpTarget
from engine.names import host_of
from engine.store import Store
from engine.store.limits import LONGEST_PUSHBACK_MS, Pushback, note_pushback
from engine.targets import Attempted

ASKS_FOR_LESS = frozenset({429, 503})
"""Statuses of a host that wants less."""
NOTE_EVERY_MS = 1_000
"""A thousand calls that are refused at once are one note."""


class Hosts:
    """What one worker knows of hosts that asked for less."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted: dict[str, Pushback] = {}

    async def note(self, delivery: Delivery, attempted: Attempted) -> None:
        """Note that a host has answered that it wants less; once a second at the most."""
        host = _host_of(delivery)
        now = self._clock.now_ms()
        noted = self._noted.get(host) if host else None
        if host is None or (noted is not None and now - noted.at < NOTE_EVERY_MS):
            return
        wait_ms = min(attempted.retry_after_ms or 0, LONGEST_PUSHBACK_MS)
        self._noted = {
            known: note
            for known, note in self._noted.items()
            if now < note.at + max(note.wait_ms, NOTE_EVERY_MS)
        }
        self._noted[host] = Pushback(now, wait_ms)
        await note_pushback(self._store, host, self._noted[host])

    def split(self, deliveries: list[Delivery]) -> tuple[list[Delivery], dict[str, list[Delivery]]]:
        """Return the deliveries that may start, and by host those whose host wants nothing yet."""
        now = self._clock.now_ms()
        theirs = self._store.limits[1].pushbacks if self._store.limits else {}
        closed = {
            host
            for notes in (theirs, self._noted)
            for host, note in notes.items()
            if now < note.at + note.wait_ms
        }
        if not closed:
            return deliveries, {}
        may_start: list[Delivery] = []
        waiting: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            host = None if delivery.lapsed else _host_of(delivery)
            if host in closed and host is not None:
                waiting.setdefault(host, []).append(delivery)
            else:
                may_start.append(delivery)
        return may_start, waiting


def _host_of(delivery: Delivery) -> str | None:
    target = codec.load_target(delivery.target)
    return host_of(target.url) if isinstance(target, HttpTarget) else None
