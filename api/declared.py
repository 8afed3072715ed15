"""What files in git declare, by the API's own rules: checked as it is where it is sent, shown as it
would be shown once it is stored, so that the two can be held against each other; and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import orjson
from pydantic.json_schema import GenerateJsonSchema

from api.calendars import PutCalendar
from api.depends import GATE_DEADLINE_MS, depends_of
from api.door import Door
from api.forms import describe, job_out, registration_of
from api.problems import faults_of
from api.queues import PutLimit
from api.rules import Group, JobId, Queue
from api.schemas import CreateJob, HttpTargetIn, MisfireIn, RetryIn, ShellTargetIn, WorkerTargetIn
from api.taken import Taken
from api.wire import check
from engine.clock import ManualClock
from engine.depends import Match
from engine.errors import BadInput
from engine.guard import Guard
from engine.model import TARGETS
from engine.plan import Calendar, Calendars, Once, parse_schedule, recognise
from engine.plan.lint import Lint
from engine.registration import usual_queue
from engine.store.jobs import StoredJob

_DAY_MS = 86_400_000
_NOT_SHOWN = {"job_id", "allow_missing", "paused"}
JOB_FIELDS = (
    "schedule_expr",
    *(name for name in CreateJob.model_fields if name not in {*_NOT_SHOWN, "schedule_expr"}),
)
"""The fields of a job that are shown as they are sent; when it runs is the first."""
_SUCCEEDED = "succeeded"
_TARGETS: dict[str, type[Taken]] = {
    "http": HttpTargetIn,
    "worker": WorkerTargetIn,
    "shell": ShellTargetIn,
}


class _AnyPlace(Guard):
    """Lets every place be a target."""

    def allows_host(self, host: str, port: int) -> bool:
        return True

    def allows_port(self, host: str, port: int) -> bool:
        return True


_DOOR = Door(_AnyPlace())
"""Which places may be called only the deployment knows, and says when it is sent the job."""


def check_job(
    job_id: str, body: Mapping[str, Any], now: int, standing: Mapping[str, Any] | None = None
) -> CreateJob:
    """Return the body of a job, checked as if it were sent at `now`, in place of the job `standing`
    if there is one. Refuses with Invalid what is wrong in it."""
    kept = standing["target"] if standing else {}
    context = {
        "clock": ManualClock(now),
        "door": _DOOR,
        "kept_url": kept.get("url"),
        "kept_headers": frozenset(kept.get("headers", ())),
    }
    return check({**body, "job_id": job_id}, CreateJob, context)


def shown_job(body: CreateJob, now: int, calendars: Calendars) -> dict[str, Any]:
    """Return a job as it is shown once it is stored, without what is worked out from other jobs.
    Refuses with BadInput what no field alone could tell."""
    depends = depends_of(body, Match.LATEST) if body.depends_on else None
    made = registration_of(body, now, calendars, depends)
    shown = _as_shown(job_out(StoredJob(made.job, made.plan, live=[])))
    if depends and body.match is None and not body.gate:
        del shown["match"]
    return shown


def _as_shown(job: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(orjson.dumps(job))
    return {name: found[name] for name in JOB_FIELDS}


def shown_calendar(name: str, body: Mapping[str, Any]) -> Calendar:
    """Return a calendar of a file. Refuses with BadInput or Invalid what is wrong in it."""
    return Calendar.from_dict(name, check({**body}, PutCalendar, None).model_dump())


def shown_limit(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a queue or host is allowed, in full. Refuses with Invalid what is wrong."""
    return check({**body}, PutLimit, None).model_dump()


def has_passed(body: Mapping[str, Any], now: int) -> bool:
    """Return whether a job is for one time, and that is over. Of a body that is wrong it is not: it
    may hold anything."""
    expr, timezone, dialect = (body.get(n) for n in ("schedule_expr", "timezone", "dialect"))
    texts = tuple(expr) if isinstance(expr, list) else (expr or "",)
    if not all(isinstance(text, str) for text in (*texts, timezone or "", dialect or "")):
        return False
    try:
        schedule = parse_schedule(
            texts if isinstance(expr, list) else expr, timezone or "UTC", now=0, dialect=dialect
        )
    except BadInput:
        return False
    return isinstance(schedule, Once) and schedule.at <= now


