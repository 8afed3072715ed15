"""RedBeat: the definitions that it keeps in Redis, as JSON.

    {"redbeat:cleanup": {"definition": {"name": "cleanup", "task": "app.cleanup", "schedule": …}}}

A definition may be a mapping or the text that the hash holds, stand under its key or alone, and
come in a list, or a line each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.errors import BadInput
from engine.importers.celery_entry import call, set_schedule
from engine.importers.documents import read_documents, read_json
from engine.importers.entry import Entry, read_each
from engine.importers.imported import Draft, Fields, Imported, Options

_OWN_KEYS = ("schedule", "statics", "lock")
"""What RedBeat keeps beside its entries: `redbeat::schedule` and the like."""


def read(text: str, options: Options) -> Imported:
    """Return the definitions of a text. Refuses with BadInput what is no JSON."""
    found = [item for document in read_documents(text) for item in _definitions(document)]
    return read_each(found, lambda place, it: _read(place, it, options))


def _definitions(document: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(document, list):
        for number, item in enumerate(document, start=1):
            yield f"definition {number}", item
    elif isinstance(document, dict) and not {"task", "definition"} & document.keys():
        for key, item in document.items():
            if not any(str(key).endswith(f"::{own}") for own in _OWN_KEYS):
                yield str(key), item
    else:
        yield "definition", document


def _read(place: str, item: Any, options: Options) -> Draft:
    definition = read_json(item) if isinstance(item, str) else item
    if isinstance(definition, dict) and "definition" in definition:
        # Beside it stands `meta`, when it ran last, which the new job does not inherit.
        definition = definition["definition"]
        definition = read_json(definition) if isinstance(definition, str) else definition
    fields = Fields(definition)
    name = fields.word("name")
    entry = Entry(name, options)
    value = fields.take("schedule")
    if value is None:
        raise BadInput("schedule is missing: an entry cannot do without it")
    set_schedule(entry, "schedule", value, None)
    call(
        entry,
        fields.word("task"),
        fields.take("args"),
        fields.take("kwargs"),
        fields.inner("options"),
    )
    entry.paused = not fields.flag("enabled", default=True)
    return entry.draft(f"{place}, {name}" if name not in place else place, fields)
