"""Intervals: `every 30s`, `every 1h30m`. Any nominal time of an interval job gives all the others.

The phase is no part of an interval: it is the job's, passed as `anchor`, any time the job has.
`every 90s from 2026-01-01T00:00:00Z` asks for one; without it, the job counts from its creation.
"""

from __future__ import annotations

import re

from engine.plan.cron_parse import refusal
from engine.plan.dialects.base import Dialect
from engine.plan.dialects.rfc3339 import parse_instant
from engine.plan.schedule import Every

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
MIN_INTERVAL_MS = 1000
MAX_INTERVAL_MS = 36_525 * UNITS_MS["d"]
"""A century, past which nothing is looked for."""

_PARTS = re.compile("".join(rf"(?:([0-9]{{1,18}}){unit}(?![a-z]))?" for unit in UNITS_MS))


def parse_every(expr: str) -> Every:
    """Return the interval that `every …` names, with the anchor that `from …` does.

    Units are d, h, m, s, ms, each at most once and the larger first. Refuses with
    BadExpression(field="schedule_expr") other text, and less than 1 s or more than 100 years.
    """
    text, _, start = " ".join(expr.split()).partition(" from ")
    return Every(parse_interval(text), parse_instant(start) if start else None)


def parse_interval(expr: str) -> int:
    """Return the interval in ms that `every …` names, without `from`; refuses as `parse_every`."""
    text = expr.strip().removeprefix("every").strip()
    match = _PARTS.fullmatch(text)
    if not match or not text:
        raise refusal(
            f"{text!r} is not an interval; write whole numbers with the units d, h, m, s, ms, the"
            " larger first, such as 'every 30s' or 'every 1h30m'"
        )
    parts = zip(match.groups(), UNITS_MS.values(), strict=True)
    return check_length(text, sum(int(number) * unit for number, unit in parts if number))


def check_length(text: str, interval_ms: int) -> int:
    """Return the interval that the text means. Refuses less than 1 s and more than 100 years."""
    if interval_ms < MIN_INTERVAL_MS:
        raise refusal(f"{text!r} is shorter than the shortest interval, 1s")
    if interval_ms > MAX_INTERVAL_MS:
        raise refusal(f"{text!r} is longer than the longest interval, 36525d (100 years)")
    return interval_ms


INTERVAL = Dialect(
    "interval", "a fixed distance: every 1h30m", lambda expr, context: parse_every(expr)
)
