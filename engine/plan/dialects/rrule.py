"""RRULE: the recurrence rules of iCalendar (RFC 5545, 3.3.10), as python-dateutil expands them.

    DTSTART;TZID=Europe/Berlin:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR

DTSTART may be left out, and so may `RRULE:`; a space, a line break or `;` stands between the two.
Weekdays are names, all `BY…` must match (AND), and negative numbers count from the end.

- Times are those of the clock on the wall, in TZID, or in UTC if DTSTART ends in Z, or else in the
  job's zone. Rules of HOURLY and finer are wildcard jobs and follow elapsed time.
- Without DTSTART the series begins today at 00:00:00. COUNT then has nothing to count from, and is
  refused. DTSTART itself fires only if the rule matches it, as in dateutil.
- UNTIL is the last time that may fire; a bare date means all of that day. COUNT is turned into
  UNTIL, so that no later search has to count.
- Refused: BYEASTER, RDATE, EXDATE; BYSETPOS below DAILY; weekdays with and without a number in one
  rule, of which dateutil would ask for both; more than 288 times a day, except below DAILY.

A refusal is a BadExpression that names the part, the text, its position and what would be right.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Any

from engine.errors import BadExpression, NeverFires
from engine.plan.cron_eval import HORIZON_DAYS
from engine.plan.cron_parse import Word, refusal
from engine.plan.dialects.base import Context, Dialect, Reading, zone_in_text
from engine.plan.recurrence import FREQUENCIES, TIME_PARTS, UNITS, WEEKDAYS, Recurrence
from engine.plan.zones import load_zone

MAX_COUNT = 1000
MAX_TIMES_A_DAY = 288

_RANGES = {
    "BYSECOND": (0, 59),
    "BYMINUTE": (0, 59),
    "BYHOUR": (0, 23),
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYSETPOS": (-366, 366),
    "INTERVAL": (1, 1_000_000),
    "COUNT": (1, MAX_COUNT),
}
_KNOWN = ("FREQ", "UNTIL", "WKST", "BYDAY", *_RANGES)
_PROPERTIES = re.compile(r"[^ \t\r\n;]+(?:;(?!RRULE:|DTSTART[:;])[^ \t\r\n;]*)*", re.IGNORECASE)
_START = re.compile(r"DTSTART(?:;VALUE=DATE(?:-TIME)?|;TZID=([^:;]+))*:(.*)", re.IGNORECASE)
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_WEEKDAY = re.compile(rf"([+-]?\d{{1,2}})?({'|'.join(WEEKDAYS)})")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 local time has no zone


def parse(expr: str, context: Context) -> Reading:
    """Return the times of the rule. Its text is kept with the DTSTART and UNTIL that it came to.

    Refuses with BadExpression what is not one rule that can be kept.
    """
    start_word, rule_word = _properties(expr)
    parts = _split_rule(rule_word)
    frequency = _frequency(parts.get("FREQ", rule_word))
    values: dict[str, tuple[Any, ...]] = {
        name: _numbers(name, word) for name, word in parts.items() if name in _RANGES
    }
    if "BYDAY" in parts:
        values["BYDAY"] = _weekdays(parts["BYDAY"], frequency)
    start, named_zone = _start(start_word, parts, context)
    timezone = named_zone or context.timezone
    interval, count = values.pop("INTERVAL", (1,)), values.pop("COUNT", None)
    times = Recurrence.with_start(
        frequency,
        interval[0],
        start,
        values,
        _until(parts["UNTIL"], timezone) if "UNTIL" in parts else None,
        _week_start(parts["WKST"]) if "WKST" in parts else 0,
    )
    _check_size(rule_word, times)
    kept = {name: word.text for name, word in parts.items() if name != "COUNT"}
    if count:
        last = _last_of(times, count[0])
        times = replace(times, until=last)
        kept["UNTIL"] = f"{_EPOCH + timedelta(seconds=last):%Y%m%dT%H%M%S}"
    rule = ";".join(f"{name}={text}" for name, text in kept.items())
    return Reading(times, f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{rule}", named_zone)


def _properties(expr: str) -> tuple[Word | None, Word]:
    """Return the DTSTART, if any, and the text of the rule."""
    start = rule = None
    for found in _PROPERTIES.finditer(expr):
        word = Word(found[0].upper(), found.start() + 1)
        if word.text.startswith("DTSTART") and not start:
            # A zone's name is the one thing whose case matters.
            start = Word(found[0], word.position)
        elif word.text.startswith(("RRULE:", "FREQ=")) and not rule:
            text = word.text.removeprefix("RRULE:")
            rule = Word(text, word.position + len(word.text) - len(text))
        else:
            raise _wrong("expression", word, "is not one DTSTART and one RRULE")
    if not rule:
        raise refusal("FREQ: missing; a rule is written RRULE:FREQ=DAILY;BYHOUR=9")
    return start, rule


def _split_rule(rule: Word) -> dict[str, Word]:
    parts: dict[str, Word] = {}
    position = rule.position
    for text in rule.text.removesuffix(";").split(";"):
        name, _, value = text.partition("=")
        word = Word(value, position + len(name) + 1)
        if name not in _KNOWN or not value:
            known = ", ".join(_KNOWN)
            raise _wrong("expression", Word(text, position), f"is no part of a rule: {known}")
        if name in parts:
            raise _wrong(name, word, "is given a second time")
        parts[name] = word
        position += len(text) + 1
    if "COUNT" in parts and "UNTIL" in parts:
        raise _wrong("UNTIL", parts["UNTIL"], "excludes COUNT: a rule ends in one way")
    return parts


def _frequency(word: Word) -> str:
    if word.text not in FREQUENCIES:
        raise _wrong("FREQ", word, f"is none of {', '.join(FREQUENCIES)}")
    return word.text


def _numbers(name: str, word: Word) -> tuple[int, ...]:
    low, high = _RANGES[name]
    values, position = [], word.position
    texts = word.text.split(",") if name.startswith("BY") else [word.text]
    for text in texts:
        value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,7}", text) else None
        if value is None or not low <= value <= high or (value == 0 and low != 0):
            raise _wrong(name, Word(text, position), f"is not in {low} to {high}" + _no_zero(low))
        values.append(value)
        position += len(text) + 1
    return tuple(values)


def _no_zero(low: int) -> str:
    return ", without 0" if low < 0 else ""


def _weekdays(word: Word, frequency: str) -> tuple[tuple[int, int], ...]:
    days, position = [], word.position
    for text in word.text.split(","):
        match = _WEEKDAY.fullmatch(text)
        if not match or (match[1] and not 1 <= abs(int(match[1])) <= 53):
            wanted = f"is none of {', '.join(WEEKDAYS)}, or a number, 1 to 53, before one: -1FR"
            raise _wrong("BYDAY", Word(text, position), wanted)
        if match[1] and frequency not in ("MONTHLY", "YEARLY"):
            raise _wrong(
                "BYDAY", Word(text, position), "has a number: MONTHLY and YEARLY have them"
            )
        days.append((WEEKDAYS.index(match[2]), int(match[1] or 0)))
        position += len(text) + 1
    if len({n == 0 for _, n in days}) > 1:
        raise _wrong("BYDAY", word, "mixes weekdays with and without a number; number them all")
    return tuple(days)


def _week_start(word: Word) -> int:
    if word.text not in WEEKDAYS:
        raise _wrong("WKST", word, f"is none of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(word.text)


def _start(
    word: Word | None, parts: dict[str, Word], context: Context
) -> tuple[datetime, str | None]:
    """Return the local start, and the zone that the text names for it, if it does."""
    if word is None:
        if "COUNT" in parts:
            raise _wrong("COUNT", parts["COUNT"], "has nothing to count from; add a DTSTART")
        today = load_zone(context.timezone).local(context.now // 1000).date()
        return datetime(today.year, today.month, today.day), None  # noqa: DTZ001
    match = _START.fullmatch(word.text)
    if not match:
        raise _wrong("DTSTART", word, "is not DTSTART[;TZID=zone]:YYYYMMDDTHHMMSS")
    at, is_utc = _time("DTSTART", Word(match[2], word.position + match.start(2)))
    if not 1900 <= at.year <= 2199:
        raise _wrong("DTSTART", word, "is not in the years 1900 to 2199")
    if match[1] is None:
        return at, "UTC" if is_utc else None
    zone_in_text(match[1], word.position + match.start(1))
    return at, match[1]


def _time(name: str, word: Word) -> tuple[datetime, bool]:
    """Return a date or a time, and whether it is in UTC."""
    match = _TIME.fullmatch(word.text.upper())
    if not match:
        raise _wrong(name, word, "is not a time, YYYYMMDDTHHMMSS, nor a date, YYYYMMDD")
    try:
        return datetime(*(int(digits or 0) for digits in match.groups()[:6])), bool(match[7])  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError as error:
        raise _wrong(name, word, f"is no time of the calendar: {error}") from error


def _until(word: Word, timezone: str) -> int:
    """Return the last local second up to and including UNTIL."""
    until, is_utc = _time("UNTIL", word)
    if is_utc:
        at = int(until.replace(tzinfo=UTC).timestamp())
        until = load_zone(timezone).local(at).replace(tzinfo=None)
    elif "T" not in word.text:
        until = until.replace(hour=23, minute=59, second=59)
    return (until - _EPOCH) // timedelta(seconds=1)


def _check_size(rule: Word, times: Recurrence) -> None:
    if times.frequency in UNITS:
        if "BYSETPOS" in times.parts:
            raise _wrong("BYSETPOS", rule, "has BYSETPOS, which needs DAILY or coarser")
    elif prod(len({*times.parts[part]}) for part in TIME_PARTS) > MAX_TIMES_A_DAY:
        raise _wrong("FREQ", rule, f"has more than {MAX_TIMES_A_DAY} times a day; use MINUTELY")


def _last_of(times: Recurrence, count: int) -> int:
    """Return the last of the first `count` local times, or of those within a century."""
    limit, at, last = times.start // 86_400 + HORIZON_DAYS, times.start - 1, None
    for _ in range(count):
        found = times.first_from(at + 1, limit)
        if found is None or found // 86_400 > limit:
            break
        at = last = found
    if last is None:
        raise NeverFires("the rule matches no time within a century", field="schedule_expr")
    return last


def _wrong(name: str, word: Word, why: str) -> BadExpression:
    return refusal(f"{name}: {word.text!r} at character {word.position} {why}")


RRULE = Dialect(
    "rrule", "a recurrence rule of iCalendar: FREQ=WEEKLY;BYDAY=MO,FR", parse, lines=True
)
