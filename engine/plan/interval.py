"""Intervals: `every 30s`, `every 1h30m`. Any nominal time of an interval job gives all the others.

The phase is no part of an interval: it is the job's, passed as `anchor`, any time the job has.
"""

from __future__ import annotations

import re

from engine.plan.cron_parse import refusal

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
MIN_INTERVAL_MS = 1000
MAX_INTERVAL_MS = 36_525 * UNITS_MS["d"]
"""A century, past which nothing is looked for."""

_PARTS = re.compile("".join(rf"(?:([0-9]{{1,18}}){unit}(?![a-z]))?" for unit in UNITS_MS))


def parse_interval(expr: str) -> int:
    """Return the interval in ms that `every …` names.

    Units are d, h, m, s, ms, each at most once and the larger first. Refuses with
    BadExpression(field="schedule_expr") other text, and less than 1 s or more than 100 years.
    """
    text = expr.strip()[len("every") :].strip()
    match = _PARTS.fullmatch(text)
    if not match or not text:
        raise refusal(
            f"{text!r} is not an interval; write whole numbers with the units d, h, m, s, ms, the"
            " larger first, such as 'every 30s' or 'every 1h30m'"
        )
    parts = zip(match.groups(), UNITS_MS.values(), strict=True)
    total = sum(int(number) * unit for number, unit in parts if number)
    if total < MIN_INTERVAL_MS:
        raise refusal(f"{text!r} is shorter than the shortest interval, 1s")
    if total > MAX_INTERVAL_MS:
        raise refusal(f"{text!r} is longer than the longest interval, 36525d (100 years)")
    return total
