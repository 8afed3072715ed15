"""Node: five fields, or six with seconds first, as the npm packages read them.

The packages differ; where they do, cron-parser is followed (BullMQ, Bree and Agenda use it).

- Both day fields restricted: a day that matches either fires. A field is unrestricted only if it
  is `*` or `?` as a whole: `*/2` and `1-31` are restricted. (node-cron has both match.)
- Weekdays are 0-7, and 0 and 7 are Sunday; `1/2` runs on to 7. `?` may be a day field.
- A value that a list repeats is refused, and so are a reversed range and a step that is longer
  than the field.
- `L`, `L-3`, `15W`, `LW`, `5L` and `5#3` as in days.py; `#` must be all of its field.
- Beside cron's macros: `@secondly`, `@minutely`, `@weekdays`, `@weekends`.
"""

from __future__ import annotations

from engine.plan.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK_TO_7, HOUR, MINUTE, MONTH, SECOND
from engine.plan.cron_parse import Grammar, read_cron
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.days import MonthDays
from engine.plan.dialects.vixie import MACROS as VIXIE_MACROS

MACROS = VIXIE_MACROS | {
    "@secondly": "* * * * * *",
    "@minutely": "* * * * *",
    "@weekdays": "0 0 * * 1-5",
    "@weekends": "0 0 * * 0,6",
}
_FIVE = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK_TO_7)


def either_unless_all(dom: str, dow: str) -> bool:
    """Return whether both day fields are restricted, that is, neither is `*` or `?`."""
    return dom not in ("*", "?") and dow not in ("*", "?")


GRAMMAR = Grammar(
    "node",
    (_FIVE, (SECOND, *_FIVE)),
    either_unless_all,
    MACROS,
    question="days",
    repeats=False,
    special=MonthDays(alone="#"),
)


def parse(expr: str, context: Context) -> Reading:
    return Reading(read_cron(GRAMMAR, expr), " ".join(expr.split()))


NODE = Dialect("node", "five fields, or six with seconds first, as npm's cron packages", parse)
