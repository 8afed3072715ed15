"""APScheduler 3: jobs as JSON, which README's snippet writes from a running scheduler.

    {"jobs": [{"id": "tick", "func": "app:tick", "args": [], "kwargs": {}, "trigger": {"type": …}}]}

Its job stores hold pickles, which run code when they are read: they are not read. A run that is
late by more than `misfire_grace_time` is skipped there, and so it is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.errors import BadInput
from engine.importers.apscheduler_cron import set_cron
from engine.importers.documents import read_documents
from engine.importers.entry import Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options

INTERVALS_S = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
CALENDAR = {"years": "YEARLY", "months": "MONTHLY", "weeks": "WEEKLY", "days": "DAILY"}
LONGEST_JITTER_S = 7 * 86_400
MOST_CONCURRENT = 1_000
MOST_GRACE_S = 366 * 86_400
MEANINGLESS = ("version", "pending")


def read(text: str, options: Options) -> Imported:
    """Return the jobs of an export. Refuses with BadInput what is none."""
    jobs: list[Any] = []
    notes = []
    for document in read_documents(text):
        fields = Fields({"jobs": document} if isinstance(document, list) else document)
        if "jobs" not in fields:
            raise BadInput("an export is a mapping with `jobs`, a list; see README")
        jobs += fields.items("jobs")
        notes += [Note(name, "", "not known here, and left out") for name, _ in fields.left()]
    return read_each(_places(jobs), lambda place, it: _read(place, it, options), *notes)


def _places(jobs: list[Any]) -> Iterator[tuple[str, Any]]:
    for number, job in enumerate(jobs, start=1):
        name = job.get("id") if isinstance(job, dict) else None
        yield f"job {number}" + (f", {name}" if name else ""), job


def _read(place: str, job: Any, options: Options) -> Draft:
    fields = Fields(job)
    for name in MEANINGLESS:
        fields.take(name)
    job_id = fields.word("id")
    entry = Entry(job_id, options)
    trigger = fields.inner("trigger")
    _trigger(entry, trigger)
    _misfire(entry, fields)
    _overlap(entry, fields)
    payload = {"args": fields.items("args"), "kwargs": fields.inner("kwargs").take_all()}
    entry.run(fields.word("func"), payload)
    # A job without a next time is paused; another's is worked out anew.
    entry.paused = fields.is_null("next_run_time")
    if (title := fields.text("name")) not in (None, job_id):
        entry.note("name", title, "a job is called by its id")
    for field in ("executor", "jobstore"):
        if (value := fields.text(field)) not in (None, "default"):
            entry.note(field, value, "the thread pools and stores of APScheduler are not here")
    return entry.draft(place, fields)


def _trigger(entry: Entry, trigger: Fields) -> None:
    zone = trigger.text("timezone")
    match kind := trigger.word("type"):
        case "cron":
            set_cron(entry, trigger, zone)
        case "interval":
            seconds = sum((trigger.number(name) or 0) * INTERVALS_S[name] for name in INTERVALS_S)
            entry.every((trigger.number("interval") or seconds or 1) * 1000)
        case "date":
            _date(entry, trigger, zone)
            return
        case "calendarinterval":
            _calendar(entry, trigger, zone)
        case "and" | "or":
            raise BadInput(
                f"a trigger made of others by {kind!r} is not read; make a job of each, or give one"
                " job a list of schedules"
            )
        case _:
            raise BadInput(f"trigger.type {kind[:32]!r} is not known")
    found = {}
    for name in ("start_date", "end_date"):
        value = trigger.take(name)
        found[name] = None if value is None else entry.instant(trigger.path_of(name), value, zone)
    entry.bounds(found["start_date"], found["end_date"])
    _jitter(entry, trigger)


def _date(entry: Entry, trigger: Fields, zone: str | None) -> None:
    at = entry.instant(trigger.path_of("run_date"), trigger.word("run_date"), zone)
    entry.schedule(at, "rfc3339")


def _calendar(entry: Entry, trigger: Fields, zone: str | None) -> None:
    """A distance in days of the calendar, from a date on, at a time of day."""
    given = {name: trigger.whole(name) or 0 for name in CALENDAR}
    distances = {name: number for name, number in given.items() if number}
    if len(distances) != 1:
        raise BadInput(
            f"a calendarinterval of {' and '.join(distances) or 'nothing'} has no counterpart here;"
            " one of years, months, weeks and days has"
        )
    [(unit, number)] = distances.items()
    start = trigger.word("start_date")
    hour, minute, second = (trigger.whole(name) or 0 for name in ("hour", "minute", "second"))
    begin = f"{start[:10].replace('-', '')}T{hour:02}{minute:02}{second:02}"
    rule = f"DTSTART:{begin} RRULE:FREQ={CALENDAR[unit]};INTERVAL={number}"
    entry.schedule(rule, "rrule", zone)
    entry.note(trigger.path, unit, "a day that a daylight-saving gap hits fires after it")


def _jitter(entry: Entry, trigger: Fields) -> None:
    jitter_s = trigger.number("jitter")
    if not jitter_s:
        return
    path = trigger.path_of("jitter")
    entry.body["window_ms"] = entry.within(path, jitter_s * 1000, LONGEST_JITTER_S * 1000)
    entry.note(path, jitter_s, "a job's place in its window is fixed, and not drawn each time")


def _misfire(entry: Entry, fields: Fields) -> None:
    grace_s, coalesce = fields.whole("misfire_grace_time"), fields.flag("coalesce", default=True)
    if grace_s is None and not fields.is_null("misfire_grace_time"):
        # The export does not say; then no policy is better than ours.
        return
    if grace_s is None:
        entry.body["misfire"] = {"policy": "fire_once" if coalesce else "fire_all"}
        return
    if grace_s < 0:
        raise BadInput("misfire_grace_time is 0 or more")
    bounded = min(grace_s, MOST_GRACE_S)
    if bounded < grace_s:
        entry.note("misfire_grace_time", grace_s, "a year is as good: it is that")
    entry.body["misfire"] = {"policy": "skip", "grace_ms": bounded * 1000}
    # No two times are less than a second apart.
    if coalesce and grace_s > 1:
        why = "of the times that are late within the grace each one fires, and not the last only"
        entry.note("coalesce", True, why)


def _overlap(entry: Entry, fields: Fields) -> None:
    instances = fields.whole("max_instances")
    if instances is not None and instances > 1:
        entry.body["concurrency"] = min(instances, MOST_CONCURRENT)
        if instances > MOST_CONCURRENT:
            entry.note("max_instances", instances, f"{MOST_CONCURRENT} at once are the most")
    entry.body["overlap"] = "skip"
