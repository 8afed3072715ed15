"""Sidekiq: the schedules of sidekiq-cron and of sidekiq-scheduler, as YAML or JSON.

    cleanup:                                  or the same under `:schedule:` (and `:scheduler:`)
      cron: "0 3 * * * Europe/London"         of a sidekiq.yml; or a list with a `name` each
      class: CleanupJob

Five fields are crontab's, six have seconds first, and a zone may stand behind them, as fugit reads
them; of its natural language only `every 5 minutes` is known here. Sidekiq's jobs may overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.errors import BadInput
from engine.importers.documents import read_documents
from engine.importers.entry import NO_DESCRIPTION, Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Note, Options, kind_of

DEFAULT_RETRIES = 25
UNITS_S = {
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 604_800.0,
    "M": 2_592_000.0,
    "y": 31_536_000.0,
}
MEANINGLESS = ("source", "active_job", "symbolize_args")
"""How sidekiq finds its class and hands arguments to it."""

_KINDS = ("cron", "every", "interval", "at", "in")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdwMy])")
_SPOKEN = re.compile(r"every\s+(?:([0-9]+)\s+)?(second|minute|hour|day|week)s?", re.IGNORECASE)
_ZONE = re.compile(r"(.*\S)\s+([A-Z][A-Za-z_+-]*(?:/[A-Za-z0-9_+-]+)*)")
_CALLED = (
    *("class", "klass", "queue", "args", *_KINDS),
    *("description", "enabled", "status", "include_metadata"),
)


def read(text: str, options: Options) -> Imported:
    """Return the entries of a schedule. Refuses with BadInput what is neither YAML nor JSON, and
    what holds none."""
    entries: list[tuple[str, Any]] = []
    notes: list[Note] = []
    for document in read_documents(text):
        schedule, aside = _schedule_of(_without_colons(document))
        entries += _entries(schedule)
        notes += aside
    return read_each(entries, lambda place, it: _read(place, it, options), *notes)


def _without_colons(value: Any) -> Any:
    """Return a document whose keys are words: YAML for Ruby may write them as `:symbols`."""
    if isinstance(value, dict):
        return {
            (str(key).lstrip(":") or str(key)): (
                held if str(key).lstrip(":") == "args" else _without_colons(held)
            )
            for key, held in value.items()
        }
    return [_without_colons(item) for item in value] if isinstance(value, list) else value


def _schedule_of(document: Any) -> tuple[Any, list[Note]]:
    """Return the schedule in a document, and what stands around it."""
    aside = []
    for name in ("scheduler", "schedule"):
        if isinstance(document, dict) and isinstance(document.get(name), dict):
            if set(_CALLED) & document[name].keys():
                break  # an entry that is called so
            why = "a setting of sidekiq, and of no schedule"
            aside += [Note(key, "(not shown)", why) for key in document if key != name]
            document = document[name]
    return document, aside


def _entries(schedule: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schedule, dict):
        for name, entry in schedule.items():
            yield str(name), {"name": name, **entry} if isinstance(entry, dict) else entry
    elif isinstance(schedule, list):
        for number, entry in enumerate(schedule, start=1):
            name = entry.get("name") if isinstance(entry, dict) else None
            yield f"entry {number}" + (f", {name}" if name else ""), entry
    else:
        raise BadInput(f"a schedule is a mapping of names to entries, not {kind_of(schedule)}")


def _read(place: str, value: Any, options: Options) -> Draft:
    fields = Fields(value)
    for name in MEANINGLESS:
        fields.take(name)
    name = str(fields.take("name") or "")
    worker = fields.text("class") or fields.text("klass") or name
    if not worker:
        raise BadInput("class is missing: an entry cannot do without it")
    namespace = fields.text("namespace")
    is_own = namespace not in (None, "default")
    entry = Entry(f"{namespace}.{name or worker}" if is_own else name or worker, options)
    _schedule(entry, fields)
    entry.body["overlap"] = "allow"
    entry.group("namespace", namespace if is_own else None)
    args = fields.take("args")
    listed = args if isinstance(args, list) else [] if args is None else [args]
    entry.run(worker, {"args": listed}, queue=fields.text("queue"))
    _retries(entry, fields)
    is_on = fields.flag("enabled", default=True)
    entry.paused = not is_on or fields.text("status") == "disabled"
    knows = "the worker is told the time that it is for, and may add it"
    entry.note_all(
        fields,
        {
            "description": NO_DESCRIPTION,
            "date_as_argument": knows,
            "include_metadata": knows,
            "queue_name_prefix": "Active Job puts it before a queue's name; rename the queue",
            "queue_name_delimiter": "Active Job puts it into a queue's name; rename the queue",
            "rufus_scheduler_options": "how a process of Ruby fires",
        },
    )
    return entry.draft(place, fields)


def _retries(entry: Entry, fields: Fields) -> None:
    retry = fields.take("retry")
    if isinstance(retry, bool):
        retry = DEFAULT_RETRIES if retry else 0
    elif isinstance(retry, str) and re.fullmatch("[0-9]{1,4}", retry):
        retry = int(retry)
    if isinstance(retry, int):
        entry.retry("retry", retry + 1)
    elif retry is not None:
        raise BadInput(f"retry must be a number, true or false, not {kind_of(retry)}")


def _schedule(entry: Entry, fields: Fields) -> None:
    named = [name for name in _KINDS if name in fields]
    if len(named) != 1:
        raise BadInput(f"an entry has one of {', '.join(_KINDS)}, not {len(named)} of them")
    kind = named[0]
    value, more = _value_and_options(fields.take(kind))
    text = str(value).strip()
    match kind:
        case "cron":
            _cron(entry, text)
        case "every" | "interval":
            entry.every(_seconds(kind, value) * 1000)
            if kind == "interval":
                entry.note("interval", text, "counts from time to time, and not from end to begin")
        case "at":
            zone = _ZONE.fullmatch(text)
            local = (zone[1] if zone else text).replace("/", "-")
            at = entry.instant("at", local, zone[2] if zone else None)
            entry.schedule(at, "rfc3339")
        case _:
            raise BadInput("in counts from the start of the process, which is no schedule; use at")
    for name, option in more.items():
        why = "an option of the scheduler in Ruby, and not carried over"
        entry.note(f"{kind}.{name}", option, why, "set start_at" if "first" in name else "")


def _value_and_options(value: Any) -> tuple[Any, dict[str, Any]]:
    """Return `5m` and the options of `["5m", {first_in: 10s}]`."""
    if not isinstance(value, list):
        return value, {}
    options = [item for item in value[1:] if isinstance(item, dict)]
    if not value or len(options) != len(value) - 1:
        raise BadInput("a schedule in a list is a text and a mapping of options")
    return value[0], {str(name): it for option in options for name, it in option.items()}


def _cron(entry: Entry, text: str) -> None:
    if spoken := _SPOKEN.fullmatch(text):
        entry.every(int(spoken[1] or 1) * UNITS_S[spoken[2][0].lower()] * 1000)
        return
    zone = None
    # The last word of five or more may be a zone, and cannot be a weekday if it is.
    if (found := _ZONE.fullmatch(text)) and len(found[1].split()) in (1, 5, 6):
        is_field = len(text.split()) in (5, 6) and "/" not in found[2] and len(found[2]) == 3
        if not is_field or found[2] in ("UTC", "GMT"):
            text, zone = found[1], found[2]
    dialect = "node" if len(text.split()) == 6 else "vixie"
    if len(text.split()) not in (5, 6) and not text.startswith("@"):
        raise BadInput(f"{text[:64]!r}: of fugit's natural language only 'every 5 minutes' is read")
    entry.schedule(text, dialect, zone)


def _seconds(field: str, value: Any) -> float:
    """Return what a duration of rufus-scheduler means: `1h30m`, or seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    if not text or _PART.sub("", text):
        raise BadInput(f"{field}: {text[:32]!r} is not a duration, such as 30s, 5m or 1h30m")
    return sum(float(number) * UNITS_S[unit] for number, unit in _PART.findall(text))
