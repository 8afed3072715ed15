"""The shape of a schedule: its compiled masks taken apart again, so that they can be said.

Every cron-like dialect compiles to the same masks, whose days are a table by kind of month. Shape
finds the rule behind that table. What is said or converted from it holds for the times themselves,
however a dialect spells them.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.plan.cron_eval import CronFields

ALL_MINUTES, ALL_HOURS, ALL_MONTHS = (1 << 60) - 1, (1 << 24) - 1, (1 << 13) - 2
ALL_DOMS, ALL_DOWS = (1 << 32) - 2, (1 << 7) - 1
_FIRST_WEEK = 0b111_1111


@dataclass(frozen=True)
class Shape:
    """Masks of the fields; bit n stands for n, and a full mask for `*`."""

    seconds: int
    minutes: int
    hours: int
    doms: int
    """Days of the month, counted from its start, or from its end: see `from_end`."""
    dows: int
    """Bit 0 is Sunday."""
    months: int
    years: int | None
    wildcard: bool
    either: bool = False
    """Whether a day need match only one of `doms` and `dows`."""
    from_end: bool = False
    """Whether bit 1 of `doms` is the last day, bit 2 the one before, and so on."""

    @property
    def nth_weekday(self) -> tuple[int, int] | None:
        """The weekday, 0 = Sunday, and which one of the month, -1 = last, if that is the rule."""
        if self.either or self.dows.bit_count() != 1:
            return None
        weeks = [n for n in range(1, 6) if self.doms == _FIRST_WEEK << (7 * n - 6) & ALL_DOMS]
        if not weeks or (self.from_end and weeks != [1]):
            return None
        return self.dows.bit_length() - 1, -1 if self.from_end else weeks[0]


def shape_of(fields: CronFields) -> Shape | None:
    """Return the shape of compiled fields, or None if its days follow no rule that it knows.

    Working days (`15W`) and lists that mix rules are such.
    """
    minutes = [fields.times >> hour * 60 & ALL_MINUTES for hour in range(24)]
    busy = max(minutes)
    hours = sum(1 << hour for hour in range(24) if minutes[hour])
    days = _days(fields.days)
    if days is None or fields.fraction_ms or any(mask not in (0, busy) for mask in minutes):
        return None
    doms, dows, either, from_end = days
    return Shape(
        seconds=fields.seconds,
        minutes=busy,
        hours=hours,
        doms=doms,
        dows=dows,
        months=fields.months,
        years=fields.years,
        wildcard=fields.wildcard,
        either=either,
        from_end=from_end,
    )


def bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def runs_of(values: list[int]) -> list[list[int]]:
    """Return the increasing values in runs of neighbours."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def step_of(mask: int, low: int, high: int) -> int | None:
    """Return n if the mask is every n-th value from `low` to `high`, and more than one value."""
    values = bits(mask)
    if len(values) < 2 or values[0] != low:
        return None
    step = values[1] - low
    return step if values == [*range(low, high + 1, step)] else None


def _days(table: tuple[int, ...]) -> tuple[int, int, bool, bool] | None:
    """Return days, weekdays, whether either is enough, and whether days count from the end."""
    for from_end in (False, True):
        cells = _cells(table, from_end=from_end)
        if cells is None:
            continue
        matched = {cell for cell, matches in cells.items() if matches}
        missed = cells.keys() - matched
        for either, chosen in ((False, matched), (True, missed)):
            doms, dows = {dom for dom, _ in chosen}, {dow for _, dow in chosen}
            if len(chosen) == len(doms) * len(dows):
                dom_mask, dow_mask = (sum(1 << n for n in values) for values in (doms, dows))
                if either:
                    dom_mask, dow_mask = ALL_DOMS & ~dom_mask, ALL_DOWS & ~dow_mask
                return dom_mask, dow_mask, either, from_end
    return None


def _cells(table: tuple[int, ...], *, from_end: bool) -> dict[tuple[int, int], bool] | None:
    """Return (day, weekday) → whether it matches, or None if that differs between months."""
    cells: dict[tuple[int, int], bool] = {}
    for index, days in enumerate(table):
        length, first = 28 + index // 7, index % 7
        for day in range(1, length + 1):
            cell = (length + 1 - day if from_end else day, (first + day) % 7)
            matches = bool(days >> day & 1)
            if cells.setdefault(cell, matches) != matches:
                return None
    return cells
