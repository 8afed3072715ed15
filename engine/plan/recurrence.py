"""When a recurrence rule fires: dateutil's expansion, made cheap and bounded for any point in time.

dateutil counts from DTSTART, however long ago that was, and looks for a match up to the year 9999.
Here it gets neither chance:

- A rule repeats with its period, so the search starts with the period of the time asked about.
  What DTSTART implies for every period (`BYHOUR`, a weekday) is written out by `with_start`.
- The calendar repeats every 400 years, weekdays included, so the search is done late in dateutil's
  range, and a rule without a match costs half a second at most.
- HOURLY, MINUTELY and SECONDLY are days from dateutil, and arithmetic inside a day: a rule that
  matches one second of the year is found without a walk through the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Self

from dateutil import rrule as dateutil

from engine.plan.cron_eval import FIXED_TIME, WILDCARD, DstRule

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
"""In the order of dateutil's numbers for them."""

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
DAY_PARTS = {
    "BYMONTH": "bymonth",
    "BYWEEKNO": "byweekno",
    "BYYEARDAY": "byyearday",
    "BYMONTHDAY": "bymonthday",
    "BYDAY": "byweekday",
}
"""The parts that choose days, with dateutil's names for them."""
TIME_PARTS = {"BYHOUR": "byhour", "BYMINUTE": "byminute", "BYSECOND": "bysecond"}

UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
"""The frequencies inside a day, in seconds."""

_DAY = 86_400
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 local time has no zone
_CYCLE_DAYS = 146_097
"""The days of 400 years: whole weeks."""
_LATEST_START = 9799
"""Two centuries before dateutil's last year."""

Parts = Mapping[str, tuple[Any, ...]]
"""BYHOUR, … → its values. Those of BYDAY are pairs of a weekday, 0 = Monday, and which one of the
month or year, 0 = every."""


