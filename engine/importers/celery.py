"""Celery beat: a `beat_schedule`, as Python source (which is read, and not run), JSON or YAML.

    {"beat_schedule": {"cleanup": {"task": "app.cleanup", "schedule": "crontab(hour=3, minute=0)"}},
     "timezone": "Europe/London"}

In JSON and YAML a schedule is a number of seconds, a text of five fields or of a call, or a mapping
of crontab's arguments. The mapping of entries may stand alone.
"""

from __future__ import annotations

from typing import Any

from engine.errors import BadInput
from engine.importers.celery_entry import call, set_schedule
from engine.importers.celery_source import (
    SCHEDULES,
    ZONES,
    Reader,
    Source,
    SourceEntry,
    read_source,
)
from engine.importers.documents import read_documents
from engine.importers.entry import Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options

_NO_NAME = (
    "this is no literal entry of a schedule, so what it comes to is known only to a program that"
    " runs; write it as beat_schedule = {'name': {…}}"
)


def read(text: str, options: Options) -> Imported:
    """Return the entries of every schedule in the text. Refuses with BadInput what is neither
    Python nor a document that holds one."""
    if text.lstrip().startswith(("{", "[")) or not _is_python(text):
        return _from_documents(read_documents(text), options)
    source = read_source(text)
    if not source.entries:
        raise BadInput(f"no {SCHEDULES[0]} is set in this file")
    return read_each(
        ((_place(entry), entry) for entry in source.entries),
        lambda place, entry: _from_source(place, entry, source, options),
    )


def _is_python(text: str) -> bool:
    try:
        read_source(text)
    except BadInput:
        return "import " in text or " = " in text
    return True


def _place(entry: SourceEntry) -> str:
    return f"line {entry.line}" + (f", {entry.name}" if entry.name else "")


def _from_source(place: str, entry: SourceEntry, source: Source, options: Options) -> Draft:
    if entry.name is None:
        raise BadInput(_NO_NAME)
    value = Reader(dict(source.names)).value(entry.value)
    return _job(place, entry.name, value, source.timezone, options)


def _from_documents(documents: list[Any], options: Options) -> Imported:
    jobs: list[tuple[str, tuple[str, Any, str | None]]] = []
    notes: list[Note] = []
    for document in documents:
        fields = Fields(document, "the document")
        inside = next((name for name in SCHEDULES if name in fields), None)
        zone = next((fields.text(name) for name in ZONES if inside and name in fields), None)
        entries = fields.take(inside) if inside else fields.take_all()
        if not isinstance(entries, dict):
            raise BadInput(f"{inside} must be a mapping of names to entries")
        jobs += [(str(name), (str(name), it, zone)) for name, it in entries.items()]
        for name, _ in fields.left() if inside else ():
            notes.append(Note(name, "(not shown)", "a setting of celery, and of no schedule"))
    return read_each(jobs, lambda place, job: _job(place, *job, options), *notes)


def _job(place: str, name: str, value: Any, timezone: str | None, options: Options) -> Draft:
    fields = Fields(value)
    entry = Entry(name, options)
    task = fields.word("task")
    set_schedule(entry, "schedule", fields.take("schedule"), timezone)
    call(entry, task, fields.take("args"), fields.take("kwargs"), fields.inner("options"))
    if fields.flag("relative"):
        why = "runs are not rounded to the interval: they count from the job's creation"
        entry.note("relative", True, why, "set start_at")
    entry.paused = not fields.flag("enabled", default=True)
    return entry.draft(place, fields)
