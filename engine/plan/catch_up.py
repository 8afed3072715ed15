"""What to do about times that a pause, an edit or an operator's choice left behind. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from engine.plan.calendar import NO_CALENDARS, Calendars
from engine.plan.plan import MisfirePolicy, Plan
from engine.plan.proposal import Skipped, latest_times, skip_between


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Nominal times to run, oldest first; those that are skipped; and the first one to come."""

    run: list[int]
    skipped: Skipped | None
    """All times before those that run."""
    next_at: int | None
    closed: list[Skipped] = field(default_factory=list)
    """What calendars close between those that run, and after them."""


def catch_up(
    plan: Plan,
    first_at: int,
    now: int,
    *,
    policy: MisfirePolicy | None = None,
    most: int | None = None,
    calendars: Calendars = NO_CALENDARS,
) -> CatchUp:
    """Return what to do about the nominal times from `first_at` to `now`, both included.

    `policy` decides, or else the plan's own: `skip` runs none, `fire_once` the latest that is open,
    `fire_all` the latest `max_catch_up` of the plan. A job that has `most` runs left runs no more,
    and has no time to come once they are spent. Every time is run or skipped.
    """
    if first_at > now:
        return CatchUp([], None, first_at)
    policy = policy or plan.misfire.policy
    wanted = {"skip": 0, "fire_once": 1, "fire_all": plan.misfire.max_catch_up}[policy]
    if most is not None:
        wanted = min(wanted, most)
    rule = plan.rule_under(calendars)
    run = latest_times(plan, first_at, now, wanted, calendars)
    last_skipped = run[0] - 1 if run else now
    skipped = skip_between(rule, first_at, last_skipped) if first_at <= last_skipped else None
    closed = _closed_between(plan, [*run, now + 1], calendars) if run else []
    next_at = None if most and len(run) == most else rule.first_after(now, first_at)
    return CatchUp(run, skipped, next_at, closed)


def _closed_between(plan: Plan, times: list[int], calendars: Calendars) -> list[Skipped]:
    if not plan.calendars:
        return []
    rule, opening = plan.rule_under(calendars), plan.opening(calendars)
    closed = []
    for before, after in pairwise(times):
        at = rule.first_after(before, before)
        while at is not None and at < after:
            until = opening.same_until(at, after - 1)
            closed.append(skip_between(rule, at, until, opening.closed_by(at)))
            at = rule.first_after(until, before)
    return closed
