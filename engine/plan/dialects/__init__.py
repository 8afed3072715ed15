"""The dialects that schedules are written in: one table, and the rule that recognises them.

Each dialect is a small module that states its own rules, and offers one `Dialect`. Only those
spellings are recognised that no two dialects read differently; a dialect that is named is always
used, whatever the text looks like.
"""

from __future__ import annotations

import re

from engine.errors import BadInput
from engine.plan.cron_parse import refusal
from engine.plan.dialects.airflow import AIRFLOW
from engine.plan.dialects.aws import AWS
from engine.plan.dialects.base import Context, Dialect, Reading
from engine.plan.dialects.celery import CELERY
from engine.plan.dialects.interval import INTERVAL
from engine.plan.dialects.iso8601 import ISO_8601
from engine.plan.dialects.jenkins import JENKINS
from engine.plan.dialects.node import NODE
from engine.plan.dialects.quartz import QUARTZ
from engine.plan.dialects.rfc3339 import RFC_3339
from engine.plan.dialects.robfig import K8S, ROBFIG
from engine.plan.dialects.rrule import RRULE
from engine.plan.dialects.spring import SPRING
from engine.plan.dialects.systemd import SYSTEMD
from engine.plan.dialects.vixie import VIXIE

__all__ = ["DIALECTS", "Context", "Dialect", "Reading", "find_dialect", "recognise"]

_ALL = (
    *(VIXIE, K8S, ROBFIG, NODE, AIRFLOW, JENKINS, CELERY),
    *(QUARTZ, SPRING, AWS, SYSTEMD, RRULE, INTERVAL, ISO_8601, RFC_3339),
)
DIALECTS = {dialect.name: dialect for dialect in _ALL}
"""Name → dialect, for every dialect there is."""

_HASH = r"H(?:\(\d+-\d+\))?(?:/\d+)?"
_SPELLINGS = (
    (re.compile(r"[0-9]{4}-"), "rfc3339"),
    (re.compile(r"every\b"), "interval"),
    (re.compile(r"P[0-9T]|R[0-9]*/"), "iso8601"),
    (re.compile(r"(rate|cron|at)\("), "aws"),
    (re.compile(r"(?i:RRULE|DTSTART|FREQ)[:;=]"), "rrule"),
    (re.compile(r"@every[ \t]+\S|(CRON_)?TZ=\S+[ \t]+\S"), "k8s"),
    (re.compile(r"crontab\("), "celery"),
    (re.compile(r"(datetime\.)?timedelta\("), "airflow"),
    (re.compile(rf"TZ=\S+\n|(\S+[ \t]+){{0,4}}(\S+,)?{_HASH}(,\S+)?([ \t]|$)"), "jenkins"),
)
"""How a text starts, and the one dialect in which texts start so. The first that fits counts."""


def recognise(expr: str) -> str:
    """Return the name of the dialect that `expr` is written in: vixie, if nothing else is plain.

    Refuses with BadExpression(field="schedule_expr") six and seven fields, which dialects read
    differently.
    """
    text = expr.strip()
    for spelling, name in _SPELLINGS:
        if spelling.match(text):
            return name
    words = [*re.finditer(r"\S+", expr)]
    if len(words) in (6, 7):
        sixth = words[5]
        raise refusal(
            f"{sixth[0]!r} at character {sixth.start() + 1} is a field too many: five are cron's,"
            f" found {len(words)}. Seconds come first in quartz, spring, node and k8s, the year"
            " last in aws and quartz: name the dialect"
        )
    return VIXIE.name


def find_dialect(name: str) -> Dialect:
    """Return the dialect of that name. Refuses with BadInput(field="dialect") any other."""
    if name not in DIALECTS:
        raise BadInput(
            f"unknown dialect {name[:64]!r}; known are {', '.join(DIALECTS)}", field="dialect"
        )
    return DIALECTS[name]
