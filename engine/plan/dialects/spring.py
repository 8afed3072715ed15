"""Spring (5.3 and later): six fields, seconds first.

    second  minute  hour  day of month  month  day of week

- Both day fields must match, always. `?` may stand for `*` in either, and is not required.
- Weekdays are 0-7: 1 is Monday, 0 and 7 are Sunday. `*` is 1-7, so `*/2` is Monday, Wednesday,
  Friday and Sunday.
- A reversed range is refused, but Sunday may open one: `SUN-FRI`.
- `a/step` means `a` to the field's end (7 for weekdays); one longer than the field is refused.
- `L`, `L-3`, `LW`, `15W`, `5L`, `FRI#2` as in days.py, also in lists. Where Spring would carry
  `31W` over into the next month, the day stays in its own, as in Quartz.
- `-` turns a trigger off, which is not a schedule: it is refused.
"""

from __future__ import annotations

from engine.plan.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK_FROM_MONDAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
)
from engine.plan.cron_parse import Grammar, read_cron, refusal
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.days import MonthDays
from engine.plan.dialects.vixie import MACROS as VIXIE_MACROS

GRAMMAR = Grammar(
    "Spring",
    ((SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK_FROM_MONDAY),),
    lambda dom, dow: False,
    {name: f"0 {fields}" for name, fields in VIXIE_MACROS.items()},
    question="days",
    special=MonthDays(),
)


def parse(expr: str, context: Context) -> Reading:
    text = " ".join(expr.split())
    if text == "-":
        raise refusal("'-' at character 1 turns a trigger off in Spring; pause the job instead")
    return Reading(read_cron(GRAMMAR, expr), text)


SPRING = Dialect("spring", "six fields, seconds first, Monday is 1, with ? L W #", parse)