def wrong_in(error: BadInput) -> list[tuple[tuple[str | int, ...], str]]:
    """Return where in a body something is wrong, and what."""
    faults = faults_of(error)
    found = [(tuple(_parts(fault.get("pointer", ""))), fault["detail"]) for fault in faults]
    return found or [((), error.message)]


def _parts(pointer: str) -> Iterator[str | int]:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        yield int(name) if name.isdecimal() else name


# From what is shown back to the least that has to be declared


def least_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shortest body that declares a job as it is shown."""
    usual = {name: CreateJob.model_fields[name].default for name in JOB_FIELDS}
    is_event_driven = job["depends_on"] and job["schedule_expr"] is None
    kind = job["target"]["type"]
    usual |= {
        "dialect": _recognised(job["schedule_expr"]),
        "queue": usual_queue(TARGETS[kind](**job["target"])),
        "overlap": "allow" if is_event_driven else "skip",
        "gate_deadline_ms": GATE_DEADLINE_MS if job["gate"] else None,
        "match": "same_time" if job["gate"] else None,
    }
    shown = {
        **job,
        "target": {"type": kind, **_least(job["target"], _TARGETS[kind])},
        "misfire": _least(job["misfire"], MisfireIn) or None,
        "retry": _least(job["retry"], RetryIn) or None,
        "depends_on": [
            one["job"] if one["condition"] == _SUCCEEDED else one for one in job["depends_on"]
        ],
    }
    body = {name: shown[name] for name in JOB_FIELDS if shown[name] != usual[name]}
    if job["state"] == "paused":
        body["paused"] = True
    return body


def least_calendar(calendar: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shortest body that declares a calendar."""
    return _least(calendar, PutCalendar)


def least_limit(limit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shortest body that declares what a queue or host is allowed; empty for all."""
    return _least(limit, PutLimit)


def _least(shown: Mapping[str, Any], model: type[Taken]) -> dict[str, Any]:
    return {
        name: shown[name]
        for name, field in model.model_fields.items()
        if name in shown and shown[name] != field.default
    }


def _recognised(expr: Any) -> str | None:
    try:
        return recognise(expr) if isinstance(expr, str) else None
    except BadInput:
        return None


def say_schedule(job: Mapping[str, Any], now: int = 0) -> Lint | None:
    """Return what there is to say about the schedule of a job as it is shown, None for nothing.
    Its description is the same whenever it is asked; its warnings are those of the day."""
    expr = job["schedule_expr"]
    if not isinstance(expr, str):
        return None
    asked = (expr, job["timezone"], job["dialect"], now // _DAY_MS * _DAY_MS)
    # Without an id first: that answer is the same for many jobs. Hashed ones need theirs.
    return describe(*asked) or describe(*asked, job["job_id"])


# The file


class _File(Taken):
    """Jobs, calendars and limits of a Waterclock deployment, for `waterclock plan` and `apply`.
    Secrets do not belong here."""

    waterclock: Literal[1]
    """The version of this format."""
    owner: Group | None = None
    """Whose jobs these are: one that is gone from the files is deleted."""
    defaults: CreateJob | None = None
    """What every job of this file has unless it says otherwise."""
    jobs: dict[JobId, CreateJob | None] | list[CreateJob] = {}
    calendars: dict[str, PutCalendar] = {}
    queues: dict[Queue, PutLimit] = {}
    hosts: dict[str, PutLimit] = {}


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file, for editors. It requires nothing of a job: any part may
    come from the defaults."""
    schema = _File.model_json_schema(schema_generator=_Untitled)
    for name in ("CreateJob", *(model.__name__ for model in _TARGETS.values())):
        schema["$defs"][name].pop("required", None)
    target = schema["$defs"]["CreateJob"]["properties"]["target"]
    schema["$defs"]["CreateJob"]["properties"]["target"] = {"anyOf": target["oneOf"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
