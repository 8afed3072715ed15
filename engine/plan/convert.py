"""A schedule in other dialects: written from its shape, and kept only if it reads back the same.

The writing may be naive, since the reading is not: a text is offered only if its dialect compiles
it to the very masks of the original, daylight saving included. RRULE has no masks, and is held
against the next 50 times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from engine.errors import WaterclockError
from engine.plan.cron_eval import HORIZON_DAYS, CronFields, LocalTimes
from engine.plan.dialects import DIALECTS, Context, Reading
from engine.plan.recurrence import WEEKDAYS
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
    shape_of,
    step_of,
)

_COMPARED = 50
_DAY_MS = 86_400_000
_DOWS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def convert_fields(fields: CronFields, now: int) -> dict[str, str]:
    """Return dialect → text, for every dialect that can say exactly these times. `now` is in ms."""
    shape = shape_of(fields)
    if shape is None or not shape.doms or not shape.dows:
        return {}
    found: dict[str, str] = {}
    for dialect, text in _candidates(shape):
        if dialect not in found and _reads_as(dialect, text, fields, now):
            found[dialect] = text
    return found


def convert_interval(every: Every) -> dict[str, str]:
    """Return dialect → text, for every dialect that has intervals of this length and phase."""
    seconds, rest = divmod(every.interval_ms, 1000)
    length, duration = f"every {seconds}s", f"PT{seconds}S"
    if rest:
        length, duration = f"every {every.interval_ms}ms", f"PT{seconds}.{rest:03d}S"
    texts = {"interval": length, "iso8601": duration}
    if every.anchor is not None:
        start = f"{datetime.fromtimestamp(every.anchor // 1000, UTC):%Y-%m-%dT%H:%M:%S}"
        start += f".{every.anchor % 1000:03d}Z" if every.anchor % 1000 else "Z"
        texts = {"interval": f"{length} from {start}", "iso8601": f"R/{start}/{duration}"}
    texts |= {
        "k8s": f"@every {seconds}s",
        "robfig": f"@every {seconds}s",
        "airflow": f"timedelta(seconds={seconds})",
    }
    for unit, unit_s in (("minute", 60), ("hour", 3600), ("day", 86_400)):
        count = seconds // unit_s
        if count * unit_s == seconds:
            texts["aws"] = f"rate({count} {unit}{'s' * (count > 1)})"
    return {dialect: text for dialect, text in texts.items() if _reads_as(dialect, text, every)}


def _reads_as(dialect: str, text: str, meaning: CronFields | Every, now: int = 0) -> bool:
    try:
        reading = DIALECTS[dialect].parse(text, Context(now=now, job_id="-"))
    except WaterclockError:
        return False
    if not isinstance(reading, Reading):
        return reading == meaning
    times = reading.times
    if isinstance(times, CronFields) or isinstance(meaning, Every):
        return times == meaning
    return times.dst == meaning.dst and _next(times, now) == _next(meaning, now)


def _next(times: LocalTimes, now: int) -> list[int]:
    found: list[int] = []
    last_day = now // _DAY_MS + HORIZON_DAYS
    at = times.first_from(now // 1000, last_day)
    while at is not None and len(found) < _COMPARED:
        found.append(at)
        at = times.first_from(at + 1, last_day)
    return found


def _candidates(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield dialect and text, the likelier texts first."""
    second, minute, hour, month = (
        _field(shape.seconds, 0, 59, wildcard=shape.seconds == ALL_MINUTES),
        _field(shape.minutes, 0, 59, wildcard=shape.wildcard),
        _field(shape.hours, 0, 23, wildcard=shape.wildcard),
        _field(shape.months, 1, 12, wildcard=True),
    )
    for dom, dow in _day_fields(shape):
        five = f"{minute} {hour} {dom} {month} {dow}"
        for dialect in ("vixie", "k8s", "airflow", "robfig", "node"):
            yield dialect, five
        yield "jenkins", f"{minute} {hour} {dom} {month} {_numbered(dow)}"
        for dialect in ("robfig", "node", "spring", "quartz"):
            yield dialect, f"{second} {five}"
        years = "*" if shape.years is None else _field(shape.years, 1970, 2199, wildcard=True)
        yield "quartz", f"{second} {five} {years}"
        yield "aws", f"cron({five} {years})"
        fields = {
            "minute": minute,
            "hour": hour,
            "day_of_month": dom,
            "month_of_year": month,
            "day_of_week": dow.lower(),
        }
        given = ", ".join(f"{name}='{text}'" for name, text in fields.items() if text != "*")
        yield "celery", f"crontab({given})"
    yield "systemd", _systemd(shape)
    if not shape.either and shape.years is None:
        yield "rrule", _rrule(shape)


