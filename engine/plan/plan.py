"""A plan: the part of a job that decides its times, shared by all jobs that have the same one.

A plan is stored once per shard under its id, a short hash of its canonical JSON, so that a million
jobs on one schedule cost one entry and one computation per due time. What differs between such
jobs stays with the job: the time of a one-off, and the phase of an interval (`anchor`).

`canonical` leaves out every field that has its default, so a field added later changes
no id of a plan that does not use it.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Literal, get_args

from engine.errors import BadInput, NotSupported
from engine.plan.calendar import NO_CALENDARS, Calendars, Opening, check_calendar_name
from engine.plan.cron_eval import FIXED_TIME, DstRule, Gap, Overlap
from engine.plan.dialects import DIALECTS
from engine.plan.joined import Part, cron_rule, parts_of
from engine.plan.roll import Roll, RolledRule
from engine.plan.rules import BoundedRule, EveryRule, ImmediateRule, OnceRule, Rule, UnionRule
from engine.plan.schedule import (
    DEFAULT_DIALECT,
    Cron,
    Every,
    Immediate,
    Joined,
    Once,
    Reboot,
    Schedule,
)

Kind = Literal["cron", "every", "once", "immediate", "union", "reboot"]
MisfirePolicy = Literal["fire_once", "fire_all", "skip"]
DEFAULT_GRACE_MS = 60_000
MOST_CATCH_UP = 1_000
LONGEST_WINDOW_MS = 7 * 86_400_000
MOST_CALENDARS = 10


@dataclass(frozen=True)
class Misfire:
    """What to do with times that are late by more than the grace."""

    policy: MisfirePolicy = "fire_once"
    grace_ms: int = DEFAULT_GRACE_MS
    max_catch_up: int = 100
    """Missed times that `fire_all` makes up for; older ones are skipped."""

    def __post_init__(self) -> None:
        if self.policy not in get_args(MisfirePolicy):
            wanted = ", ".join(get_args(MisfirePolicy))
            raise BadInput(
                f"{self.policy!r} is no misfire policy; use {wanted}", field="misfire.policy"
            )
        if self.grace_ms < 0:
            raise BadInput("the grace is 0 ms or more", field="misfire.grace_ms")
        if not 1 <= self.max_catch_up <= MOST_CATCH_UP:
            raise BadInput(
                f"max_catch_up is 1 to {MOST_CATCH_UP} missed times", field="misfire.max_catch_up"
            )


@dataclass(frozen=True)
class Plan:
    """When a job fires, without what is the job's own. Build one with `Plan.of`."""

    kind: Kind
    expr: str = ""
    timezone: str = "UTC"
    interval_ms: int = 0
    misfire: Misfire = field(default_factory=Misfire)
    dialect: str = DEFAULT_DIALECT
    dst_gap: Gap = FIXED_TIME.gap
    dst_overlap: Overlap = FIXED_TIME.overlap
    start_at: int | None = None
    """No nominal time lies before this."""
    end_at: int | None = None
    """No nominal time lies after this."""
    window_ms: int = 0
    """Each job fires this much later at the most, always by the same amount (see `offset_of`)."""
    calendars: tuple[str, ...] = ()
    """Names of calendars: a nominal time fires only if all of them are open at it."""
    roll: Roll = "skip"
    """What becomes of a time whose date is closed: skipped, or moved to a business day."""
    parts: tuple[Part, ...] = ()
    """Of kind union alone."""

    def __post_init__(self) -> None:
        if not 0 <= self.window_ms <= LONGEST_WINDOW_MS:
            raise BadInput("a window is 0 ms to seven days", field="window_ms")
        if self.start_at is not None and self.end_at is not None and self.end_at < self.start_at:
            raise BadInput("end_at is before start_at, so nothing would fire", field="end_at")
        for name, allowed in (("dst_gap", Gap), ("dst_overlap", Overlap), ("roll", Roll)):
            if (value := getattr(self, name)) not in get_args(allowed):
                wanted = ", ".join(get_args(allowed))
                raise BadInput(f"{value!r} is no {name}; use {wanted}", field=name)
        if len(self.calendars) > MOST_CALENDARS or len({*self.calendars}) < len(self.calendars):
            raise BadInput(f"{MOST_CALENDARS} different calendars at the most", field="calendars")
        for name in self.calendars:
            check_calendar_name(name, "calendars")
        if self.kind == "reboot" and self.misfire != Misfire():
            raise BadInput("a start fires however late it is; leave misfire out", field="misfire")
        self._check_roll()

    def _check_roll(self) -> None:
        if self.roll == "skip":
            return
        if not self.calendars:
            raise BadInput("there is no calendar to roll by", field="roll")
        if self.kind not in ("cron", "union") or any(part.kind == "every" for part in self.parts):
            # Moved, an interval's time would be out of step with all the others.
            raise BadInput("only times of day can roll, and not an interval", field="roll")

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        misfire: Misfire | None = None,
        *,
        phase: int = 0,
        dst_gap: Gap = FIXED_TIME.gap,
        dst_overlap: Overlap = FIXED_TIME.overlap,
    ) -> Plan:
        """Return the plan of a schedule. Every Once has the same plan, and so has every phase;
        `phase` is for the intervals of a joined one.

        The `dst_…` settings are for fixed-time cron jobs, and dropped where they mean nothing.
        """
        misfire = misfire or Misfire()
        match schedule:
            case Cron(expr, timezone, dialect):
                return cls(
                    "cron",
                    expr,
                    timezone,
                    misfire=misfire,
                    dialect=dialect,
                    dst_gap=dst_gap,
                    dst_overlap=dst_overlap,
                )
            case Every(interval_ms):
                return cls("every", interval_ms=interval_ms, misfire=misfire)
            case Once():
                return cls("once", misfire=misfire)
            case Joined():
                return cls(
                    "union",
                    misfire=misfire,
                    dst_gap=dst_gap,
                    dst_overlap=dst_overlap,
                    parts=parts_of(schedule, phase),
                )
            case Immediate():
                return cls("immediate", misfire=misfire)
            case Reboot():
                return cls("reboot", misfire=misfire)

    @staticmethod
    def from_canonical(canonical: bytes) -> Plan:
        """Return the plan that `canonical` was made from; equal bytes give the same object.

        Refuses with NotSupported a plan of a newer version, of whose fields or dialects this one
        does not know.
        """
        return _decode(canonical)

    @cached_property
    def canonical(self) -> bytes:
        """The plan as compact JSON with sorted keys, defaults left out."""
        values: dict[str, Any] = {"kind": self.kind}
        for name in ("expr", "timezone", "interval_ms", "dialect", "dst_gap", "dst_overlap"):
            if getattr(self, name) != getattr(_DEFAULTS, name):
                values[name] = getattr(self, name)
        for name in ("start_at", "end_at", "window_ms", "calendars", "roll"):
            if getattr(self, name) != getattr(_DEFAULTS, name):
                values[name] = getattr(self, name)
        if self.parts:
            values["parts"] = [part.to_dict() for part in self.parts]
        if self.misfire != _DEFAULTS.misfire:
            values["misfire"] = {
                name: value
                for name, value in vars(self.misfire).items()
                if name != "max_catch_up" or value != _DEFAULTS.misfire.max_catch_up
            }
        return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()

    @cached_property
    def id(self) -> str:
        """Eleven url-safe characters: a 64-bit hash of the canonical form."""
        digest = blake2b(self.canonical, digest_size=8).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def offset_of(self, job_id: str) -> int:
        """Return how many ms after its nominal times a job is due: its place in the window.

        A hash of the id decides, so that a job's own time never wanders and many jobs spread
        evenly.
        """
        if not self.window_ms:
            return 0
        digest = blake2b(job_id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.window_ms

    @cached_property
    def rule(self) -> Rule:
        """The plan compiled: its times, without the misfire policy and as if no calendar rolled
        them."""
        return self._bounded(self._unbounded_rule)

    @cached_property
    def _unbounded_rule(self) -> Rule:
        dst = DstRule(self.dst_gap, self.dst_overlap)
        match self.kind:
            case "cron":
                return cron_rule(self.expr, self.timezone, self.dialect, dst)
            case "every":
                return EveryRule(self.interval_ms)
            case "once":
                return OnceRule()
            case "immediate" | "reboot":
                return ImmediateRule()
            case "union":
                return UnionRule([(part.rule(dst), part.phase) for part in self.parts])

    def _bounded(self, rule: Rule) -> Rule:
        if self.start_at is None and self.end_at is None:
            return rule
        return BoundedRule(rule, self.start_at, self.end_at)

    @cached_property
    def zones(self) -> frozenset[str]:
        """The zones of whose clocks on the wall the plan's times are. Intervals go by UTC, starts
        of the deployment by none."""
        if self.kind == "reboot":
            return frozenset()
        return frozenset(part.timezone for part in self.parts) or frozenset({self.timezone})

    def opening(self, calendars: Calendars) -> Opening:
        """Return when the plan's calendars are all open."""
        return calendars.opening(self.calendars, self.timezone)

    def rule_under(self, calendars: Calendars) -> Rule:
        """Return the plan's times, closed dates rolled. Times that are to be skipped are still
        among them."""
        if self.roll == "skip" or not self.calendars:
            return self.rule
        return self._bounded(RolledRule(self._unbounded_rule, self.opening(calendars), self.roll))

    def first_after(
        self, after: int, anchor: int, calendars: Calendars = NO_CALENDARS
    ) -> int | None:
        """Return the first nominal time strictly after `after`, or None if there is none.

        `anchor` is any nominal time of the job: cron needs none, an interval takes its phase from
        it, and a one-off has no other time. An immediate job has no nominal time to come, and one
        that fires at starts of the deployment (see starts.py) has none that is known before.
        `calendars` roll; a time that they have skipped is a nominal time all the same.
        """
        return self.rule_under(calendars).first_after(after, anchor)

    def upcoming(
        self, after: int, anchor: int, n: int, calendars: Calendars = NO_CALENDARS
    ) -> list[int]:
        """Return the first `n` nominal times strictly after `after`, or as many as there are."""
        rule = self.rule_under(calendars)
        times: list[int] = []
        at = rule.first_after(after, anchor)
        while at is not None and len(times) < n:
            times.append(at)
            at = rule.first_after(at, anchor)
        return times


_DEFAULTS = Plan("immediate")


@lru_cache(maxsize=16_384)
def _decode(canonical: bytes) -> Plan:
    values = json.loads(canonical)
    newer = NotSupported(f"a plan of a newer version: {canonical!r}")
    try:
        values["parts"] = tuple(Part(**part) for part in values.get("parts", ()))
        values["calendars"] = tuple(values.get("calendars", ()))
        if "misfire" in values:
            values["misfire"] = Misfire(**values["misfire"])
        plan = Plan(**values)
    except TypeError as error:
        raise newer from error
    if not DIALECTS.keys() >= {plan.dialect, *(part.dialect for part in plan.parts)}:
        raise newer
    return plan
