"""What a schedule says in plain English, what is surprising about it, and how others write it.

Every warning is about a schedule that is right as far as the parser can tell:

    uneven_step      a step that does not divide its field: `*/35` fires at 0, 35, and 0 again
    both_day_fields  day of month and day of week are both set, and which rule then applies
    short_month      a day that some of the months do not have
    weekday_numbers  numbers of weekdays in a dialect that counts from Sunday, 1
    dst_gap          a time that the zone skips within the next year, and what happens then
    dst_overlap      a time that the zone has twice within the next year, and what happens then
    very_frequent    less than a minute between two times
    never_fires      no time within a century
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from engine.plan.convert import convert_fields, convert_interval
from engine.plan.cron_eval import CronFields, LocalTimes
from engine.plan.dialects import Context, Reading
from engine.plan.english import AT_START, MONTHS, describe, describe_interval, join
from engine.plan.parse import read
from engine.plan.rules import CronRule
from engine.plan.schedule import Every, Once, Reboot
from engine.plan.shape import ALL_DOMS, ALL_DOWS, ALL_HOURS, Shape, bits, shape_of, step_of
from engine.plan.zones import Segment, load_zone

_DAY = 86_400
_YEAR = 366 * _DAY
_SAMPLE = 50
_FREQUENT_MS = 60_000
_MONTH_LENGTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEW_DAYS = 5
"""A day of the month that is one of more than these is not one that somebody waits for."""


@dataclass(frozen=True)
class Warning:
    code: str
    message: str


@dataclass(frozen=True)
class Lint:
    dialect: str
    timezone: str
    """That of the text, if it names one."""
    description: str
    """One sentence, without a full stop and without the zone."""
    warnings: tuple[Warning, ...]
    conversions: dict[str, str]
    """Other dialect → a text that has exactly the same times."""


def lint(
    expr: str,
    timezone: str = "UTC",
    dialect: str | None = None,
    *,
    now: int,
    job_id: str | None = None,
) -> Lint:
    """Return what there is to say about a schedule; `now` is in ms.

    Refuses what `parse_schedule` refuses, but for a schedule that never fires, which is a warning.
    """
    load_zone(timezone)
    name, reading = read(expr, Context(timezone, now, job_id), dialect)
    if isinstance(reading, Reading):
        timezone = reading.timezone or timezone
        warnings = tuple(_warn(reading, name, timezone, now))
        description, conversions = _say(reading, now)
        if any(warning.code == "never_fires" for warning in warnings):
            conversions = {}
    elif isinstance(reading, Every):
        description, conversions = describe_interval(reading), convert_interval(reading)
        warnings = tuple(_warn_frequent([0, reading.interval_ms]))
    elif isinstance(reading, Reboot):
        description, conversions, warnings = AT_START, {}, ()
    else:
        description, conversions, warnings = _say_once(reading), {}, ()
    conversions.pop(name, None)
    return Lint(name, timezone, description, warnings, conversions)


def _say(reading: Reading, now: int) -> tuple[str, dict[str, str]]:
    times = reading.times
    shape = shape_of(times) if isinstance(times, CronFields) else None
    if not isinstance(times, CronFields) or shape is None:
        return f"At the times of {reading.expr!r}", {}
    return describe(shape), convert_fields(times, now)


def _say_once(once: Once) -> str:
    return f"Once, at {datetime.fromtimestamp(once.at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _warn(reading: Reading, dialect: str, timezone: str, now: int) -> Iterator[Warning]:
    times = reading.times
    shape = shape_of(times) if isinstance(times, CronFields) else None
    if shape:
        yield from _warn_steps(shape, reading.expr)
        if dialect != "systemd":
            yield from _warn_day_fields(shape)
        yield from _warn_short_months(shape)
    yield from _warn_weekday_numbers(reading.expr, dialect)
    upcoming = _upcoming(times, timezone, now)
    if not upcoming:
        yield Warning("never_fires", "There is no such time within the next 100 years")
        return
    yield from _warn_frequent(upcoming)
    if not times.wildcard or (shape and shape.hours != ALL_HOURS):
        yield from _warn_clock_changes(times, timezone, now)


def _upcoming(times: LocalTimes, timezone: str, now: int) -> list[int]:
    rule = CronRule(times, timezone, times.dst)
    found: list[int] = []
    at = rule.first_after(now, now)
    while at is not None and len(found) < _SAMPLE:
        found.append(at)
        at = rule.first_after(at, now)
    return found


def _warn_steps(shape: Shape, expr: str) -> Iterator[Warning]:
    for name, mask, low, high in (
        ("second", shape.seconds, 0, 59),
        ("minute", shape.minutes, 0, 59),
        ("hour", shape.hours, 0, 23),
        ("day of the month", shape.doms, 1, 31),
    ):
        step = step_of(mask, low, high)
        # Only what was written as a step was meant as one.
        if step and (high - low + 1) % step and re.search(rf"/{step}(?![0-9])", expr):
            yield Warning(
                "uneven_step",
                f"A step of {step} does not divide the field: {name} {bits(mask)[-1]} is followed"
                f" by {low}, so the last gap is shorter",
            )


def _warn_day_fields(shape: Shape) -> Iterator[Warning]:
    if shape.either:
        yield Warning(
            "both_day_fields",
            "Day of month and day of week are both set: a day that matches either one fires",
        )
    elif shape.doms != ALL_DOMS and shape.dows != ALL_DOWS and not shape.nth_weekday:
        yield Warning(
            "both_day_fields",
            "Day of month and day of week are both set: only a day that matches both fires",
        )


def _warn_short_months(shape: Shape) -> Iterator[Warning]:
    days, months = bits(shape.doms), bits(shape.months)
    if shape.either or shape.from_end or len(days) > _FEW_DAYS:
        return
    for day in days:
        without = [MONTHS[month] for month in months if _MONTH_LENGTHS[month] < day]
        if day == 29 and 2 in months:
            yield Warning("short_month", "29 February comes in leap years only")
        elif without and len(without) < len(months):
            yield Warning("short_month", f"Day {day} is skipped in {join(without)}")


def _warn_weekday_numbers(expr: str, dialect: str) -> Iterator[Warning]:
    place = {"quartz": 5, "aws": 4}.get(dialect)
    words = expr.split()
    if place is not None and len(words) > place and re.match("[0-9]", words[place]):
        yield Warning(
            "weekday_numbers",
            f"Weekday {words[place].rstrip(')')!r}: {dialect} counts from 1 = Sunday, cron from"
            " 0 = Sunday; names (MON) mean the same everywhere",
        )


def _warn_frequent(upcoming: list[int]) -> Iterator[Warning]:
    gaps = [b - a for a, b in pairwise(upcoming)]
    if gaps and min(gaps) < _FREQUENT_MS:
        yield Warning("very_frequent", f"Fires as often as every {min(gaps) / 1000:g} s")


def _warn_clock_changes(times: LocalTimes, timezone: str, now: int) -> Iterator[Warning]:
    zone, at = load_zone(timezone), now // 1000
    end = at + _YEAR
    while at < end:
        segment = zone.segment(at)
        if segment.start > now // 1000:
            yield from _warn_clock_change(times, timezone, segment)
        at = segment.end


def _warn_clock_change(times: LocalTimes, timezone: str, segment: Segment) -> Iterator[Warning]:
    opens, closes = sorted((segment.start + segment.before, segment.start + segment.offset))
    found = times.first_from(opens, closes // _DAY)
    if found is None or found >= closes:
        return
    day, clock = _local(opens, "%Y-%m-%d"), _local(found, "%H:%M")
    change = f"{_local(opens, '%H:%M')} to {_local(closes, '%H:%M')} on {day} in {timezone}"
    if segment.offset > segment.before:
        fate = f"the run of {clock} comes at {_local(closes, '%H:%M')}, unless dst_gap is 'skip'"
        if times.wildcard:
            fate = f"there is no run at {clock}: the job follows elapsed time"
        yield Warning("dst_gap", f"The clock skips {change}: {fate}")
    else:
        fate = f"{clock} fires the first time only, unless dst_overlap says otherwise"
        if times.wildcard:
            fate = f"{clock} fires both times: the job follows elapsed time"
        yield Warning("dst_overlap", f"The clock shows {change} twice: {fate}")


def _local(second: int, form: str) -> str:
    return (datetime(1970, 1, 1) + timedelta(seconds=second)).strftime(form)  # noqa: DTZ001
