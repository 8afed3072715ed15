"""What calendars do to one nominal time, in words for people. Pure."""

from __future__ import annotations

from engine.plan.calendar import Calendars, Opening, day_text
from engine.plan.plan import Plan
from engine.plan.roll import RolledRule


def what_calendars_do(plan: Plan, at: int, calendars: Calendars) -> str | None:
    """Return what becomes of a nominal time of the plan because of its calendars: that it is
    skipped, or from which closed days it was moved here. None if they do nothing."""
    if not plan.calendars:
        return None
    opening = plan.opening(calendars)
    if closed_by := opening.closed_by(at):
        return f"skipped: closed by calendar {closed_by}"
    if plan.roll == "skip":
        return None
    moved = _moved_here(plan, at, opening)
    return f"moved from {', '.join(moved)}" if moved else None


def _moved_here(plan: Plan, at: int, opening: Opening) -> list[str]:
    """Return the closed days whose time rolled to `at`, each with the calendar that closes it."""
    day, within = opening.local(at)
    moved = []
    for source in RolledRule(plan.rule, opening, plan.roll).sources(day):
        origin = opening.instant_of(source, within)
        if source != day and plan.rule.first_after(origin - 1, at) == origin:
            moved.append(f"{day_text(source)}: closed by calendar {opening.closed_by(origin)}")
    return moved
