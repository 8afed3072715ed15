"""What the name of a figure says: its unit, whether more is better, and how it is written."""

from __future__ import annotations

from enum import IntEnum
from math import floor, isfinite, log10

MORE_IS_BETTER = ("per_s", "ratio")
LESS_IS_BETTER = ("ms", "us", "s", "bytes", "mb", "percent", "lost", "doubled")
YARDSTICKS = ("floor", "bare")
"""What is measured to be compared with. It says what the machine could do at the time: neither more
nor less of it is to our credit."""
PEER = "__"
"""Stands before the name of who was measured, where there are several."""
OURSELVES = "waterclock"


class Better(IntEnum):
    MORE = 1
    LESS = -1
    NEITHER = 0


def better(metric: str) -> Better:
    """Return which way a figure is better: `…_per_s…` and `…ratio…` upwards, times, sizes and
    losses downwards, and neither for yardsticks, peers and what has no unit."""
    name, _, who = metric.partition(PEER)
    words = name.split("_")
    if words[0] in YARDSTICKS or (who and not who.startswith(OURSELVES)):
        return Better.NEITHER
    if any(unit in words or f"_{unit}_" in f"_{name}_" for unit in MORE_IS_BETTER):
        return Better.MORE
    return Better.LESS if set(words) & {*LESS_IS_BETTER} else Better.NEITHER


def written(value: float) -> str:
    """Return a figure for people: three digits that count, thousands set apart."""
    if not isfinite(value):
        return str(value)
    digits = max(0, 2 - floor(log10(abs(value)))) if value else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
