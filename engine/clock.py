"""Time: one clock for what is due, one for durations.

What is due is decided by the Redis server's clock, so that skew between machines can neither fire
early nor twice. It is sampled now and then and carried forward by the local monotonic clock.
Durations and lease trust use the monotonic clock alone. Tests and the simulator pass a
`ManualClock`.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never steps."""


class ServerClock:
    """The Redis server's time, carried forward by the local monotonic clock.

    Before the first `sample` it follows the local wall clock.
    """

    def __init__(self) -> None:
        self._offset_ms = time.time() * 1000 - time.monotonic() * 1000

    def sample(self, server_ms: int) -> None:
        """Take a server time that has just been received.

        The reply's arrival counts, not its middle, so the clock is behind the server's by the way
        back, never ahead: nothing fires early.
        """
        self._offset_ms = server_ms - time.monotonic() * 1000

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000 + self._offset_ms)

    def monotonic_ms(self) -> int:
        return int(time.monotonic() * 1000)


class ManualClock:
    """A clock that moves when told to."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, by_ms: int) -> None:
        self._now_ms += by_ms
        self._monotonic_ms += by_ms

    def sample(self, server_ms: int) -> None:
        """Ignore the server's time: this clock is moved by hand."""


class SampledClock(Clock, Protocol):
    def sample(self, server_ms: int) -> None:
        """Take a server time that has just been received."""
