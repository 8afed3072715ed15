"""When a cron expression fires: parsed fields, a zone, and the rule for daylight saving.

The rule is that of Debian's cron and cronie. A *wildcard* job, whose minute or hour field starts
with `*`, follows elapsed time; a *fixed-time* job keeps its promise of once a local day:

    Europe/Berlin 2026           `*/30 2 * * *` (wildcard)     `30 2 * * *` (fixed time)
    29 March, 02:00-03:00 is     does not fire                 fires at 03:00, the first instant
    skipped (a gap)                                            after the gap, once
    25 October, 02:00-03:00      02:00 02:30 02:00 02:30       02:30 in the first pass only
    comes twice (an overlap)

Several fixed times in one gap, or a fixed time at its very end, are one instant and so fire once.
A gap of more than three hours is a date that was left out (Apia, 30 December 2011), not daylight
saving: nothing fires for it. Both halves of the rule are parameters (`DstRule`), so that plans can
choose others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple

from engine.plan.zones import LAST_SECOND, Segment, Zone

HORIZON_DAYS = 36_525
"""The search ends after a century. The rarest date, 29 February on a given weekday, comes at most
40 years apart."""

_DAY = 86_400
_MINUTES_A_DAY = 1440
_EPOCH = date(1970, 1, 1).toordinal()
_LONGEST_DST_GAP = 3 * 3600
_REACH = 2 * _DAY
"""More than any two UTC offsets of a zone differ."""


class DstRule(NamedTuple):
    """What becomes of local times that do not exist, or that come twice."""

    gap: Literal["run_after", "skip"]
    overlap: Literal["first", "second", "both"]


WILDCARD = DstRule("skip", "both")
FIXED_TIME = DstRule("run_after", "first")


@dataclass(frozen=True)
class CronFields:
    """The local minutes that an expression matches. Sets are bit masks: bit n stands for n."""

    times: int
    """Minutes of the day, 0 to 1439."""
    months: int
    """1 to 12."""
    days: tuple[int, ...]
    """For a month that starts on a Monday, Tuesday, …: its matching days, 1 to 31."""
    wildcard: bool
    """Whether the minute or the hour field starts with `*`."""

    @property
    def dst(self) -> DstRule:
        return WILDCARD if self.wildcard else FIXED_TIME

    def first_from(self, minute: int, last_day: int) -> int | None:
        """Return the first matching local minute at or after `minute`, or None.

        Minutes and days are counted from 1970-01-01T00:00 local; None means no match up to the
        end of the month that holds `last_day`.
        """
        day, minute_of_day = divmod(minute, _MINUTES_A_DAY)
        today = date.fromordinal(_EPOCH + day)
        year, month = today.year, today.month
        left = self._matching_days(year, month) >> today.day
        if left & 1:
            later = self.times >> minute_of_day
            if later:
                return minute + _lowest(later)
        left >>= 1
        if left:
            return (day + 1 + _lowest(left)) * _MINUTES_A_DAY + _lowest(self.times)
        last = date.fromordinal(_EPOCH + last_day)
        while (year, month) < (last.year, last.month):
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            days = self._matching_days(year, month)
            if days:
                day = date(year, month, 1).toordinal() - _EPOCH + _lowest(days) - 1
                return day * _MINUTES_A_DAY + _lowest(self.times)
        return None

    def _matching_days(self, year: int, month: int) -> int:
        if not self.months >> month & 1:
            return 0
        return self.days[date(year, month, 1).weekday()] & _month_mask(year, month)


def first_after(fields: CronFields, zone: Zone, dst: DstRule, after: int) -> int | None:
    """Return the first time strictly after the UTC second `after`, or None within a century.

    Walks the zone's segments, and leaps over those in which no matching date can lie.
    """
    limit = min(after + HORIZON_DAYS * _DAY, LAST_SECOND)
    floor = after + 1
    at = after
    while at < limit:
        segment = zone.segment(max(at, floor))
        if _fires_for_gap(fields, segment, dst, floor):
            return segment.start
        minute = fields.first_from(_first_minute(segment, dst, floor), limit // _DAY)
        found = limit if minute is None else minute * 60 - segment.offset
        if found < _usable_end(segment, dst):
            return found if found < limit else None
        # The next segment may repeat local times from before the part that was searched here; if
        # that part was long enough, it cannot, and there is nothing up to what was found.
        searched = segment.end - max(segment.start, floor)
        at = segment.end if searched < _REACH else max(segment.end, found - _REACH)
    return None


def _first_minute(segment: Segment, dst: DstRule, floor: int) -> int:
    """Return the first local minute of the segment at which the rule lets a job fire."""
    local = max(segment.start, floor) + segment.offset
    if dst.overlap == "first":
        # Up to here the clock shows times that the segment before has already had.
        local = max(local, segment.start + segment.before)
    return -(-local // 60)


def _usable_end(segment: Segment, dst: DstRule) -> int:
    if dst.overlap == "second":
        return segment.end + min(0, segment.after - segment.offset)
    return segment.end


def _fires_for_gap(fields: CronFields, segment: Segment, dst: DstRule, floor: int) -> bool:
    width = segment.offset - segment.before
    if dst.gap == "skip" or segment.start < floor or not 0 < width <= _LONGEST_DST_GAP:
        return False
    opens = segment.start + segment.before
    minute = fields.first_from(-(-opens // 60), opens // _DAY + 1)
    return minute is not None and minute * 60 < opens + width


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _month_mask(year: int, month: int) -> int:
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return (1 << (30 if leap else 29)) - 1
    return (1 << (31 if month in (4, 6, 9, 11) else 32)) - 1
