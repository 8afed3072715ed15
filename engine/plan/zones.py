"""IANA zones as runs of constant UTC offset, so that daylight saving is two comparisons.

A zone is a row of *segments*. Inside one, local time is UTC plus a constant; all that is special
about daylight saving happens where two segments meet:

    offset > before   a gap: local times from start+before up to start+offset do not exist
    offset < before   an overlap: local times from start+offset up to start+before come twice

zoneinfo keeps its transitions to itself, so they are found by bisecting `utcoffset` a window at a
time, and kept: 0.3 ms for each 388 days of a zone, once per process. Times here are whole seconds.
"""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from engine.errors import BadInput

_DAY = 86_400
_WINDOW_BITS = 25
"""Segments are found 2**25 s (388 days) at a time: a shift finds the window of an instant."""

_MACHINE_NAMES = frozenset({"localtime", "posixrules", "Factory"})
"""Names in the zone database that mean another zone on every machine."""

LAST_SECOND = int(datetime(9997, 1, 1, tzinfo=UTC).timestamp())
"""No time is looked for from here on: datetime ends with the year 9999."""


class Segment(NamedTuple):
    """UTC instants from `start` up to but not including `end`, in seconds, and their offset.

    A segment may also end where a window does; its neighbour then has the same offset.
    """

    start: int
    end: int
    before: int
    """The UTC offset just before `start`, seconds east."""
    offset: int
    after: int
    """The UTC offset from `end` on."""


class Zone:
    """One IANA zone; `segment` is all that it knows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._info = ZoneInfo(name)
        self._windows: dict[int, tuple[Segment, ...]] = {}

    def segment(self, at: int) -> Segment:
        """Return the segment that holds the UTC second `at`."""
        index = at >> _WINDOW_BITS
        window = self._windows.get(index)
        if window is None:
            window = self._windows[index] = self._find(index)
        for segment in window:
            if at < segment.end:
                return segment
        raise AssertionError("a window ends where the next one starts")

    def _find(self, index: int) -> tuple[Segment, ...]:
        first, last = index << _WINDOW_BITS, (index + 1) << _WINDOW_BITS
        edges = [first]
        # No zone has changed its offset and back within a day, so daily samples see every change.
        for left in range(first, last, _DAY):
            right = min(left + _DAY, last)
            if self._offset(left) != self._offset(right):
                edges.append(self._change(left, right))
        # A change exactly at `last` belongs to the next window, where it is `before`.
        edges = [edge for edge in edges if edge < last] + [last]
        return tuple(
            Segment(a, b, self._offset(a - 1), self._offset(a), self._offset(b))
            for a, b in pairwise(edges)
        )

    def _change(self, left: int, right: int) -> int:
        """Return the first second in (left, right] whose offset differs from that of `left`."""
        old = self._offset(left)
        while right - left > 1:
            middle = (left + right) // 2
            if self._offset(middle) == old:
                left = middle
            else:
                right = middle
        return right

    def _offset(self, at: int) -> int:
        delta = datetime.fromtimestamp(at, self._info).utcoffset()
        assert delta is not None
        return delta.days * _DAY + delta.seconds


@lru_cache(maxsize=1024)
def load_zone(name: str) -> Zone:
    """Return the zone, shared by all who ask for it.

    Refuses with BadInput(field="timezone") a name that is not in the zone database, or that
    means another zone on every machine.
    """
    portable = name not in _MACHINE_NAMES and not name.startswith(("posix/", "right/"))
    if portable and name.isascii():
        try:
            return Zone(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise BadInput(f"unknown timezone {name[:64]!r}; {_hint(name[:64])}", field="timezone")


@cache
def _known() -> list[str]:
    return sorted(available_timezones() - _MACHINE_NAMES)


def _hint(name: str) -> str:
    known = _known()
    folded = name.casefold().replace(" ", "_")
    cities = [zone for zone in known if folded in (zone.casefold(), zone.casefold().split("/")[-1])]
    close = cities[:1] or difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return "use an IANA name such as Europe/Berlin or UTC"
