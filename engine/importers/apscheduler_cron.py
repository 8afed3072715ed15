"""A cron trigger of APScheduler in a dialect of ours.

All its fields must match, weekdays are 0-6 from Monday, and of what is left out the fields finer
than the finest that is given are at their least, the others `*`. Quartz's dialect has all of that
but a day and a weekday together, for which celery's stands in where it can.
"""

from __future__ import annotations

import re
from typing import Any

from engine.errors import BadInput
from engine.importers.entry import Entry
from engine.importers.imported import Fields

FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
"""Coarse to fine, as APScheduler has them."""
DEFAULTS = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ORDINALS = {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "5th": "#5", "last": "L"}

_NTH = re.compile(rf"({'|'.join(ORDINALS)})\s+({'|'.join(WEEKDAYS)})")
_RANGE = re.compile(r"(\*|[a-z0-9]+)(?:-([a-z0-9]+))?(?:/([0-9]{1,2}))?")


def set_cron(entry: Entry, trigger: Fields, timezone: str | None) -> None:
    """Set the schedule. Refuses what no dialect here can say: weeks of the year, a numbered
    weekday beside other days, seconds or years where day and weekday both must match."""
    cron = _complete(trigger)
    if cron["week"] != "*":
        raise BadInput("trigger.week: weeks of the year have no counterpart here; use an rrule")
    day, weekdays = cron["day"], _weekdays(cron["day_of_week"])
    if nth := _NTH.fullmatch(day):
        number = _number(nth[2])
        spelled = f"{number}L" if nth[1] == "last" else f"{number}{ORDINALS[nth[1]]}"
        if weekdays is not None:
            raise BadInput("trigger.day: a numbered weekday beside day_of_week has no counterpart")
        _quartz(entry, cron, "?", spelled, timezone)
    elif weekdays is None:
        _quartz(entry, cron, "L" if day == "last" else day, "?", timezone)
    elif day == "*":
        names = ",".join(WEEKDAYS[weekday].upper() for weekday in weekdays)
        _quartz(entry, cron, "?", names, timezone)
    else:
        _celery(entry, cron, weekdays, timezone)


def _complete(trigger: Fields) -> dict[str, str]:
    given = {name: trigger.take(name) for name in FIELDS}
    named = [place for place, name in enumerate(FIELDS) if given[name] is not None]
    if not named:
        raise BadInput(f"trigger names none of {', '.join(FIELDS)}")
    complete = {}
    for place, name in enumerate(FIELDS):
        value: Any = given[name]
        if value is None:
            value = DEFAULTS.get(name, "*") if place > named[-1] else "*"
        complete[name] = re.sub(r"\s*,\s*", ",", str(value).strip().lower())
    return complete


def _quartz(
    entry: Entry, cron: dict[str, str], day: str, weekday: str, timezone: str | None
) -> None:
    fields = [cron["second"], cron["minute"], cron["hour"], day, cron["month"].upper(), weekday]
    if cron["year"] != "*":
        fields.append(cron["year"])
    if spaced := [field for field in fields if " " in field]:
        raise BadInput(f"{spaced[0][:32]!r} has no counterpart here")
    entry.schedule(" ".join(fields), "quartz", timezone)


def _celery(entry: Entry, cron: dict[str, str], weekdays: list[int], timezone: str | None) -> None:
    if cron["second"] != "0" or cron["year"] != "*" or "last" in cron["day"] or " " in cron["day"]:
        raise BadInput(
            "day and day_of_week must both match, which is said here without seconds, years and"
            " 'last' only; use an rrule"
        )
    names = ",".join(WEEKDAYS[weekday] for weekday in weekdays)
    fields = {
        "minute": cron["minute"],
        "hour": cron["hour"],
        "day_of_week": names,
        "day_of_month": cron["day"],
        "month_of_year": cron["month"],
    }
    call = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    entry.schedule(f"crontab({call})", "celery", timezone)


def _weekdays(text: str) -> list[int] | None:
    """Return the weekdays that match, from Monday as 0; None if all do."""
    if text == "*":
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if not match:
            raise _no_weekday(part)
        first = 0 if match[1] == "*" else _weekday(match[1])
        if match[2]:
            last = _weekday(match[2])
        else:
            last = first if match[1] != "*" and not match[3] else len(WEEKDAYS) - 1
        step = int(match[3] or 1)
        if last < first or step == 0:
            raise _no_weekday(part)
        found |= set(range(first, last + 1, step))
    return sorted(found)


def _weekday(text: str) -> int:
    if text in WEEKDAYS:
        return WEEKDAYS.index(text)
    if text in ("0", "1", "2", "3", "4", "5", "6"):
        return int(text)
    raise _no_weekday(text)


def _number(weekday: str) -> int:
    """Return Quartz's number of a weekday: Sunday is 1."""
    return (WEEKDAYS.index(weekday) + 1) % 7 + 1


def _no_weekday(text: str) -> BadInput:
    return BadInput(
        f"trigger.day_of_week: {text[:32]!r} is not read; weekdays are 0-6 or mon-sun, from Monday"
    )
