"""django-celery-beat: the fixture that `manage.py dumpdata django_celery_beat` prints.

Periodic tasks name their schedule by its primary key, so a fixture holds both. A schedule that no
task uses is noted; a task without one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import BadInput
from engine.importers.celery_entry import CRONTAB_FIELDS, NO_SUN, call, crontab_call
from engine.importers.documents import read_documents, read_json
from engine.importers.entry import NO_DESCRIPTION, Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options

APP = "django_celery_beat."
SCHEDULES = {
    "crontab": "crontabschedule",
    "interval": "intervalschedule",
    "clocked": "clockedschedule",
    "solar": "solarschedule",
}
"""Field of a task → model that it refers to."""
MEANINGLESS = ("last_run_at", "total_run_count", "date_changed")
"""What Django knows of the runs so far."""
PERIODS_MS = {
    "days": 86_400_000.0,
    "hours": 3_600_000.0,
    "minutes": 60_000.0,
    "seconds": 1_000.0,
    "microseconds": 0.001,
}

_AMQP = "how celery sends its messages, of which there are none"
_Rows = dict[tuple[str, str], Any]

_ONE_TIME = "a schedule of one time has no bounds"


def read(text: str, options: Options) -> Imported:
    """Return the periodic tasks of a fixture. Refuses with BadInput what is no fixture."""
    rows: _Rows = {}
    notes = []
    for document in read_documents(text):
        for row in document if isinstance(document, list) else [document]:
            fields = Fields(row)
            model, key = fields.word("model").lower(), str(fields.take("pk"))
            if model.startswith(APP):
                rows[model.removeprefix(APP), key] = fields.take("fields")
            else:
                notes.append(Note("model", model, "no part of beat: left out"))
    tasks = [(key, fields) for (model, key), fields in rows.items() if model == "periodictask"]
    notes += _unused(rows, [fields for _, fields in tasks])
    places = ((f"PeriodicTask {key}", fields) for key, fields in tasks)
    return read_each(places, lambda place, it: _read(place, it, rows, options), *notes)


def _unused(rows: _Rows, tasks: list[Any]) -> list[Note]:
    used = {
        (model, str(task[field]))
        for task in tasks
        if isinstance(task, dict)
        for field, model in SCHEDULES.items()
        if task.get(field) is not None
    }
    models = set(SCHEDULES.values())
    return [
        Note(model, key, "no task uses this schedule")
        for model, key in rows
        if model in models and (model, key) not in used
    ]


def _read(place: str, row: Any, rows: _Rows, options: Options) -> Draft:
    fields = Fields(row)
    for meaningless in MEANINGLESS:
        fields.take(meaningless)
    name = fields.word("name")
    entry = Entry(name, options)
    _schedule(entry, fields, rows)
    is_once = entry.body["dialect"] == "rfc3339"
    if fields.flag("one_off") and not is_once:
        entry.body["max_runs"] = 1
    entry.take_bounds(fields, "start_time", "expires", _ONE_TIME if is_once else None)
    call(
        entry,
        fields.word("task"),
        _json(fields, "args"),
        _json(fields, "kwargs"),
        Fields({"queue": fields.text("queue")}),
    )
    if (seconds := fields.number("expire_seconds")) is not None:
        entry.expires("expire_seconds", seconds)
    entry.paused = not fields.flag("enabled", default=True)
    if _json(fields, "headers"):
        entry.note("headers", "(not shown)", _AMQP)
    entry.note_all(
        fields,
        {
            "exchange": _AMQP,
            "routing_key": _AMQP,
            "priority": "brokers order by it, each in its own way; set the job's priority",
            "description": NO_DESCRIPTION,
        },
    )
    return entry.draft(f"{place}, {name}", fields)


def _schedule(entry: Entry, fields: Fields, rows: _Rows) -> None:
    named = {field: key for field in SCHEDULES if (key := fields.take(field)) is not None}
    if len(named) != 1:
        raise BadInput(f"a task has one of {', '.join(SCHEDULES)}, not {len(named)} of them")
    [(field, key)] = named.items()
    model = SCHEDULES[field]
    if (model, str(key)) not in rows:
        raise BadInput(f"the fixture has no {model} {str(key)[:32]}; dump the whole app")
    schedule = Fields(rows[model, str(key)], f"{field}")
    match field:
        case "crontab":
            zone = schedule.text("timezone")
            entry.schedule(crontab_call(_tidy(schedule)), "celery", zone)
        case "interval":
            period = schedule.word("period")
            if period not in PERIODS_MS:
                raise BadInput(f"interval.period is one of {', '.join(PERIODS_MS)}")
            entry.every((schedule.whole("every") or 0) * PERIODS_MS[period])
        case "clocked":
            at = entry.instant("clocked.clocked_time", schedule.word("clocked_time"))
            entry.schedule(at, "rfc3339")
        case _:
            raise BadInput(NO_SUN.format(event=schedule.take("event")))
    for path, value in schedule.left():
        entry.note(path, value, "not known here, and not carried over")


def _tidy(schedule: Fields) -> Fields:
    """Return crontab's fields without blanks, as django-celery-beat hands them to celery."""
    given: Mapping[str, Any] = {
        name: text.replace(" ", "")
        for name in CRONTAB_FIELDS
        if (text := schedule.text(name)) is not None
    }
    return Fields(given, schedule.path)


def _json(fields: Fields, name: str) -> Any:
    """Return the value of a column that holds JSON as text. Refuses what is none."""
    text = fields.text(name)
    try:
        return read_json(text) if text and text.strip() else None
    except BadInput as wrong:
        raise BadInput(f"{name}: {wrong.message}") from None
