"""Quartz: six or seven fields, seconds first, the year last if at all.

    second  minute  hour  day of month  month  day of week  [year 1970-2199]

- One of the two day fields must be `?`: Quartz cannot combine them, so nothing else is accepted.
- Weekdays are 1-7, and 1 is Sunday; so `2-6` are the working days.
- `L`, `W` and `#` as in days.py. In the day of week, `L` and `#` must be all of the field, and `L`
  alone is Saturday.
- A reversed range runs on past the end: `22-2`, `FRI-TUE`, `NOV-FEB`; not in the year.
- `a/step` means `a` to the field's end, and `/step` is `*/step`. A step must fit its field: up to
  59, 23, 31, 12 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.plan.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK_FROM_1,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
)
from engine.plan.cron_parse import Grammar, Word, read_cron, refusal
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.days import MonthDays

_DATE = (DAY_OF_MONTH, MONTH, DAY_OF_WEEK_FROM_1)
_SIX = (SECOND, MINUTE, HOUR, *_DATE)


def check_question(words: Mapping[str, Word]) -> None:
    """Refuse day fields of which not exactly one is `?`."""
    dom, dow = words["day of month"], words["day of week"]
    if (dom.text == "?") == (dow.text == "?"):
        which = "both are" if dow.text == "?" else "neither is"
        raise refusal(
            f"day of week: {dow.text!r} at character {dow.position} stands beside the day of month"
            f" {dom.text!r}; exactly one of the two must be '?', and {which}"
        )


GRAMMAR = Grammar(
    "Quartz",
    (_SIX, (*_SIX, YEAR)),
    lambda dom, dow: False,
    question="days",
    wraps=True,
    long_steps=False,
    open_steps=True,
    special=MonthDays(alone="L#", bare_l=True, before_w=True),
    check=check_question,
)
AWS_GRAMMAR = replace(GRAMMAR, name="aws", layouts=((MINUTE, HOUR, *_DATE, YEAR),))
"""EventBridge reads its fields as Quartz does, without seconds and always with the year."""


def parse(expr: str, context: Context) -> Reading:
    return Reading(read_cron(GRAMMAR, expr), " ".join(expr.split()))


QUARTZ = Dialect("quartz", "six or seven fields, seconds first, Sunday is 1, with ? L W #", parse)
