"""Entries of the day fields that depend on the month, as Quartz introduced them.

    day of month  L    the last day           L-3   three days before it
                  15W  the working day (Monday to Friday) nearest to the 15th, in the same month
                  LW   the last working day   L-3W  the working day nearest to three before the last
    day of week   5L   the last such weekday  5#3   the third one: none in a month that has fewer
                  L    the last day of the week, Saturday

A month without the 31st has no `31W`, and one of 28 days no `L-30`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.plan.cron_fields import Field
from engine.plan.month_days import (
    DaySet,
    last_day,
    last_weekday,
    last_working_day,
    nth_weekday,
    weekdays,
    working_day,
)

_LAST = re.compile(r"L(?:-([0-9]+))?(W)?")
_NEAREST = re.compile(r"([0-9]*)W")
_LAST_WEEKDAY = re.compile(r"([0-9]+|[A-Z]{3})?L")
_NTH = re.compile(r"([0-9]+|[A-Z]{3})#([0-9]+)")
_MAX_BEFORE = 30
_SATURDAY = 6


@dataclass(frozen=True)
class MonthDays:
    """Reads these entries for a grammar; see `Special`."""

    alone: str = ""
    """Those of `L` and `#` that must be all of a day of week field."""
    bare_l: bool = False
    """Whether `L` may be a day of week."""
    before_w: bool = False
    """Whether `L-3W` may be written."""

    def __call__(self, field: Field, entry: str, *, alone: bool) -> DaySet | str | None:
        if field.sunday is None:
            return self._day_of_month(field, entry)
        for mark in self.alone:
            # Names hold no # and, but for JUL, no L: the marks are never part of a plain entry.
            if mark in entry and not alone:
                return f"stands in a list, and {mark} must be all of the field"
        return self._day_of_week(field, entry)

    def _day_of_month(self, field: Field, entry: str) -> DaySet | str | None:
        if match := _LAST.fullmatch(entry):
            before = int(match[1] or 0)
            if before > _MAX_BEFORE:
                return f"is before the first day of every month; use L-1 to L-{_MAX_BEFORE}"
            if not match[2]:
                return last_day(before)
            if match[1] and not self.before_w:
                return "joins a distance and W, which this dialect does not; use LW or L-3"
            return last_working_day(before)
        if match := _NEAREST.fullmatch(entry):
            dom = field.value(match[1])
            return working_day(dom) if dom else f"needs a day of {field.wanted} before W"
        return None

    def _day_of_week(self, field: Field, entry: str) -> DaySet | str | None:
        if entry == "L" and self.bare_l:
            return weekdays(1 << _SATURDAY)
        if match := _LAST_WEEKDAY.fullmatch(entry):
            dow = field.value(match[1] or "")
            return (
                f"needs a weekday of {field.wanted} before L"
                if dow is None
                else last_weekday(field.weekday(dow))
            )
        if match := _NTH.fullmatch(entry):
            dow, n = field.value(match[1]), int(match[2])
            if dow is None:
                return f"needs a weekday of {field.wanted} before #"
            if not 1 <= n <= 5:
                return "needs 1 to 5 after #: a month has no more of any weekday"
            return nth_weekday(field.weekday(dow), n)
        return None
