"""Vixie: five fields, as cron has had since 1987, in the reading of Vixie cron and cronie.

- Both day fields restricted: a day that matches either fires. If one of them starts with `*`
  (`*/2` counts), both must match: cronie's star rule.
- Weekdays are 0-7, and 0 and 7 are Sunday; names may stand in lists and ranges.
- `5-5` is 5 and `MON-MON` is Monday; a reversed range (`22-2`, `SAT-SUN`) is refused.
- `a/step` means `a` to the field's end. A step that is longer than the field (`*/90`) is refused:
  cron would take the first value alone, which nobody means who writes it.
- `0~30` is one minute of the range, `~` one of the whole field, and `~/10` every tenth from one of
  the first ten (cronie, OpenBSD). cron draws it when it reads the file; here it is drawn from a
  hash of the job's id, so it never changes.
- Macros may be written in either case. `@reboot`, which means each start of cron there, means each
  start of the deployment.
"""

from __future__ import annotations

import re

from engine.plan.cron_eval import CronFields
from engine.plan.cron_fields import FIVE_FIELDS, Field
from engine.plan.cron_parse import Grammar, read_cron
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.hashed import Draw, read_hashed, spread
from engine.plan.schedule import Reboot

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FOREIGN = (
    (re.compile(r".*\?.*"), "'?' is Quartz; cron writes '*'"),
    (re.compile(r"([0-9]*|[A-Z]{3})(LW?|W)([-/#].*)?|.*#.*"), "L, W and # are Quartz, not cron"),
    (re.compile(r"H([(/].*)?"), "H is Jenkins; name that dialect"),
    (re.compile(r"R([(/].*)?"), "random times are refused; write ~ for one that stays"),
)
"""Spellings of other schedulers, and what to say to them."""

_RANDOM = re.compile(r"([0-9]+|[A-Z]{3})?~([0-9]+|[A-Z]{3})?(?:/([0-9]+))?")


def explain_foreign(entry: str) -> str | None:
    for spelling, hint in _FOREIGN:
        if spelling.fullmatch(entry):
            return f"is not cron: {hint}"
    return None


def _star_rule(dom: str, dow: str) -> bool:
    return not (dom.startswith("*") or dow.startswith("*"))


GRAMMAR = Grammar("cron", (FIVE_FIELDS,), _star_rule, MACROS, explain=explain_foreign)


def parse_cron(expr: str) -> CronFields:
    """Return what the expression matches.

    Refuses with BadExpression(field="schedule_expr") what cron cannot read.
    """
    return read_cron(GRAMMAR, expr)


def parse(expr: str, context: Context) -> Reading | Reboot:
    if expr.strip().lower() == "@reboot":
        return Reboot()
    if "~" in expr:
        return read_hashed(GRAMMAR, expr, context.job_id, _choose)
    return Reading(parse_cron(expr), " ".join(expr.split()))


def _choose(field: Field, entry: str, draw: Draw) -> str | None:
    match = _RANDOM.fullmatch(entry)
    if not match:
        return None
    first, last = field.value(match[1] or str(field.low)), field.value(match[2] or str(field.high))
    if first is None or last is None:
        raise ValueError(f"is not in {field.wanted}")
    return spread(draw, first, last, int(match[3]) if match[3] else None)


VIXIE = Dialect("vixie", "five fields, minute first, as in crontab(5)", parse)
