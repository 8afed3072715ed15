"""The jobs' part of a plan: what each declared one comes to, held against the one that stands."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from api.declared import check_job, has_passed, say_schedule, shown_job, wrong_in
from engine.cli.client import Api, Refused
from engine.cli.live import Answer, Live
from engine.declared import Declared, Entry, Plan, Step, differences, owner_tag
from engine.errors import BadInput
from engine.plan import Calendar, Calendars, parse_instant
from engine.registration import BORN_PAUSED

COMPARED = 5
"""Next times that are held against each other."""
PAUSE_NOTE = "declared paused"
_BY_FILE = {BORN_PAUSED, PAUSE_NOTE}
"""Notes of pauses that came from a declaration; what somebody paused by hand stays so."""
_WHEN = (
    *("schedule_expr", "dialect", "timezone", "dst_gap", "dst_overlap", "start_at", "end_at"),
    *("calendars", "roll"),
)
"""Fields that decide nominal times."""
_EVER = 2**62
_OWNER = owner_tag("")


def plan_jobs(
    api: Api, declared: Declared, live: Live, calendars: Mapping[str, Calendar], plan: Plan
) -> None:
    """Add the steps for jobs to a plan, and what is wrong with them; `calendars` are those that
    there will be."""
    planning = _Planning(api, declared, live, calendars, plan)
    for job_id, entry in declared.jobs.items():
        try:
            planning.plan(job_id, entry, live.jobs.get(job_id))
        except BadInput as error:
            plan.refuse(entry, wrong_in(error))
    planning.plan_deletions()


class _Planning:
    """Plans one job after the other."""

    def __init__(
        self,
        api: Api,
        declared: Declared,
        live: Live,
        calendars: Mapping[str, Calendar],
        plan: Plan,
    ) -> None:
        self._api = api
        self._live = live
        self._calendars = Calendars(0, calendars)
        self._plan = plan
        self._now = int(time.time() * 1000)
        self._tag = None if declared.owner is None else owner_tag(declared.owner)
        self._gone = live.doomed - declared.jobs.keys()

    def plan(self, job_id: str, entry: Entry, stands: Answer | None) -> None:
        """Add the step for one job, if there is one. Refuses with BadInput what is wrong in it."""
        body = self._owned(entry.body)
        is_known = stands is not None and body.get("schedule_expr") == stands["schedule_expr"]
        is_over = has_passed(body, self._now)
        if is_over and not is_known:
            self._note(job_id, "its time has passed, so it is left out")
            return
        # A schedule that was taken before is seen as of then: a time of it may have passed since.
        at = parse_instant(stands["created_at"]) if stands and is_known else self._now
        unknown = [*self._unknown_calendars(body)]
        self._plan.refuse(entry, unknown)
        checked = check_job(job_id, body, at, stands)
        if unknown:
            return
        shown = shown_job(checked, at, self._calendars)
        upstreams = tuple(one.job for one in checked.depends_on)
        self._plan.refuse(entry, self._doomed(upstreams))
        if checked.delete_after_completion and not has_passed(body, _EVER):
            reason = "once it has gone, the next apply would make it again; declare no such job"
            self._plan.refuse(entry, [(("delete_after_completion",), reason)])
        sent = {n: value for n, value in body.items() if n not in ("job_id", "paused")}
        if stands is None:
            begins = {"paused": True} if checked.paused else {}
            step = Step("add", "job", job_id, {**sent, **begins}, depends_on=upstreams)
            self._plan.add(replace(step, notes=self._warnings(job_id, shown)), None, shown)
            return
        self._plan.refuse(entry, _others(stands, shown["tags"]))
        if is_over and differences({n: stands.get(n) for n in shown}, shown):
            self._note(job_id, "its time has passed, so it stays as it is")
            return
        paused = self._paused(job_id, entry.body.get("paused"), stands)
        step = Step("change", "job", job_id, sent, paused=paused, depends_on=upstreams)
        self._change(replace(step, version=stands["version"]), stands, shown)

    def _change(self, step: Step, stands: Answer, shown: Mapping[str, Any]) -> None:
        old = {name: stands.get(name) for name in shown}
        changed = {one.field for one in differences(old, shown)}
        if not changed:
            step = replace(step, body=None)
        if changed.intersection(_WHEN) and shown["schedule_expr"] is not None:
            step = replace(step, times=self._times(step))
        if "schedule_expr" in changed:
            step = replace(step, notes=self._warnings(step.name, shown))
        state = {None: stands["state"], True: "paused", False: "active"}[step.paused]
        self._plan.add(step, {**old, "state": stands["state"]}, {**shown, "state": state})

    def plan_deletions(self) -> None:
        """Add a step for each job that is gone from the files."""
        for job_id in sorted(self._gone):
            job = self._live.jobs[job_id]
            if others := [tag for tag in _owners(job) if tag != self._tag]:
                self._note(job_id, f"it stays, since it has the tag {others[0]}")
                continue
            upstreams = tuple(one["job"] for one in job["depends_on"])
            step = Step("delete", "job", job_id, version=job["version"], depends_on=upstreams)
            self._plan.steps.append(step)

    def _note(self, job_id: str, text: str) -> None:
        self._plan.notes.append(f"job {job_id}: {text}")

    def _owned(self, body: dict[str, Any]) -> dict[str, Any]:
        tags = body.get("tags", [])
        if self._tag is None or not isinstance(tags, list) or self._tag in tags:
            return body
        return {**body, "tags": [*tags, self._tag]}

    def _unknown_calendars(self, body: Mapping[str, Any]) -> Iterable[tuple[Any, str]]:
        named = body.get("calendars")
        for number, name in enumerate(named if isinstance(named, list) else ()):
            if isinstance(name, str) and self._calendars.unknown([name]):
                yield ("calendars", number), "there is no such calendar, here or there"

    def _doomed(self, upstreams: Iterable[str]) -> Iterable[tuple[Any, str]]:
        for number, upstream in enumerate(upstreams):
            if upstream in self._gone:
                yield ("depends_on", number), f"{upstream} is to be deleted"

    def _paused(self, job_id: str, declared: object, stands: Answer) -> bool | None:
        """Return whether a job that stands is to be paused or resumed, None for neither."""
        if stands["state"] == "active":
            return True if declared is True else None
        if stands["state"] != "paused" or declared is True:
            return None
        if declared is None and (stands["pause_note"] or {}).get("note") not in _BY_FILE:
            self._note(job_id, "it is paused, not by a file, and stays so")
            return None
        return False

    def _times(self, step: Step) -> dict[str, list[str]] | None:
        body = step.body or {}
        asked = {name: body[name] for name in _WHEN if name in body}
        try:
            found = self._api.post(
                "schedules", "preview", body={"job_id": step.name, "n": COMPARED, **asked}
            )
        except Refused:
            # A calendar that this plan makes is not there yet.
            return None
        return {name: times[:COMPARED] for name, times in found.get("difference", {}).items()}

    def _warnings(self, job_id: str, shown: Mapping[str, Any]) -> tuple[str, ...]:
        said = say_schedule({**shown, "job_id": job_id}, self._now)
        return tuple(f"{one.code}: {one.message}" for one in said.warnings) if said else ()


def _owners(job: Answer) -> list[str]:
    return [tag for tag in job["tags"] if tag.startswith(_OWNER)]


def _others(stands: Answer, tags: list[str]) -> Iterable[tuple[Any, str]]:
    """Yield why a job may not be taken: it has an owner, who would lose it."""
    for tag in _owners(stands):
        if tag not in tags:
            owner = tag.removeprefix(_OWNER)
            yield (), f"this job belongs to owner {owner}; take it out of those files, or its tag"