def _day_fields(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield the ways to write day of month and day of week."""
    dom, dow = _field(shape.doms, 1, 31, wildcard=True), _weekdays(shape.dows, "-")
    if shape.nth_weekday and shape.doms != ALL_DOMS:
        day, n = shape.nth_weekday
        for name in (str(day + 1), _DOWS[day]):
            which = "L" if n < 0 else f"#{n}"
            yield "?", name + which
    if shape.from_end and shape.doms.bit_count() == 1:
        before = shape.doms.bit_length() - 2
        dom = f"L-{before}" if before else "L"
    elif shape.from_end:
        return
    yield dom, dow
    if dow == "*":
        yield dom, "?"
    if dom == "*":
        yield "?", dow


def _systemd(shape: Shape) -> str:
    weekdays = "" if shape.dows == ALL_DOWS else _weekdays(shape.dows, "..").title() + " "
    years = _systemd_field(shape.years, 1970, 2199, None)
    months = _systemd_field(shape.months, 1, 12, ALL_MONTHS)
    days = _systemd_field(shape.doms, 1, 31, ALL_DOMS)
    clock = ":".join(
        _systemd_field(mask, 0, high, full)
        for mask, high, full in (
            (shape.hours, 23, ALL_HOURS if shape.wildcard else -1),
            (shape.minutes, 59, ALL_MINUTES if shape.wildcard else -1),
            (shape.seconds, 59, ALL_MINUTES),
        )
    )
    return f"{weekdays}{years}-{months}{'~' if shape.from_end else '-'}{days} {clock}"


def _rrule(shape: Shape) -> str:
    doms = [-day if shape.from_end else day for day in bits(shape.doms)]
    dows = [WEEKDAYS[(dow - 1) % 7] for dow in bits(shape.dows)]
    parts: dict[str, list[int] | list[str]] = {
        "BYMONTH": [] if shape.months == ALL_MONTHS else bits(shape.months),
        "BYMONTHDAY": [] if shape.doms == ALL_DOMS else doms,
        "BYDAY": [] if shape.dows == ALL_DOWS else dows,
        "BYHOUR": [] if shape.wildcard and shape.hours == ALL_HOURS else bits(shape.hours),
        "BYMINUTE": [] if shape.wildcard and shape.minutes == ALL_MINUTES else bits(shape.minutes),
        "BYSECOND": bits(shape.seconds),
    }
    rule = "RRULE:FREQ=" + ("MINUTELY" if shape.wildcard else "DAILY")
    return rule + "".join(
        f";{part}={','.join(str(value) for value in values)}"
        for part, values in parts.items()
        if values
    )


def _systemd_field(mask: int | None, low: int, high: int, full: int | None) -> str:
    if mask is None or mask == full:
        return "*"
    step = step_of(mask, low, high)
    if step and step > 1:
        return f"{low:02d}/{step}"
    return ",".join(_runs(bits(mask), "..", lambda value: f"{value:02d}"))


def _field(mask: int, low: int, high: int, *, wildcard: bool) -> str:
    step = step_of(mask, low, high)
    if step:
        star = "*" if wildcard else f"{low}-{high}"
        return star if step == 1 else f"{star}/{step}"
    return ",".join(_runs(bits(mask), "-", str))


def _weekdays(mask: int, dash: str) -> str:
    """Return the weekdays, Sunday last and alone: no dialect reads that as a reversed range."""
    if mask == ALL_DOWS:
        return "*"
    runs = _runs([dow for dow in bits(mask) if dow], dash, lambda dow: _DOWS[dow])
    return ",".join([*runs, *(["SUN"] if mask & 1 else [])])


def _numbered(dow: str) -> str:
    return re.sub("[A-Z]{3}", lambda name: str(_DOWS.index(name[0])), dow)


def _runs(values: list[int], dash: str, write: Callable[[int], str]) -> list[str]:
    return [
        write(run[0]) if len(run) == 1 else f"{write(run[0])}{dash}{write(run[-1])}"
        for run in runs_of(values)
    ]
