"""One part of a joined schedule, as a plan keeps it: local times, an interval, or a single time.

An interval's phase is a job's own as a rule. Here it is in the part: a plan has one anchor, and
several intervals need one each. So jobs with joined intervals share a plan only if the phases agree
(`every 90s from …` says one).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.plan.cron_eval import DstRule
from engine.plan.dialects import DIALECTS, Context, Reading
from engine.plan.rules import BoundedRule, CronRule, EveryRule, OnceRule, Rule
from engine.plan.schedule import DEFAULT_DIALECT, Cron, Every, Joined, Once


@dataclass(frozen=True)
class Part:
    kind: Literal["cron", "every", "once"]
    expr: str = ""
    timezone: str = "UTC"
    dialect: str = DEFAULT_DIALECT
    interval_ms: int = 0
    phase: int = 0
    """A nominal time of the part, and its first one."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        defaults = vars(Part(self.kind))
        return {"kind": self.kind} | {
            name: value for name, value in asdict(self).items() if value != defaults[name]
        }

    def rule(self, dst: DstRule) -> Rule:
        match self.kind:
            case "cron":
                return cron_rule(self.expr, self.timezone, self.dialect, dst)
            case "every":
                return BoundedRule(EveryRule(self.interval_ms), self.phase, None)
            case "once":
                return OnceRule()


def cron_rule(expr: str, timezone: str, dialect: str, dst: DstRule) -> CronRule:
    """Return the rule of an expression that its dialect has read before."""
    reading = DIALECTS[dialect].parse(expr, Context(timezone))
    assert isinstance(reading, Reading)
    return CronRule(reading.times, timezone, dst)


def parts_of(joined: Joined, phase: int) -> tuple[Part, ...]:
    """Return the parts of a joined schedule. An interval without a phase of its own takes `phase`,
    cut to the first time since 1970, so that equal phases are equal plans."""
    return tuple(_part(schedule, phase) for schedule in joined.parts)


def _part(schedule: Cron | Every | Once, phase: int) -> Part:
    match schedule:
        case Cron(expr, timezone, dialect):
            return Part("cron", expr, timezone, dialect)
        case Every(interval_ms, None):
            return Part("every", interval_ms=interval_ms, phase=phase % interval_ms)
        case Every(interval_ms, anchor):
            return Part("every", interval_ms=interval_ms, phase=anchor or 0)
        case Once(at):
            return Part("once", phase=at)
