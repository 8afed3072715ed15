"""AWS EventBridge: `cron(…)`, `rate(…)` and `at(…)`.

    cron(minute  hour  day of month  month  day of week  year)

- The fields of `cron` are those of Quartz without seconds and with the year, and so are the rules:
  exactly one day field is `?`, weekdays are 1-7 and 1 is Sunday, reversed ranges run on, steps must
  fit; `L`, `W` and `#` as in days.py.
- `rate(5 minutes)` counts from the job's creation. Units are minute, hour and day, singular after 1
  and plural after all else.
- `at(2030-01-31T09:00:00)` is a local time in the job's zone, and takes no offset. In a
  daylight-saving gap it fires when the gap ends; of two, the first counts.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

from engine.errors import NeverFires
from engine.plan.cron_eval import FIXED_TIME, CronFields, first_after
from engine.plan.cron_parse import Word, read_words, refusal, split
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.interval import UNITS_MS, check_length
from engine.plan.dialects.quartz import AWS_GRAMMAR
from engine.plan.month_days import plain_table
from engine.plan.schedule import Every, Once
from engine.plan.zones import load_zone

_CALL = re.compile(r"\s*(cron|rate|at)\((.*)\)\s*")
_RATE = re.compile(r"([0-9]+) (minute|hour|day)(s?)")
_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_ALL_WEEKDAYS = 0b111_1111


def parse(expr: str, context: Context) -> Reading | Every | Once:
    match = _CALL.fullmatch(expr)
    if not match:
        raise refusal(
            f"{expr.strip()!r} at character 1 is not aws; write cron(…) with six fields, rate(…) or"
            " at(…)"
        )
    inner, position = match[2], match.start(2) + 1
    match match[1]:
        case "rate":
            return _parse_rate(inner, position)
        case "at":
            return _parse_at(inner, position, context)
        case _:
            return Reading(_parse_cron(inner, position - 1), f"cron({' '.join(inner.split())})")


@lru_cache(maxsize=4096)
def _parse_cron(inner: str, before: int) -> CronFields:
    words = [Word(word.text, word.position + before) for word in split(inner)]
    return read_words(AWS_GRAMMAR, words)


def _parse_rate(inner: str, position: int) -> Every:
    match = _RATE.fullmatch(inner)
    if not match:
        raise refusal(
            f"rate: {inner!r} at character {position} cannot be read; write a whole number, a space"
            " and minutes, hours or days, such as 'rate(5 minutes)'"
        )
    number, unit, plural = int(match[1]), match[2], match[3]
    if number == 0:
        raise refusal(f"rate: {inner!r} at character {position} is 0; use 1 or more")
    if (number == 1) == bool(plural):
        right = unit if number == 1 else f"{unit}s"
        raise refusal(
            f"rate: {inner!r} at character {position} has the wrong number; write"
            f" 'rate({number} {right})'"
        )
    return Every(check_length(inner, number * UNITS_MS[unit[0]]))


def _parse_at(inner: str, position: int, context: Context) -> Once:
    if not _AT.fullmatch(inner):
        raise refusal(
            f"at: {inner!r} at character {position} cannot be read; write a local time without an"
            " offset, such as 'at(2030-01-31T09:00:00)'"
        )
    try:
        local = datetime.fromisoformat(inner)
    except ValueError as error:
        raise refusal(
            f"at: {inner!r} at character {position} is no time of the calendar: {error}"
        ) from error
    times = CronFields(
        times=1 << local.hour * 60 + local.minute,
        months=1 << local.month,
        days=plain_table(1 << local.day, _ALL_WEEKDAYS, either=False),
        wildcard=False,
        seconds=1 << local.second,
        years=1 << local.year,
    )
    at = first_after(times, load_zone(context.timezone), FIXED_TIME, context.now // 1000)
    if at is None:
        raise NeverFires(
            f"{inner!r} has passed in {context.timezone}, or is more than 100 years away; leave"
            " schedule_expr out to run the job at once",
            field="schedule_expr",
        )
    return Once(at * 1000)


AWS = Dialect("aws", "EventBridge: cron(…) with the year last, rate(…), at(…)", parse)
