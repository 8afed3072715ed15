"""Propose: what to do about a plan that has come due. Pure; the commit decides whether it stands.

A due time is *on time* up to the plan's grace, and *late* after that:

    on time              fire it; the next one follows
    late, fire_all       the same: every missed time fires, one after the other
    late, fire_once      fire the latest time that has passed, skip those before it
    late, skip           fire nothing; skip what is late, go on with the first that is not

Every nominal time is fired or skipped, once; `next_at` only moves forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nominal times that do not fire: all from `first_at` to `last_at`, both included."""

    reason: Literal["late"]
    first_at: int
    last_at: int
    count: int
    exact: bool
    """False if there are more than `count`: counting stopped there."""


@dataclass(frozen=True, slots=True)
class Proposal:
    nominal_at: int | None
    """The time to fire, if any."""
    next_at: int | None
    """The job's next due time; None if it has none. It may have passed too."""
    skipped: Skipped | None


def propose(plan: Plan, due_at: int, now: int) -> Proposal:
    """Return what to do at `now` about a nominal time `due_at` of the plan.

    Refuses with ValueError a `due_at` after `now`: nothing fires early.
    """
    if due_at > now:
        raise ValueError(f"due at {due_at}, which is after now, {now}")
    misfire = plan.misfire
    if now - due_at <= misfire.grace_ms or misfire.policy == "fire_all":
        return Proposal(due_at, plan.first_after(due_at, due_at), None)
    if misfire.policy == "fire_once":
        latest = plan.rule.latest(due_at, now)
        skipped = _skip(plan, due_at, latest - 1) if latest > due_at else None
        return Proposal(latest, plan.first_after(now, due_at), skipped)
    newest_late = now - misfire.grace_ms - 1
    return Proposal(None, plan.first_after(newest_late, due_at), _skip(plan, due_at, newest_late))


def _skip(plan: Plan, first_at: int, until: int) -> Skipped:
    last_at = plan.rule.latest(first_at, until)
    count, exact = plan.rule.count(first_at, last_at)
    return Skipped("late", first_at, last_at, count, exact)


class Proposer:
    """`propose` that remembers: thousands of jobs share a plan and a due time.

    On-time proposals do not depend on `now`; late ones are remembered for the same `now` only,
    which is what the members of one batch have in common. At most twice `size` proposals are kept:
    when the young half is full, the old half is dropped.
    """

    def __init__(self, size: int = 50_000) -> None:
        self._size = size
        self._young: dict[tuple[str, int, int], Proposal] = {}
        self._old: dict[tuple[str, int, int], Proposal] = {}

    def propose(self, plan: Plan, due_at: int, now: int) -> Proposal:
        """Return `propose(plan, due_at, now)`."""
        on_time = 0 <= now - due_at <= plan.misfire.grace_ms
        key = (plan.id, due_at, -1 if on_time else now)
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key) or propose(plan, due_at, now)
            if len(self._young) >= self._size:
                self._old, self._young = self._young, {}
            self._young[key] = found
        return found
