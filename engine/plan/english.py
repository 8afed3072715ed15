"""A schedule in plain English, from its shape: "At 09:30 on Monday to Friday, in March"."""

from __future__ import annotations

from itertools import pairwise

from engine.plan.schedule import Every
from engine.plan.shape import (
    ALL_DOMS,
    ALL_DOWS,
    ALL_HOURS,
    ALL_MINUTES,
    ALL_MONTHS,
    Shape,
    bits,
    runs_of,
    step_of,
)

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    *("", "January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
AT_START = "At each start of the deployment"
_MOST_CLOCK_TIMES = 6
"""More times a day than these are said by field."""
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


def describe(shape: Shape) -> str:
    """Return one sentence, without a full stop."""
    sentence = _times(shape) + _days(shape)
    if shape.months != ALL_MONTHS:
        sentence += f", in {join([MONTHS[month] for month in bits(shape.months)])}"
    if shape.years is not None:
        sentence += f", in {join([str(year) for year in bits(shape.years)][:10])}"
    return sentence


def describe_interval(every: Every) -> str:
    """Return `Every 1 hour 30 minutes`, with the phase if there is one."""
    rest, parts = every.interval_ms, []
    for unit, length_ms in _UNITS:
        count, rest = divmod(rest, length_ms)
        if count:
            parts.append(f"{count} {unit}{'s' * (count > 1)}")
    if rest:
        parts.append(f"{rest} ms")
    length = parts[0].removeprefix("1 ") if len(parts) == 1 else " ".join(parts)
    return f"Every {length}" + ("" if every.anchor is None else ", in phase with the start given")


def _times(shape: Shape) -> str:
    seconds, minutes, hours = bits(shape.seconds), bits(shape.minutes), bits(shape.hours)
    if len(seconds) == 1 and len(minutes) * len(hours) <= _MOST_CLOCK_TIMES:
        tail = f":{seconds[0]:02d}" if seconds[0] else ""
        clock = [f"{hour:02d}:{minute:02d}{tail}" for hour in hours for minute in minutes]
        return f"At {join(clock)}"
    hour = "" if shape.hours == ALL_HOURS else f" of hour {_ranges(hours)}"
    if shape.seconds == 1:
        if minutes == [0]:
            return "Every hour" if not hour else f"At minute 0{hour}"
        return _every(shape.minutes, "minute", 59) + hour
    second = _every(shape.seconds, "second", 59)
    minute = "" if shape.minutes == ALL_MINUTES else f" of minute {_ranges(minutes)}"
    return second + minute + hour


def _every(mask: int, unit: str, high: int) -> str:
    step = step_of(mask, 0, high)
    if step == 1:
        return f"Every {unit}"
    if step and (high + 1) % step == 0:
        return f"Every {step} {unit}s"
    return f"At {unit} {_ranges(bits(mask))}"


def _days(shape: Shape) -> str:
    if shape.nth_weekday and shape.doms != ALL_DOMS:
        weekday, n = shape.nth_weekday
        which = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}[n]
        return f" on the {which} {WEEKDAYS[weekday]} of the month"
    dom, dow = _month_days(shape), _weekdays(shape.dows)
    if shape.either:
        return f" on {dom} of the month, and also on {dow}"
    if shape.doms == ALL_DOMS:
        return "" if shape.dows == ALL_DOWS else f" on {dow}"
    return f" on {dom} of the month" + ("" if shape.dows == ALL_DOWS else f", if that is {dow}")


def _month_days(shape: Shape) -> str:
    if not shape.from_end:
        return f"day {_ranges(bits(shape.doms))}"
    before = [day - 1 for day in bits(shape.doms)]
    return "the last day" if before == [0] else f"day {_ranges(before)} before the last"


def _weekdays(mask: int) -> str:
    days = sorted(bits(mask), key=lambda dow: (dow - 1) % 7)
    named = [WEEKDAYS[dow] for dow in days]
    is_run = all((b - a) % 7 == 1 for a, b in pairwise(days))
    return f"{named[0]} to {named[-1]}" if is_run and len(days) > 2 else join(named)


def _ranges(values: list[int]) -> str:
    """Return the values as a list, in which three and more in a row are a range."""
    texts = []
    for run in runs_of(values):
        texts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(value) for value in run]
    return join(texts)


def join(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
