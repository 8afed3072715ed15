"""Ends waits for answers that take too long, with one timer for all of them.

A timer of its own for each call costs a tenth of the call: it is set and, nearly always, cancelled.
Here a wait costs an entry; the timer is set to the earliest end that it has seen, and looks at what
still waits when it fires.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Protocol


class Late(Exception):
    """The time that was given is up."""


class Waiting(Protocol):
    """What waits, and raises there what it is given."""

    def set_exception(self, exc: BaseException) -> None: ...


class Deadlines:
    """Raises Late in what waits beyond its time, which is that of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until: dict[Waiting, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._set_to = inf

    def set(self, waiting: Waiting, until: float) -> None:
        """End a wait at `until`, unless it is dropped before."""
        self._until[waiting] = until
        if until < self._set_to:
            self._set_timer(until)

    def drop(self, waiting: Waiting) -> None:
        """A wait is over."""
        del self._until[waiting]

    def close(self) -> None:
        """End nothing any more."""
        self._set_timer(inf)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._set_to = at
        self._timer = self._loop.call_at(at, self._look) if at < inf else None

    def _look(self) -> None:
        now = self._loop.time()
        for waiting in [one for one, until in self._until.items() if until <= now]:
            self._until[waiting] = inf  # it is told once, and drops itself
            waiting.set_exception(Late())
        self._set_timer(min(self._until.values(), default=inf))
