"""Carries a plan out: what others need first, deletions last. Nothing that was changed since the
plan was made is overwritten, and one step that fails stops no other.

Each step is all or nothing at the API, and says what is to be, not how it was: a plan that was
interrupted is made again, and what was done is in it no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO

from engine.cli.bulk import parts, reason_of
from engine.cli.client import Api, Refused
from engine.cli.declaring_jobs import PAUSE_NOTE
from engine.cli.live import AT_ONCE
from engine.declared import Plan, Step, levels
from engine.errors import JobExists, NotFound

CHANGED = "it was changed since the plan was made, and is left as it is; plan again"
TAKEN = "its id is taken: by a job that was made since the plan, or that this key does not see"
_PRECONDITION = "precondition_failed"
_SECTIONS = {"queue": "queues", "host": "hosts"}


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that was not taken."""

    step: Step
    code: str
    reason: str


class _Changed(Exception):
    """What a step is about is not as the plan saw it."""


class Applying:
    """Carries one plan out. `failures` is what was not done; `done` counts the rest."""

    def __init__(self, api: Api, advance: Callable[[int], None]) -> None:
        self._api = api
        self._advance = advance
        self.failures: list[Failure] = []
        self.done = 0

    def run(self, plan: Plan) -> None:
        """Take all steps. Raises ClickException if no API answers."""
        self._each(plan.of("add", "change", kind="calendar"), self._put_calendar)
        for kind in _SECTIONS:
            self._each(plan.of("add", "change", kind=kind), self._put_limit)
        self._add_jobs([step for level in levels(plan.of("add", kind="job")) for step in level])
        for level in levels(plan.of("change", kind="job")):
            self._each(level, self._change_job)
        for level in reversed([*levels(plan.of("delete", kind="job"))]):
            self._each(level, self._delete_job)
        for kind in _SECTIONS:
            self._each(plan.of("delete", kind=kind), self._lift_limit)
        self._each(plan.of("delete", kind="calendar"), self._delete_calendar)

    def _each(self, steps: Iterable[Step], take: Callable[[Step], None]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for failure in pool.map(lambda step: _attempt(step, take), steps):
                self._note(failure)

    def _note(self, failure: Failure | None) -> None:
        self._advance(1)
        if failure is None:
            self.done += 1
        else:
            self.failures.append(failure)

    def _put_calendar(self, step: Step) -> None:
        self._api.put("calendars", step.name, body=step.body, version=step.version)

    def _put_limit(self, step: Step) -> None:
        section = _SECTIONS[step.kind]
        stands = self._api.get(section, step.name)
        if any(stands[name] != value for name, value in step.seen.items()):
            raise _Changed
        self._api.put(section, step.name, body=step.body)

    def _add_jobs(self, steps: list[Step]) -> None:
        """Add jobs in this order, many with one request."""
        lines = BytesIO(
            b"".join(
                json.dumps({**(step.body or {}), "job_id": step.name}).encode() + b"\n"
                for step in steps
            )
        )
        first = 0
        for part in parts(lines):
            answers = self._api.post_lines("jobs", "bulk", lines=b"".join(part))
            for answer in answers:
                step = steps[first + answer["line"] - 1]
                self._note(None if answer["status"] < 400 else _refused_line(step, answer))
            first += len(part)

    def _change_job(self, step: Step) -> None:
        if step.paused:
            self._api.post("jobs", step.name, "pause", body={"note": PAUSE_NOTE})
        if step.body is not None:
            self._api.put("jobs", step.name, body=step.body, version=step.version)
        if step.paused is False:
            self._api.post("jobs", step.name, "resume", body={"note": "declared to run"})

    def _delete_job(self, step: Step) -> None:
        if self._api.get("jobs", step.name)["version"] != step.version:
            raise _Changed
        self._api.delete("jobs", step.name)

    def _lift_limit(self, step: Step) -> None:
        if step.kind == "host":
            self._api.delete("hosts", step.name)
        else:
            self._api.put("queues", step.name, body={})

    def _delete_calendar(self, step: Step) -> None:
        self._api.delete("calendars", step.name)


def _attempt(step: Step, take: Callable[[Step], None]) -> Failure | None:
    try:
        take(step)
    except _Changed:
        return Failure(step, _PRECONDITION, CHANGED)
    except Refused as refused:
        if refused.code == NotFound.code and step.verb == "delete":
            return None
        is_changed = refused.code in (_PRECONDITION, NotFound.code)
        return Failure(step, refused.code, CHANGED if is_changed else refused.message)
    return None


def _refused_line(step: Step, answer: dict[str, object]) -> Failure:
    code = str(answer["code"])
    return Failure(step, code, TAKEN if code == JobExists.code else reason_of(answer))
