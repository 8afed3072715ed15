"""Lines of an export: one JSON object each, any bytes of Redis in them, and back.

A value is text where it is UTF-8, else `{"base64": …}`. Hashes and streams' fields are flat lists
of names and values, so that an object inside a record means nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from engine.errors import BadInput


def dump_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line, with its end. Values are text, bytes, whole numbers, floats, None,
    and lists of these."""
    return orjson.dumps(record, default=_dump_bytes, option=orjson.OPT_APPEND_NEWLINE)


def load_line(line: bytes) -> dict[str, Any]:
    """Return the record of a line, in which text stands for bytes too. Raises BadInput."""
    if not line.endswith(b"\n"):
        raise BadInput("the line has no end: the export was cut off")
    try:
        record = orjson.loads(line)
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            raise ValueError("it is no object with a `kind`")
        return {name: _load_bytes(value) for name, value in record.items()}
    except (ValueError, TypeError) as error:
        raise BadInput(f"the line is no record of an export: {error}") from None


def _dump_bytes(value: Any) -> Any:
    # Only `bytes` comes here, and any object that it cannot read is refused as such.
    if not isinstance(value, bytes):
        raise TypeError
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _load_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_load_bytes(part) for part in value]
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    return value
