"""JSON files that commands read, and what is wrong with them."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import click


def object_of(file: BinaryIO) -> dict[str, Any]:
    """Return the JSON object in a file. Refuses what is none."""
    found = _parsed(file.read(), file)
    if not isinstance(found, dict):
        raise click.ClickException(f"{_name(file)} holds no JSON object")
    return found


def items_of(file: BinaryIO) -> list[Any]:
    """Return what a JSON array in a file holds, or what its lines are. Refuses what is neither."""
    text = file.read()
    if text.lstrip().startswith(b"["):
        found: list[Any] = _parsed(text, file)
        return found
    return [_parsed(line, file) for line in text.splitlines() if line.strip()]


def _parsed(text: bytes, file: BinaryIO) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.ClickException(f"{_name(file)} is not JSON: {error}") from None


def _name(file: BinaryIO) -> str:
    return str(getattr(file, "name", "standard input"))
