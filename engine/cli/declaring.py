"""From files and what stands to a plan: the steps that make all as it is declared.

Both sides are brought into the form in which the API shows them, by its own code, so nothing counts
as a change but what would look different after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.declared import shown_calendar, shown_limit, wrong_in
from engine.cli.client import Api
from engine.cli.declaring_jobs import plan_jobs
from engine.cli.live import Answer, Live, Scope, read_live
from engine.declared import (
    Declared,
    Fault,
    Kind,
    Plan,
    Source,
    Step,
    Verb,
    levels,
    read_sources,
)
from engine.errors import BadInput, Cycle
from engine.plan import Calendar

_NAMED = ("name", "version")
"""What a calendar is shown with beside what it says."""


def make_plan(api: Api, sources: Sequence[Source], scope: Scope) -> Plan:
    """Return what must be done so that all is as the files declare. What is wrong in them is all in
    the plan's faults."""
    declared = read_sources(sources)
    plan = Plan(faults=declared.faults)
    if plan.faults:
        return plan
    live = read_live(api, declared, scope)
    calendars = _plan_calendars(declared, live, plan)
    _plan_limits("queue", "queues", declared, live.queues, plan)
    _plan_limits("host", "hosts", declared, live.hosts, plan)
    plan_jobs(api, declared, live, calendars, plan)
    if scope.everything:
        for kind, section in (("calendar", "calendars"), ("queue", "queues"), ("host", "hosts")):
            _prune(kind, getattr(live, section), declared.section(section), plan)
    try:
        list(levels(plan.of("add", "change", kind="job")))
    except Cycle as error:
        plan.faults.append(Fault("depends_on", error.message))
    return plan


def _plan_calendars(declared: Declared, live: Live, plan: Plan) -> dict[str, Calendar]:
    """Add the steps for calendars; return those that there will be."""
    found = {
        name: Calendar.from_dict(name, {n: v for n, v in shown.items() if n not in _NAMED})
        for name, shown in live.calendars.items()
    }
    for name, entry in declared.calendars.items():
        try:
            calendar = shown_calendar(name, entry.body)
        except BadInput as error:
            plan.refuse(entry, wrong_in(error))
            continue
        if stands := live.calendars.get(name):
            step = Step("change", "calendar", name, entry.body, version=stands["version"])
            plan.add(step, found[name].to_dict(), calendar.to_dict())
        else:
            plan.add(Step("add", "calendar", name, entry.body), None, calendar.to_dict())
        found[name] = calendar
    return found


def _plan_limits(
    kind: Kind, section: str, declared: Declared, live: dict[str, Answer], plan: Plan
) -> None:
    for name, entry in declared.section(section).items():
        if name not in live:
            # Any that can be is shown.
            plan.refuse(entry, [((), f"this cannot be the name of a {kind}")])
            continue
        try:
            limit = shown_limit(entry.body)
        except BadInput as error:
            plan.refuse(entry, wrong_in(error))
            continue
        seen: dict[str, Any] = {field: live[name][field] for field in limit}
        old = shown_limit(seen)
        verb: Verb = "add" if old == shown_limit({}) else "change"
        plan.add(Step(verb, kind, name, entry.body, seen=seen), old, limit)


def _prune(kind: Any, live: dict[str, Answer], declared: dict[str, Any], plan: Plan) -> None:
    plan.steps += (Step("delete", kind, name) for name in sorted(live.keys() - declared.keys()))
