"""Propose: what to do about a plan that has come due. Pure; the commit decides whether it stands.

A due time is *on time* up to the plan's grace, and *late* after that:

    closed by a calendar skip it, and what follows it as long as the same calendar is closed
    on time              fire it; the next one follows
    late, fire_all       fire the missed times, one after the other: the latest `max_catch_up` of
                         them, skip those before
    late, fire_once      fire the latest time that has passed, skip those before it
    late, skip           fire nothing; skip what is late, go on with the first that is not

Every nominal time is fired or skipped, once; `next_at` only moves forward. Under calendars the late
times up to the next change of open and closed are dealt with, and the rest when they come due,
which is at once: one proposal skips for one reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.plan.calendar import NO_CALENDARS, Calendars
from engine.plan.plan import Plan
from engine.plan.rules import COUNT_CAP, Rule


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nominal times that do not fire: all from `first_at` to `last_at`, both included."""

    reason: Literal["late", "calendar", "dst_gap"]
    first_at: int
    last_at: int
    count: int
    exact: bool
    """False if there are more than `count`: counting stopped there."""
    detail: str | None = None
    """The calendar that closed them."""


@dataclass(frozen=True, slots=True)
class Proposal:
    nominal_at: int | None
    """The time to fire, if any."""
    next_at: int | None
    """The job's next due time; None if it has none. It may have passed too."""
    skipped: Skipped | None
    in_gap: Skipped | None = None
    """Times between this one and the next that a daylight-saving gap leaves out, by `dst_gap`
    `skip`. Each stands for the instant at which it would have fired otherwise."""


def propose(plan: Plan, due_at: int, now: int, calendars: Calendars = NO_CALENDARS) -> Proposal:
    """Return what to do at `now` about a nominal time `due_at` of the plan.

    Refuses with ValueError a `due_at` after `now`: nothing fires early.
    """
    if due_at > now:
        raise ValueError(f"due at {due_at}, which is after now, {now}")
    proposal = _propose(plan, due_at, now, calendars)
    if plan.dst_gap == "run_after" or proposal.next_at is None:
        return proposal
    return replace(proposal, in_gap=_left_out(plan, due_at, proposal.next_at))


def _left_out(plan: Plan, after: int, before: int) -> Skipped | None:
    """Return what `dst_gap` `skip` leaves out between two times, both excluded."""
    filled = replace(plan, dst_gap="run_after")
    found, at = [], filled.first_after(after, after)
    for _ in range(COUNT_CAP):
        if at is None or at >= before:
            break
        if plan.first_after(at - 1, at) != at:
            found.append(at)
        at = filled.first_after(at, at)
    return Skipped("dst_gap", found[0], found[-1], len(found), True) if found else None


def _propose(plan: Plan, due_at: int, now: int, calendars: Calendars) -> Proposal:
    rule = plan.rule_under(calendars)
    is_late = now - due_at > plan.misfire.grace_ms
    open_until = now
    if plan.calendars:
        opening = plan.opening(calendars)
        closed_by = opening.closed_by(due_at)
        # What is on time does not depend on `now`, which `Proposer` counts on.
        open_until = opening.same_until(due_at, now if is_late else due_at)
        if closed_by:
            return _pass_over(plan, rule, due_at, open_until, closed_by, calendars)
    if not is_late:
        return Proposal(due_at, rule.first_after(due_at, due_at), None)
    if plan.misfire.policy == "skip":
        last_at = min(now - plan.misfire.grace_ms - 1, open_until)
        skipped = skip_between(rule, due_at, last_at)
        return Proposal(None, rule.first_after(last_at, due_at), skipped)
    nominal_at = _first_to_catch_up(plan, due_at, now, calendars)
    if nominal_at > open_until:
        skipped = skip_between(rule, due_at, open_until)
        return Proposal(None, rule.first_after(open_until, due_at), skipped)
    missed = skip_between(rule, due_at, nominal_at - 1) if nominal_at > due_at else None
    return Proposal(nominal_at, rule.first_after(nominal_at, due_at), missed)


def _pass_over(
    plan: Plan, rule: Rule, due_at: int, until: int, closed_by: str, calendars: Calendars
) -> Proposal:
    """Return the proposal for times from `due_at` to `until` that a calendar closes."""
    if plan.roll == "next_business_day" and rule.first_after(due_at - 1, due_at) != due_at:
        # The calendar has changed since the time was worked out: it moved, and is still to come.
        return Proposal(None, rule.first_after(due_at, due_at), None)
    skipped = skip_between(rule, due_at, until, closed_by)
    return Proposal(None, rule.first_after(until, due_at), skipped)


def _first_to_catch_up(plan: Plan, due_at: int, now: int, calendars: Calendars) -> int:
    """Return the oldest of the latest open times up to `now` that the policy fires."""
    most = plan.misfire.max_catch_up if plan.misfire.policy == "fire_all" else 1
    rule = plan.rule_under(calendars)
    if most > 1:
        count, exact = rule.count(due_at, rule.latest(due_at, now))
        if exact and count <= most:
            return due_at
    return latest_times(plan, due_at, now, most, calendars)[0]


def skip_between(rule: Rule, first_at: int, until: int, closed_by: str | None = None) -> Skipped:
    """Return all nominal times from `first_at` (which is one) up to `until` as skipped: late, or
    closed by a calendar."""
    last_at = rule.latest(first_at, until)
    count, exact = rule.count(first_at, last_at)
    reason: Literal["late", "calendar"] = "calendar" if closed_by else "late"
    return Skipped(reason, first_at, last_at, count, exact, closed_by)


def latest_times(
    plan: Plan, first_at: int, until: int, most: int, calendars: Calendars = NO_CALENDARS
) -> list[int]:
    """Return the latest `most` open nominal times from `first_at` (a nominal time) to `until`, in
    order."""
    rule, opening = plan.rule_under(calendars), plan.opening(calendars)
    times: list[int] = []
    while len(times) < most and first_at <= until:
        at = rule.latest(first_at, until)
        stretch = opening.stretch(at)
        if stretch.closed_by:
            until = stretch.start - 1
        else:
            times.append(at)
            until = at - 1
    return times[::-1]


class Proposer:
    """`propose` that remembers: thousands of jobs share a plan and a due time.

    On-time proposals do not depend on `now`; late ones are remembered for the same `now` only,
    which is what the members of one batch have in common. When a calendar changes, all is
    forgotten. At most twice `size` proposals are kept: when the young half is full, the old half is
    dropped.
    """

    def __init__(self, size: int = 50_000) -> None:
        self._size = size
        self._young: dict[tuple[str, int, int], Proposal] = {}
        self._old: dict[tuple[str, int, int], Proposal] = {}
        self._stamp = 0

    def propose(
        self, plan: Plan, due_at: int, now: int, calendars: Calendars = NO_CALENDARS
    ) -> Proposal:
        """Return `propose(plan, due_at, now, calendars)`."""
        if calendars.stamp != self._stamp:
            self._stamp, self._young, self._old = calendars.stamp, {}, {}
        on_time = 0 <= now - due_at <= plan.misfire.grace_ms
        key = (plan.id, due_at, -1 if on_time else now)
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key) or propose(plan, due_at, now, calendars)
            if len(self._young) >= self._size:
                self._old, self._young = self._young, {}
            self._young[key] = found
        return found
