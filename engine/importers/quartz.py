"""Quartz: `job_scheduling_data` XML, of Quartz and of Quartz.NET. A job for each trigger.

A document with a DOCTYPE is refused, so there are no entities to expand and nothing to fetch.
What a class says of itself (`@DisallowConcurrentExecution`) is not in the file: jobs may overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from engine.errors import BadInput
from engine.importers.documents import MAX_BYTES, MAX_NODES
from engine.importers.entry import NO_DESCRIPTION, Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options, refuse_unknown
from engine.importers.quartz_trigger import set_misfire, set_schedule

ROOT = "job-scheduling-data"
DEFAULT_GROUP = "DEFAULT"
DEFAULT_PRIORITY = "5"
MEANINGLESS = ("durability", "durable", "recover", "volatility")
"""Jobs stay without a trigger, and what a dead worker held is delivered again, always."""

_DIRECTIVES = {
    "overwrite-existing-data": "say --on-conflict keep, or replace",
    "ignore-duplicates": "what has an id already is told of, and the rest goes on",
}
_DELETING = "nothing is deleted by an import"


@dataclass(frozen=True, slots=True)
class _Found:
    """One trigger, with the job that it names; either may be missing."""

    job: ElementTree.Element | None
    trigger: ElementTree.Element | None


def read(text: str, options: Options) -> Imported:
    """Return the triggers of a document. Refuses with BadInput what is no job_scheduling_data."""
    root = _parse(text)
    found = list(_pairs(root))
    return read_each(found, lambda place, it: _read(place, it, options), *_notes(root))


def _parse(text: str) -> ElementTree.Element:
    if re.search(r"<!DOCTYPE|<!ENTITY", text, re.IGNORECASE):
        raise BadInput("a document with a DOCTYPE or entities is not read; take them out")
    if len(text) > MAX_BYTES:
        raise BadInput(f"more than {MAX_BYTES >> 20} MiB; split the file")
    # What is decoded already has no other encoding, whatever its first line says.
    text = re.sub(r"\A\ufeff?\s*<\?xml[^>]*\?>", "", text)
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise BadInput(f"not XML: {error}") from None
    for count, element in enumerate(root.iter()):
        if count > MAX_NODES:
            raise BadInput(f"more than {MAX_NODES} elements; split the file")
        # Quartz and Quartz.NET have a namespace each, and the same elements.
        element.tag = str(element.tag).rpartition("}")[2]
    if root.tag != ROOT:
        raise BadInput(f"the document's element is {root.tag[:64]!r}, not {ROOT!r}")
    return root


def _pairs(root: ElementTree.Element) -> Iterator[tuple[str, _Found]]:
    jobs = {_key(job): job for job in root.iterfind("schedule/job")}
    used = set()
    for number, trigger in enumerate(root.iterfind("schedule/trigger"), start=1):
        if not len(trigger):
            yield f"trigger {number}", _Found(None, None)
        for kind in trigger:
            key, name = _key(kind, "job-"), _text(kind, "name")
            used.add(key)
            place = f"trigger {number}" + (f", {name}" if name else "")
            yield place, _Found(jobs.get(key), kind)
    for key, job in jobs.items():
        if key not in used:
            yield f"job {'.'.join(key)}", _Found(job, None)


def _key(element: ElementTree.Element, prefix: str = "") -> tuple[str, str]:
    group = _text(element, f"{prefix}group") or DEFAULT_GROUP
    return group, _text(element, f"{prefix}name") or ""


def _text(element: ElementTree.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _notes(root: ElementTree.Element) -> Iterator[Note]:
    for element in root.iterfind("processing-directives/*"):
        why = _DIRECTIVES.get(element.tag, "not known here")
        yield Note(element.tag, (element.text or "").strip(), "an import has its own", why)
    for element in root.iterfind("pre-processing-commands/*"):
        yield Note(element.tag, " ".join(element.itertext()).strip(), _DELETING)
    known = ("schedule", "processing-directives", "pre-processing-commands")
    for element in root:
        if element.tag not in known:
            yield Note(element.tag, "", "not known here, and left out")
    seen = set()
    for job in root.iterfind("schedule/job"):
        if (key := _key(job)) in seen:
            yield Note("schedule.job", ".".join(key), "is there twice: the last one counts")
        seen.add(key)
    for element in root.iterfind("schedule/*"):
        if element.tag not in ("job", "trigger"):
            yield Note(f"schedule.{element.tag}", "", "not known here, and left out")


def _read(place: str, found: _Found, options: Options) -> Draft:
    if found.trigger is None:
        if found.job is None:
            raise BadInput("a trigger holds cron, simple or calendar-interval")
        raise BadInput(
            "no trigger of the file starts it; register it by hand with a schedule of its own"
        )
    kind = found.trigger.tag
    trigger = Fields(_values(found.trigger), kind)
    name, group = trigger.word("name"), trigger.text("group") or DEFAULT_GROUP
    job_name, job_group = trigger.word("job-name"), trigger.text("job-group") or DEFAULT_GROUP
    if found.job is None:
        raise BadInput(f"the file has no job {job_group}.{job_name}, which it is to start")
    job = Fields(_values(found.job), "job")
    entry = Entry(name if group == DEFAULT_GROUP else f"{group}.{name}", options)
    set_schedule(entry, kind, trigger)
    set_misfire(entry, kind, trigger)
    entry.body["overlap"] = "allow"
    entry.group("job.group", None if job_group == DEFAULT_GROUP else job_group)
    _what(entry, job, trigger)
    _rest(entry, job, trigger)
    return entry.draft(place, trigger, job)


def _what(entry: Entry, job: Fields, trigger: Fields) -> None:
    job_class = job.text("job-class") or job.text("job-type")
    if not job_class:
        raise BadInput("the job has no job-class")
    # A trigger's entries stand before the job's, as Quartz merges them.
    data = {**_data(job), **_data(trigger)}
    entry.run(job_class, {"job": job.take("name"), "data": data})


def _rest(entry: Entry, job: Fields, trigger: Fields) -> None:
    for name in ("group", *MEANINGLESS):
        job.take(name)
    if (calendar := trigger.text("calendar-name")) is not None:
        why = "its days are not in the file: the job is registered paused"
        entry.note(trigger.path_of("calendar-name"), calendar, why, "add a calendar, then resume")
        entry.paused = True
    if (priority := trigger.text("priority")) not in (None, DEFAULT_PRIORITY):
        why = "it breaks ties between triggers of one instant; set the job's priority"
        entry.note(trigger.path_of("priority"), priority, *why.split("; "))
    for fields in (job, trigger):
        entry.note_all(fields, {"description": NO_DESCRIPTION})


def _data(fields: Fields) -> dict[str, Any]:
    found = {}
    for item in fields.inner("job-data-map").items("entry"):
        entry = Fields(item, fields.path_of("job-data-map.entry"))
        found[entry.word("key")] = entry.take("value")
        refuse_unknown(entry)
    return found


def _values(element: ElementTree.Element) -> dict[str, Any]:
    """Return the children by name: a text, or a mapping of theirs; `entry` is always a list."""
    values: dict[str, Any] = {}
    for child in element:
        value: Any = _values(child) if len(child) else (child.text or "").strip()
        if child.tag == "entry":
            values.setdefault("entry", []).append(value)
        elif child.tag == "job-data-map" and not len(child):
            continue
        elif child.tag in values:
            raise BadInput(f"{element.tag}.{child.tag} is there twice; keep one of them")
        else:
            values[child.tag] = value
    return values
