"""Airflow: its presets, `timedelta(…)`, and five fields as croniter reads them.

- Both day fields restricted: a day that matches either fires. A field is unrestricted only if it
  is `*` or `?` as a whole: `*/2` is restricted.
- Weekdays are 0-7, and 0 and 7 are Sunday. `?` may stand for `*` in a day field.
- A reversed range runs on past the end: `22-2`, `SAT-SUN`.
- `a/step` means `a` to the field's end; one longer than the field is refused.
- `L` is the last day of the month, `15W` the working day nearest to the 15th, `L5` the last Friday
  (the L comes first), `5#3` the third Friday.
- croniter takes six fields with the seconds last; here they are refused, since Airflow's schedules
  are made of minutes. It also takes `5-5` for `*`, and drops a day of month beside `5#3`: both are
  read as they are written.
- `timedelta(days=1)` is an interval that counts from the job's creation, as Airflow's does from the
  start date. `@once` and `@continuous` have no clock time.
"""

from __future__ import annotations

import re

from engine.plan.cron_fields import FIVE_FIELDS, Field
from engine.plan.cron_parse import Grammar, read_cron, refusal
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.days import MonthDays
from engine.plan.dialects.interval import check_length
from engine.plan.dialects.node import either_unless_all
from engine.plan.dialects.vixie import MACROS
from engine.plan.month_days import DaySet
from engine.plan.schedule import Every

_TIMEDELTA = re.compile(r"\s*(?:datetime\.)?timedelta\(\s*(.*?)\s*,?\s*\)\s*")
_PART = re.compile(r"(weeks|days|hours|minutes|seconds)\s*=\s*([0-9]{1,9})")
_MS = {
    "weeks": 7 * 86_400_000,
    "days": 86_400_000,
    "hours": 3_600_000,
    "minutes": 60_000,
    "seconds": 1000,
}
_days = MonthDays()


def _special(field: Field, entry: str, *, alone: bool) -> DaySet | str | None:
    if field.sunday is not None and entry.endswith("L"):
        return f"has the L last; Airflow writes it first, 'L{entry[:-1]}'"
    if field.sunday is not None and entry.startswith("L"):
        entry = entry[1:] + "L"
    if field.sunday is None and entry.startswith("L") and entry != "L":
        return "is not Airflow, which knows 'L' for the last day only"
    return _days(field, entry, alone=alone)


GRAMMAR = Grammar(
    "Airflow",
    (FIVE_FIELDS,),
    either_unless_all,
    MACROS | {"@quarterly": "0 0 1 */3 *"},
    question="days",
    wraps=True,
    special=_special,
)


def parse(expr: str, context: Context) -> Reading | Every:
    if match := _TIMEDELTA.fullmatch(expr):
        return Every(_parse_timedelta(match[1], match.start(1) + 1))
    return Reading(read_cron(GRAMMAR, expr), " ".join(expr.split()))


def _parse_timedelta(inner: str, position: int) -> int:
    parts = [_PART.fullmatch(part.strip()) for part in inner.split(",")]
    values = {part[1]: int(part[2]) for part in parts if part}
    if len(values) < len(parts):
        raise refusal(
            f"timedelta: {inner!r} at character {position} cannot be read; write whole numbers of"
            f" {', '.join(_MS)}, each once, such as 'timedelta(hours=1, minutes=30)'"
        )
    return check_length(inner, sum(number * _MS[unit] for unit, number in values.items()))


AIRFLOW = Dialect("airflow", "five fields as croniter reads them, presets, timedelta(…)", parse)
