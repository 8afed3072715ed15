"""Days that depend on the month: the last one, the working day nearest to one, the third Friday.

A *day set* tells the days of any month as a bit mask (bit n is day n) from two facts: the weekday
of the month's first day (0 for a Monday) and its length in days. Bits past the length are ignored.
Weekdays are counted from Sunday, 0, here as in cron; dialects that count otherwise convert.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

DaySet = Callable[[int, int], int]

_EVERY_WEEK = sum(1 << day for day in (1, 8, 15, 22, 29))
_WEEK = 0b111_1111
_SATURDAY, _SUNDAY = 5, 6
"""As weekdays counted from Monday."""


def month_table(days: DaySet) -> tuple[int, ...]:
    """Return the day set as 28 masks, at `month_index`: there are no other months."""
    return tuple(
        days(first, length) & (2 << length) - 2 for length in range(28, 32) for first in range(7)
    )


def month_index(first: int, length: int) -> int:
    return (length - 28) * 7 + first


def plain_table(doms: int, dows: int, *, either: bool) -> tuple[int, ...]:
    """Return the table of days of the month `doms` and, or rather or, weekdays `dows`."""
    weekdays = _weekday_table(dows)
    if either:
        return tuple(
            (doms | days) & (2 << 28 + index // 7) - 2 for index, days in enumerate(weekdays)
        )
    return tuple(doms & days for days in weekdays)


@cache
def _weekday_table(dows: int) -> tuple[int, ...]:
    return month_table(lambda first, length: weekday_mask(dows, first))


def any_of(mask: int, sets: Sequence[DaySet]) -> DaySet:
    """Return the days that are in `mask` or in one of the sets."""

    def days(first: int, length: int) -> int:
        found = mask
        for days_of in sets:
            found |= days_of(first, length)
        return found

    return days


def weekday_mask(dows: int, first: int) -> int:
    """Return the days, 1 to 35, that fall on the weekdays `dows`, a mask in which bit 0 is Sunday.

    `first` is the weekday of day 1, and 0 for a Monday.
    """
    from_first = dows >> first + 1 | dows << 6 - first
    return (from_first & _WEEK) * _EVERY_WEEK


def weekdays(dows: int) -> DaySet:
    return lambda first, length: weekday_mask(dows, first)


def nth_weekday(dow: int, n: int) -> DaySet:
    """Return the n-th such weekday, 1 to 5: none in a month that has fewer."""
    return lambda first, length: weekday_mask(1 << dow, first) & _WEEK << 7 * n - 6


def last_weekday(dow: int) -> DaySet:
    return lambda first, length: weekday_mask(1 << dow, first) & _WEEK << length - 6


def last_day(before: int) -> DaySet:
    """Return the day that lies `before` days before the last: none if the month is too short."""
    return lambda first, length: 1 << length - before if before < length else 0


def working_day(dom: int) -> DaySet:
    """Return the day from Monday to Friday that is nearest to `dom`, without leaving the month."""
    return lambda first, length: _nearest(dom, first, length) if dom <= length else 0


def last_working_day(before: int) -> DaySet:
    """Return the working day nearest to the day that lies `before` days before the last."""
    return lambda first, length: _nearest(length - before, first, length) if before < length else 0


def _nearest(dom: int, first: int, length: int) -> int:
    weekday = (first + dom - 1) % 7
    if weekday == _SATURDAY:
        dom += -1 if dom > 1 else 2
    elif weekday == _SUNDAY:
        dom += 1 if dom < length else -2
    return 1 << dom
