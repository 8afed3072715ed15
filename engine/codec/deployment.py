"""What belongs to no shard: the layout and the calendars."""

from __future__ import annotations

from typing import Any

import orjson

from engine.keys import LAYOUT_VERSION, Layout
from engine.plan import Calendar


def dump_calendar(calendar: Calendar) -> bytes:
    return orjson.dumps(calendar.to_dict())


def load_calendar(name: str, data: bytes) -> Calendar:
    """Return the calendar that a field of `wc:calendars` holds: `<version> <JSON>`."""
    version, _, fields = data.partition(b" ")
    return Calendar.from_dict(name, orjson.loads(fields), int(version))


def dump_layout(layout: Layout) -> bytes:
    return orjson.dumps({"version": LAYOUT_VERSION, "hash": "crc32", "tags": layout.tags})


def load_layout(data: bytes) -> tuple[Any, Layout]:
    """Return (version, layout) of what `wc:layout` holds."""
    fields = orjson.loads(data)
    return fields["version"], Layout(tuple(fields["tags"]))


def dump_json(value: object) -> bytes:
    return orjson.dumps(value)


def load_json(data: bytes) -> Any:
    return orjson.loads(data)
