"""robfig/cron, the parser of Kubernetes and of much else in Go: five fields, or six with seconds.

- Both day fields restricted: a day that matches either fires. If one is `*` or `?`, both must
  match. Unlike cronie, `*/2` counts as restricted (`*/1` does not).
- Weekdays are 0-6 and 0 is Sunday: 7 is refused. `?` may stand wherever `*` may.
- `a/step` means `a` to the field's end; one longer than the field is refused. A reversed range is
  refused.
- `@every 1h30m` takes a Go duration and counts from the job's creation; parts of a second are
  dropped, and less than one is refused.
- `CRON_TZ=Area/City` or `TZ=…` before the fields sets the zone, and overrules the job's.
- Six fields are what the library offers beside the standard five; a Kubernetes CronJob has five.
"""

from __future__ import annotations

import re
from decimal import Decimal

from engine.plan.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK_TO_6, HOUR, MINUTE, MONTH, SECOND
from engine.plan.cron_parse import Grammar, read_cron, refusal
from engine.plan.dialects.base import Context, Dialect, Reading, zone_in_text
from engine.plan.dialects.interval import check_length
from engine.plan.dialects.vixie import MACROS
from engine.plan.schedule import Every

_FIVE = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK_TO_6)
_ZONE = re.compile(r"\s*(?:CRON_)?TZ=(\S*)[ \t]+(?=\S)")
_EVERY = re.compile(r"\s*@every\b\s*(.*?)\s*")
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|m|s|us|ns)")
_NS = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1000,
    "ns": 1,
}


def _is_star(text: str) -> bool:
    return any(entry in ("*", "?", "*/1", "?/1") for entry in text.split(","))


def _either(dom: str, dow: str) -> bool:
    return not (_is_star(dom) or _is_star(dow))


GRAMMAR = Grammar("robfig/cron", (_FIVE, (SECOND, *_FIVE)), _either, MACROS, question="always")


def parse(expr: str, context: Context) -> Reading | Every:
    timezone = None
    if match := _ZONE.match(expr):
        timezone = match[1]
        zone_in_text(timezone, match.start(1) + 1)
        expr = " " * match.end() + expr[match.end() :]
    if match := _EVERY.fullmatch(expr):
        return Every(_parse_duration(match[1], match.start(1) + 1))
    return Reading(read_cron(GRAMMAR, expr), " ".join(expr.split()), timezone)


def _parse_duration(text: str, position: int) -> int:
    total, end = Decimal(0), 0
    while end < len(text) and (part := _PART.match(text, end)):
        total += Decimal(part[1]) * _NS[part[2]]
        end = part.end()
    if end < len(text) or not text:
        raise refusal(
            f"@every: {text!r} at character {position} is not a Go duration, such as 90s or 1h30m"
        )
    return check_length(text, int(total) // _NS["s"] * 1000)


K8S = Dialect("k8s", "five fields (or six, seconds first), CRON_TZ=, @every 1h30m", parse)
ROBFIG = Dialect("robfig", "the same as k8s, under the library's own name", parse)
