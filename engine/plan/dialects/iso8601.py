"""ISO 8601 durations and repeating intervals: `PT90S`, `P1D`, `R/2026-01-01T00:00:00Z/PT1H`.

A duration is weeks, or days, hours, minutes and seconds: whole numbers, but for the seconds, which
may have a fraction down to the millisecond. A day is 24 hours, whatever the clock does; months and
years have no length and are refused. `R/start/duration` repeats for ever and has its phase from
`start`, which needs an offset from UTC; a limited number of repetitions is refused.
"""

from __future__ import annotations

import re

from engine.plan.cron_parse import refusal
from engine.plan.dialects.base import Dialect
from engine.plan.dialects.interval import UNITS_MS, check_length
from engine.plan.dialects.rfc3339 import parse_instant
from engine.plan.schedule import Every

_WEEKS = re.compile(r"P([0-9]{1,9})W")
_DURATION = re.compile(
    r"P(?!$)(?:([0-9]{1,9})D)?"
    r"(?:T(?!$)(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:\.([0-9]{1,3}))?S)?)?"
)
_CALENDAR = re.compile(r"P[0-9]+[YM].*")


def parse_iso8601(expr: str) -> Every:
    """Return the interval that a duration or a repeating interval means.

    Refuses with BadExpression(field="schedule_expr") other text, months and years, repetitions that
    end, and less than 1 s or more than 100 years.
    """
    text = expr.strip()
    position = expr.index(text) + 1
    if not text.startswith("R"):
        return Every(_duration(text, position))
    parts = text.split("/")
    if parts[0] != "R":
        raise refusal(
            f"repetitions: {parts[0]!r} at character {position} ends the job, which only RRULE can"
            " do, with COUNT or UNTIL; write R/ to repeat for ever"
        )
    if not 2 <= len(parts) <= 3:
        raise refusal(
            f"expression: {text!r} at character {position} is no repeating interval; write"
            " R/2026-01-01T00:00:00Z/PT1H or R/PT1H"
        )
    anchor = parse_instant(parts[1]) if len(parts) == 3 else None
    return Every(_duration(parts[-1], position + len(text) - len(parts[-1])), anchor)


def _duration(text: str, position: int) -> int:
    spot = f"duration: {text!r} at character {position}"
    if weeks := _WEEKS.fullmatch(text):
        return check_length(text, int(weeks[1]) * 7 * UNITS_MS["d"])
    if _CALENDAR.fullmatch(text):
        raise refusal(
            f"{spot} has months or years, whose length differs; use cron ('0 0 1 * *'), or"
            " RRULE:FREQ=MONTHLY with INTERVAL. Minutes are written after a T: PT5M"
        )
    match = _DURATION.fullmatch(text)
    if not match:
        raise refusal(f"{spot} cannot be read; write P1D, PT1H30M, PT90S or P2W")
    *whole, fraction = match.groups()
    total = sum(int(n or 0) * UNITS_MS[unit] for n, unit in zip(whole, "dhms", strict=True))
    return check_length(text, total + int((fraction or "0").ljust(3, "0")))


ISO_8601 = Dialect(
    "iso8601", "a duration: PT90S, R/2026-01-01T00:00:00Z/PT1H", lambda expr, _: parse_iso8601(expr)
)