@dataclass(frozen=True)
class Recurrence:
    """The local times of a rule: the `LocalTimes` of the rrule dialect. Build with `with_start`."""

    frequency: str
    interval: int
    start: int
    """DTSTART, in local seconds since 1970-01-01T00:00. No time is before it."""
    parts: Parts
    until: int | None
    """The last local second that may match."""
    week_start: int
    fraction_ms: int = 0

    @classmethod
    def with_start(
        cls,
        frequency: str,
        interval: int,
        start: datetime,
        parts: Parts,
        until: int | None = None,
        week_start: int = 0,
    ) -> Self:
        """Return the rule with what a DTSTART implies for the parts that were left out."""
        implied: dict[str, tuple[Any, ...]] = {}
        if not parts.keys() & (DAY_PARTS.keys() - {"BYMONTH"}):
            match frequency:
                case "YEARLY":
                    implied |= {"BYMONTH": (start.month,), "BYMONTHDAY": (start.day,)}
                case "MONTHLY":
                    implied["BYMONTHDAY"] = (start.day,)
                case "WEEKLY":
                    implied["BYDAY"] = ((start.weekday(), 0),)
        times = (start.hour, start.minute, start.second)
        finer = max(FREQUENCIES.index(frequency) - FREQUENCIES.index("DAILY"), 0)
        for part, value in [*zip(TIME_PARTS, times, strict=True)][finer:]:
            implied[part] = (value,)
        first = (start - _EPOCH) // timedelta(seconds=1)
        return cls(frequency, interval, first, {**implied, **parts}, until, week_start)

    @property
    def wildcard(self) -> bool:
        return self.frequency in UNITS

    @property
    def dst(self) -> DstRule:
        return WILDCARD if self.wildcard else FIXED_TIME

    def first_from(self, second: int, last_day: int) -> int | None:
        """Return the first matching local second at or after `second`; see `LocalTimes`."""
        second = max(second, self.start)
        if self.until is not None:
            last_day = min(last_day, self.until // _DAY)
        if self.frequency in UNITS:
            found = self._first_inside_days(second, last_day)
        else:
            found = next((at for at in self._expand(second // _DAY) if at >= second), None)
        return None if found is None or (self.until is not None and found > self.until) else found

    def _first_inside_days(self, second: int, last_day: int) -> int | None:
        step = self.interval * UNITS[self.frequency]
        barren = set()
        for midnight in self._expand(second // _DAY):
            if midnight // _DAY > last_day:
                return None
            # How the periods lie in a day decides what it holds, and there are at most `step` ways.
            phase = (midnight - self.start) % step
            if phase in barren:
                continue
            found = self._first_inside(midnight, max(second, midnight))
            if found is not None:
                return found
            if second <= midnight:
                barren.add(phase)
        return None

    def _first_inside(self, midnight: int, second: int) -> int | None:
        """Return the first match at or after `second` in the day of that midnight."""
        unit = UNITS[self.frequency]
        step = self.interval * unit
        earliest = max(midnight, second - unit + 1)
        first = earliest + (self.start // unit * unit - earliest) % step
        for period in range(first, midnight + _DAY, step):
            if self._holds(period - midnight):
                for offset in self._offsets:
                    if period + offset >= second:
                        return period + offset
        return None

    def _holds(self, second_of_day: int) -> bool:
        """Return whether the period that starts then is not filtered out."""
        minutes, second = divmod(second_of_day, 60)
        hour, minute = divmod(minutes, 60)
        parts, frequency = self.parts, self.frequency
        return (
            hour in parts.get("BYHOUR", (hour,))
            and (frequency == "HOURLY" or minute in parts.get("BYMINUTE", (minute,)))
            and (frequency != "SECONDLY" or second in parts.get("BYSECOND", (second,)))
        )

    @cached_property
    def _offsets(self) -> list[int]:
        """The times of a period inside a day, in seconds from its start."""
        seconds = self.parts["BYSECOND"] if self.frequency != "SECONDLY" else (0,)
        minutes = self.parts["BYMINUTE"] if self.frequency == "HOURLY" else (0,)
        return sorted(minute * 60 + second for minute in minutes for second in seconds)

    def _expand(self, day: int) -> Iterator[int]:
        """Yield the times of the rule from the start of the period that holds `day`.

        For the frequencies inside a day these are the midnights of the days that the rule allows.
        """
        first = self._period_start(day)
        cycles = (_LATEST_START - first.year) // 400
        shift = timedelta(days=cycles * _CYCLE_DAYS)
        inside = self.frequency in UNITS
        names = DAY_PARTS if inside else {**DAY_PARTS, **TIME_PARTS, "BYSETPOS": "bysetpos"}
        values: dict[str, Any] = {
            names[part]: self.parts[part] for part in names if part in self.parts
        }
        if "byweekday" in values:
            values["byweekday"] = [
                dateutil.weekday(day, n or None) for day, n in values["byweekday"]
            ]
        rule = dateutil.rrule(
            dateutil.DAILY if inside else FREQUENCIES.index(self.frequency),
            dtstart=datetime(first.year, first.month, first.day) + shift,  # noqa: DTZ001
            interval=1 if inside else self.interval,
            wkst=self.week_start,
            **values,
        )
        for moment in rule:
            yield (moment - shift - _EPOCH) // timedelta(seconds=1)

    def _period_start(self, day: int) -> date:
        """Return the first day of the latest period of the rule that starts by `day`."""
        at, start = _EPOCH.date() + timedelta(day), _EPOCH.date() + timedelta(self.start // _DAY)
        n = self.interval
        match self.frequency:
            case "YEARLY":
                return date(at.year - (at.year - start.year) % n, 1, 1)
            case "MONTHLY":
                months = at.year * 12 + at.month - 1
                months -= (months - start.year * 12 - start.month + 1) % n
                return date(months // 12, months % 12 + 1, 1)
            case "WEEKLY":
                week = start - timedelta((start.weekday() - self.week_start) % 7)
                return at - timedelta((at - week).days % (7 * n))
            case "DAILY":
                return at - timedelta((at - start).days % n)
        return at
