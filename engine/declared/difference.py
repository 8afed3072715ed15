"""What is not as it is declared, field by field; and the steps that make it so.

Values are compared as the JSON that they are: `1` is not `true`. What may hold a secret is named
and not shown, since plans are printed where logs are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

Verb = Literal["add", "change", "delete"]
Kind = Literal["calendar", "queue", "host", "job"]

_OPENED = ("target", "retry", "misfire")
"""Fields that are held against each other field by field."""
_HIDDEN = ("headers", "env", "stdin")
"""Fields of a target whose values are not shown."""
HIDDEN = "(not shown)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that changes."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to add, change or delete."""

    verb: Verb
    kind: Kind
    name: str
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    """What to send; None if nothing but the state changes, and for a deletion."""
    version: int | None = None
    """The version that the plan was made on, of what has versions."""
    seen: Any = None
    """What a queue or host was allowed when the plan was made."""
    paused: bool | None = None
    """What becomes of a job that is there: paused, resumed, or left as it is."""
    depends_on: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    times: Mapping[str, list[str]] | None = None
    """The next times that appear (`added`) and disappear (`removed`), if the schedule is written in
    another way; None if it is not, or they cannot be told."""
    notes: tuple[str, ...] = ()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return what differs between two things of the same fields, fit to be shown."""
    return tuple(_each(old, new, ""))


def _each(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[Difference]:
    for name in sorted(old.keys() | new.keys()):
        was, is_to_be = old.get(name), new.get(name)
        if _text(was) == _text(is_to_be):
            continue
        if name in _OPENED and isinstance(was, dict) and isinstance(is_to_be, dict):
            yield from _each(was, is_to_be, f"{name}.")
        elif name in _HIDDEN:
            yield Difference(prefix + name, HIDDEN, HIDDEN)
        elif name == "url":
            yield Difference(prefix + name, _without_query(was), _without_query(is_to_be))
        else:
            yield Difference(prefix + name, was, is_to_be)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _without_query(url: Any) -> Any:
    if not isinstance(url, str) or "?" not in url:
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{HIDDEN}"
