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
from engine.plan.rules import CronRule, EveryRule, ImmediateRule, OnceRule, Rule
from engine.plan.schedule import Cron, Every, Immediate, Once, Schedule

Kind = Literal["cron", "every", "once", "immediate"]
MisfirePolicy = Literal["fire_once", "fire_all", "skip"]
DEFAULT_GRACE_MS = 60_000


@dataclass(frozen=True)
class Misfire:
    """What to do with times that are late by more than the grace."""

    policy: MisfirePolicy = "fire_once"
    grace_ms: int = DEFAULT_GRACE_MS

    def __post_init__(self) -> None:
        if self.policy not in get_args(MisfirePolicy):
            wanted = ", ".join(get_args(MisfirePolicy))
            raise BadInput(
                f"{self.policy!r} is no misfire policy; use {wanted}", field="misfire.policy"
            )
        if self.grace_ms < 0:
            raise BadInput("the grace is 0 ms or more", field="misfire.grace_ms")


@dataclass(frozen=True)
class Plan:
    """When a job fires, without what is the job's own. Build one with `Plan.of`."""

    kind: Kind
    expr: str = ""
    timezone: str = "UTC"
    interval_ms: int = 0
    misfire: Misfire = field(default_factory=Misfire)

    @classmethod
    def of(cls, schedule: Schedule, misfire: Misfire | None = None) -> Plan:
        """Return the plan of a schedule. Every Once has the same plan, and so has every phase."""
        misfire = misfire or Misfire()
        match schedule:
            case Cron(expr, timezone):
                return cls("cron", expr, timezone, misfire=misfire)
            case Every(interval_ms):
                return cls("every", interval_ms=interval_ms, misfire=misfire)
            case Once():
                return cls("once", misfire=misfire)
            case Immediate():
                return cls("immediate", misfire=misfire)

    @staticmethod
    def from_canonical(canonical: bytes) -> Plan:
        """Return the plan that `canonical` was made from; equal bytes give the same object.

        Refuses with NotSupported a plan of a newer version, whose fields this one does not know.
        """
        return _decode(canonical)

    @cached_property
    def canonical(self) -> bytes:
        """The plan as compact JSON with sorted keys, defaults left out."""
        values: dict[str, Any] = {"kind": self.kind}
        for name in ("expr", "timezone", "interval_ms"):
            if getattr(self, name) != getattr(_DEFAULTS, name):
                values[name] = getattr(self, name)
        if self.misfire != _DEFAULTS.misfire:
            values["misfire"] = vars(self.misfire)
        return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()

    @cached_property
    def id(self) -> str:
        """Eleven url-safe characters: a 64-bit hash of the canonical form."""
        digest = blake2b(self.canonical, digest_size=8).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    @cached_property
    def rule(self) -> Rule:
        """The plan compiled: its times, without the misfire policy."""
        match self.kind:
            case "cron":
                return CronRule(self.expr, self.timezone)
            case "every":
                return EveryRule(self.interval_ms)
            case "once":
                return OnceRule()
            case "immediate":
                return ImmediateRule()

    def first_after(self, after: int, anchor: int) -> int | None:
        """Return the first nominal time strictly after `after`, or None if there is none.

        `anchor` is any nominal time of the job: cron needs none, an interval takes its phase from
        it, and a one-off has no other time. An immediate job has no nominal time to come.
        """
        return self.rule.first_after(after, anchor)

    def upcoming(self, after: int, anchor: int, n: int) -> list[int]:
        """Return the first `n` nominal times strictly after `after`, or as many as there are."""
        times: list[int] = []
        at = self.first_after(after, anchor)
        while at is not None and len(times) < n:
            times.append(at)
            at = self.first_after(at, anchor)
        return times


_DEFAULTS = Plan("immediate")


@lru_cache(maxsize=16_384)
def _decode(canonical: bytes) -> Plan:
    values = json.loads(canonical)
    try:
        if "misfire" in values:
            values["misfire"] = Misfire(**values["misfire"])
        return Plan(**values)
    except TypeError as error:
        raise NotSupported(f"a plan of a newer version: {canonical!r}") from error
