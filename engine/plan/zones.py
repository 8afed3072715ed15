"""IANA zones as runs of constant UTC offset, so that daylight saving is two comparisons.

A zone is a row of *segments*. Inside one, local time is UTC plus a constant; all that is special
about daylight saving happens where two segments meet:

    offset > before   a gap: local times from start+before up to start+offset do not exist
    offset < before   an overlap: local times from start+offset up to start+before come twice

zoneinfo keeps its transitions to itself, so they are found by bisecting `utcoffset` a window at a
time, and kept: 0.3 ms for each 388 days of a zone, once per process. Times here are whole seconds.

The rules come from the package `tzdata`, never from the machine's own database: two machines of a
fleet must not disagree about when a job is due, and `DATABASE` names the edition.
"""

from __future__ import annotations

import difflib
import io
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata

from engine.errors import BadInput

_DAY = 86_400
_WINDOW_BITS = 25
"""Segments are found 2**25 s (388 days) at a time: a shift finds the window of an instant."""

DATABASE: str = tzdata.IANA_VERSION
"""The edition of the IANA database that zones are read from, such as `2026a`. A newer one is
greater, as text."""

_NOT_PLACES = frozenset({"localtime", "posixrules", "Factory"})
"""Names in the database that stand for a machine's own zone."""

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
    """One IANA zone: its segments, and the clock on the wall. `name` is one of the database;
    `rules` is the zone's file in another edition."""

    def __init__(self, name: str, rules: bytes | None = None) -> None:
        self.name = name
        self._info = ZoneInfo.from_file(io.BytesIO(rules or _rules_of(name)), key=name)
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

    def local(self, at: int) -> datetime:
        """Return the local time of the UTC second `at`, with its offset and abbreviation."""
        return datetime.fromtimestamp(at, self._info)

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

    Refuses with BadInput(field="timezone") a name that the database does not have.
    """
    if name not in _known():
        raise BadInput(f"unknown timezone {name[:64]!r}; {_hint(name[:64])}", field="timezone")
    return Zone(name)


def read_rules() -> dict[str, bytes]:
    """Return the rules of every zone of the database by its name: 350 KB, and 30 ms."""
    return {name: _rules_of(name) for name in _known()}


def _rules_of(name: str) -> bytes:
    return files(tzdata).joinpath("zoneinfo", *name.split("/")).read_bytes()


@cache
def _known() -> dict[str, None]:
    """The names of all zones, in order."""
    names = files(tzdata).joinpath("zones").read_text("utf-8").split()
    return dict.fromkeys(sorted({*names} - _NOT_PLACES))


def _hint(name: str) -> str:
    known = _known()
    folded = name.casefold().replace(" ", "_")
    cities = [zone for zone in known if folded in (zone.casefold(), zone.casefold().split("/")[-1])]
    close = cities[:1] or difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return "use an IANA name such as Europe/Berlin or UTC"
