"""Jenkins: five fields of numbers, `H` for a number that is spread over jobs, and a `TZ=` line.

- `H` is one value of the field, `H(0-7)` one of the range, `H/15` every fifteenth from one of the
  first fifteen; `H/1` is `H`. A day of month is drawn from 1-28, so that every month has it. The
  value comes from a hash of the job's id (another hash than Jenkins's own).
- Both day fields must match, always: Jenkins has no OR as cron has.
- Weekdays are 0-7, and 0 and 7 are Sunday. There are no names.
- A step follows `*`, a range or `H`; `8/16` is refused. A step longer than the range is
  refused after `H`, one longer than the field everywhere. A reversed range is refused.
- Macros are hashed: `@hourly` is `H * * * *`, `@midnight` some time from 0:00 to 2:59.
- A first line `TZ=Area/City` sets the zone. Jenkins accepts several schedules, one a line; here
  each is a job of its own. Lines that are empty or start with `#` are ignored.
"""

from __future__ import annotations

import re
from dataclasses import replace

from engine.plan.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, Field
from engine.plan.cron_parse import Grammar, expand_macro, read_cron, refusal
from engine.plan.dialects.base import Context, Dialect, Reading, zone_in_text
from engine.plan.dialects.hashed import Draw, read_hashed, spread

MACROS = {
    "@yearly": "H H H H *",
    "@annually": "H H H H *",
    "@monthly": "H H H * *",
    "@weekly": "H H * * H",
    "@daily": "H H * * *",
    "@midnight": "H H(0-2) * * *",
    "@hourly": "H * * * *",
}
_FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, replace(MONTH, names=()), replace(DAY_OF_WEEK, names=()))
_LAST_SAFE_DAY = 28
_HASH = re.compile(r"H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?")

GRAMMAR = Grammar("Jenkins", (_FIELDS,), lambda dom, dow: False, MACROS, plain_steps=False)


def parse(expr: str, context: Context) -> Reading:
    text, timezone = _take_zone(expr)
    if text.strip().startswith("@"):
        text = expand_macro(GRAMMAR, text)
    if "H" in text:
        return replace(read_hashed(GRAMMAR, text, context.job_id, _choose), timezone=timezone)
    return Reading(read_cron(GRAMMAR, text), " ".join(text.split()), timezone)


def _take_zone(expr: str) -> tuple[str, str | None]:
    """Return the schedule, in its place among spaces, and the zone of a `TZ=` line."""
    timezone, kept, start = None, "", 0
    for number, line in enumerate(expr.splitlines(keepends=True)):
        text, position = line.strip(), start + 1
        start += len(line)
        if number == 0 and text.startswith("TZ="):
            timezone = text.removeprefix("TZ=")
            if " " in timezone or "\t" in timezone:
                raise refusal(
                    f"timezone: {text!r} at character {position} is more than a zone; the schedule"
                    " stands on the next line"
                )
            zone_in_text(timezone, position + len("TZ="))
        elif text and not text.startswith("#"):
            if kept:
                raise refusal(
                    f"{text!r} at character {position} is a second schedule; make it a job of its"
                    " own"
                )
            kept = " " * (position - 1) + line.rstrip()
    if not kept:
        raise refusal("minute: missing; a schedule of five fields follows the TZ= line")
    return kept, timezone


def _choose(field: Field, entry: str, draw: Draw) -> str | None:
    match = _HASH.fullmatch(entry)
    if not match:
        return None
    last = _LAST_SAFE_DAY if field is DAY_OF_MONTH else field.high
    ends = (field.value(match[1]), field.value(match[2])) if match[1] else (field.low, last)
    if ends[0] is None or ends[1] is None:
        raise ValueError(f"is not in {field.wanted}")
    # Jenkins spells "no step" as a step of 1.
    step = int(match[3] or 1)
    return spread(draw, ends[0], ends[1], None if step == 1 else step)


JENKINS = Dialect("jenkins", "five fields, with H for a value spread over jobs", parse, lines=True)
