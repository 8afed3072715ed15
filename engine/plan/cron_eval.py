"""When a schedule of local times fires: its fields, a zone, and the rule for daylight saving.

The rule is that of Debian's cron and cronie, for every dialect. A *wildcard* job, whose minute or
hour field starts with `*`, follows elapsed time; a *fixed-time* job keeps its promise of once a
local day, whatever its seconds:

    Europe/Berlin 2026           `*/30 2 * * *` (wildcard)     `30 2 * * *` (fixed time)
    29 March, 02:00-03:00 is     does not fire                 fires at 03:00, the first instant
    skipped (a gap)                                            after the gap, once
    25 October, 02:00-03:00      02:00 02:30 02:00 02:30       02:30 in the first pass only
    comes twice (an overlap)

Several fixed times in one gap, or a fixed time at its very end, are one instant and so fire once.
A gap of more than three hours is a date that was left out (Apia, 30 December 2011), not daylight
saving: nothing fires for it. A plan may choose either half of the rule (`DstRule`) for its
fixed-time jobs.
"""

from __future__ import annotations

from calendar import isleap
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple, Protocol

from engine.plan.month_days import month_index
from engine.plan.zones import LAST_SECOND, Segment, Zone

HORIZON_DAYS = 36_525
"""The search ends after a century. The rarest date, 29 February on a given weekday, comes at most
40 years apart."""

_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_LONGEST_DST_GAP = 3 * 3600
_REACH = 2 * _DAY
"""More than any two UTC offsets of a zone differ."""


Gap = Literal["run_after", "skip"]
Overlap = Literal["first", "second", "both"]


class DstRule(NamedTuple):
    """What becomes of local times that do not exist, or that come twice."""

    gap: Gap
    overlap: Overlap


WILDCARD = DstRule("skip", "both")
FIXED_TIME = DstRule("run_after", "first")


class LocalTimes(Protocol):
    """A set of local times: what `first_after` needs to know of a schedule."""

    @property
    def wildcard(self) -> bool:
        """Whether the job follows elapsed time, and not the clock on the wall."""

    @property
    def dst(self) -> DstRule:
        """WILDCARD or FIXED_TIME."""

    @property
    def fraction_ms(self) -> int:
        """How far past its second every time lies, 0 to 999."""

    def first_from(self, second: int, last_day: int) -> int | None:
        """Return the first local time at or after `second`, or None.

        Seconds and days are counted from 1970-01-01T00:00 local. A match after `last_day` need not
        be found.
        """


@dataclass(frozen=True)
class CronFields:
    """The local times that an expression matches. Sets are bit masks: bit n stands for n."""

    times: int
    """Minutes of the day, 0 to 1439."""
    months: int
    """1 to 12."""
    days: tuple[int, ...]
    """The days, 1 to 31, of each of the 28 kinds of month, from `month_table`: all that a dialect
    can say of days (`L`, `15W`, `FRI#2`) depends on a month's first weekday and its length only."""
    wildcard: bool
    """Whether the minute or the hour field starts with `*`."""
    seconds: int = 1
    """Seconds of the minute, 0 to 59."""
    years: int | None = None
    """None means any."""
    fraction_ms: int = 0

    @property
    def dst(self) -> DstRule:
        return WILDCARD if self.wildcard else FIXED_TIME

    def first_from(self, second: int, last_day: int) -> int | None:
        """Return the first matching local second at or after `second`; see `LocalTimes`."""
        day, second_of_day = divmod(second, _DAY)
        today = date.fromordinal(_EPOCH + day)
        year, month = today.year, today.month
        left = self._matching_days(year, month) >> today.day
        if left & 1:
            found = self._time_from(second_of_day)
            if found is not None:
                return day * _DAY + found
        left >>= 1
        if left:
            return (day + 1 + _lowest(left)) * _DAY + self._first_time()
        last = date.fromordinal(_EPOCH + last_day)
        while (year, month) < (last.year, last.month):
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            days = self._matching_days(year, month)
            if days:
                day = date(year, month, 1).toordinal() - _EPOCH + _lowest(days) - 1
                return day * _DAY + self._first_time()
        return None

    def _first_time(self) -> int:
        return _lowest(self.times) * 60 + _lowest(self.seconds)

    def _time_from(self, second_of_day: int) -> int | None:
        minute, second = divmod(second_of_day, 60)
        later = self.times >> minute
        if later & 1:
            seconds = self.seconds >> second
            if seconds:
                return second_of_day + _lowest(seconds)
        later >>= 1
        return (minute + 1 + _lowest(later)) * 60 + _lowest(self.seconds) if later else None

    def _matching_days(self, year: int, month: int) -> int:
        if not self.months >> month & 1:
            return 0
        if self.years is not None and not self.years >> year & 1:
            return 0
        return self.days[month_index(date(year, month, 1).weekday(), _month_length(year, month))]


def first_after(times: LocalTimes, zone: Zone, dst: DstRule, after: int) -> int | None:
    """Return the first time strictly after the UTC second `after`, or None within a century.

    Walks the zone's segments, and leaps over those in which no matching date can lie.
    """
    limit = min(after + HORIZON_DAYS * _DAY, LAST_SECOND)
    floor = after + 1
    at = after
    while at < limit:
        segment = zone.segment(max(at, floor))
        if _fires_for_gap(times, segment, dst, floor):
            return segment.start
        local = times.first_from(_first_local(segment, dst, floor), limit // _DAY)
        found = limit if local is None else local - segment.offset
        if found < _usable_end(segment, dst):
            return found if found < limit else None
        # The next segment may repeat local times from before the part that was searched here; if
        # that part was long enough, it cannot, and there is nothing up to what was found.
        searched = segment.end - max(segment.start, floor)
        at = segment.end if searched < _REACH else max(segment.end, found - _REACH)
    return None


def _first_local(segment: Segment, dst: DstRule, floor: int) -> int:
    """Return the first local second of the segment at which the rule lets a job fire."""
    local = max(segment.start, floor) + segment.offset
    if dst.overlap == "first":
        # Up to here the clock shows times that the segment before has already had.
        local = max(local, segment.start + segment.before)
    return local


def _usable_end(segment: Segment, dst: DstRule) -> int:
    if dst.overlap == "second":
        return segment.end + min(0, segment.after - segment.offset)
    return segment.end


def _fires_for_gap(times: LocalTimes, segment: Segment, dst: DstRule, floor: int) -> bool:
    width = segment.offset - segment.before
    if dst.gap == "skip" or segment.start < floor or not 0 < width <= _LONGEST_DST_GAP:
        return False
    opens = segment.start + segment.before
    found = times.first_from(opens, opens // _DAY + 1)
    return found is not None and found < opens + width


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if isleap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31
