"""What an importer gives: drafts of jobs, refusals, and notes about what did not come along.

A draft is the body of `POST /v1/jobs`. An importer reads the fields of an entry through `Fields`,
which knows what nobody has asked for: `Entry.draft` turns that into notes, so that a field which no
importer has heard of is told of, and not lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import BadInput

_LIKE_A_SECRET = re.compile(r"secret|token|passw|pwd|credential|api.?key|auth|private", re.I)
_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Note:
    """One field that is not carried over as it is."""

    field: str
    value: str
    """As text, shortened; of a secret, and of what holds others, only what it is."""
    why: str
    advice: str = ""
    """What to do about it, where there is something to do."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One job to register."""

    place: str
    """Where it stands in its source, in words."""
    body: dict[str, Any]
    """Of `POST /v1/jobs`."""
    runs: str = ""
    """What the source calls the thing that is run."""
    paused: bool = False
    """Whether it is to be registered without firing."""
    notes: tuple[Note, ...] = ()

    @property
    def job_id(self) -> str:
        job_id: str = self.body["job_id"]
        return job_id


@dataclass(frozen=True, slots=True)
class Refusal:
    """One entry that is not taken, and why, in words for the person who wrote it."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What a source comes to: each of its entries is a draft or a refusal."""

    drafts: tuple[Draft, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    """About the source as a whole."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the person who imports decides."""

    now: int
    filename: str = "-"
    timezone: str = "UTC"
    """Of hours for which the source names no zone."""
    url: str | None = None
    """Where jobs POST to that `targets` does not name; else they are for workers."""
    shell: bool = False
    """Whether commands become shell jobs."""
    system: bool | None = None
    """Of a crontab: whether lines name a user; None recognises it."""
    targets: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """What the source calls the thing to run → the target of the job."""
    group: str | None = None
    """The group of every job, in place of the source's own."""
    prefix: str = ""
    """What every job id begins with."""


class Fields:
    """The fields of a mapping, read by name. A value that is absent or null is None; one of the
    wrong type is refused with BadInput that names the field."""

    def __init__(self, values: object, path: str = "") -> None:
        if not isinstance(values, Mapping):
            raise BadInput(f"{path or 'this'} must be a mapping of fields, not {kind_of(values)}")
        self._values = {str(name): value for name, value in values.items()}
        self._taken: set[str] = set()
        self._inner: dict[str, Fields] = {}
        self.path = path

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def take_all(self) -> dict[str, Any]:
        """Return the whole mapping: all of it has been asked for."""
        self._taken |= self._values.keys()
        self._inner.clear()
        return self._values

    def is_null(self, name: str) -> bool:
        """Return whether the field is there, and null."""
        self._taken.add(name)
        return name in self._values and self._values[name] is None

    def path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str) -> Any:
        self._taken.add(name)
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value

    def word(self, name: str) -> str:
        """Return a text that must be there, and not be empty."""
        text = self.text(name)
        if not text:
            raise BadInput(f"{self.path_of(name)} is missing: an entry cannot do without it")
        return text

    def number(self, name: str) -> int | float | None:
        value = self.take(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self._wrong(name, "a number", value)
        return value

    def whole(self, name: str) -> int | None:
        value = self.number(name)
        if isinstance(value, float):
            if not value.is_integer():
                raise self._wrong(name, "a whole number", value)
            value = int(value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def items(self, name: str) -> list[Any]:
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return value

    def inner(self, name: str) -> Fields:
        """Return the fields of a mapping within; none where it is absent."""
        if name not in self._inner:
            value = self.take(name)
            self._inner[name] = Fields({} if value is None else value, self.path_of(name))
        return self._inner[name]

    def left(self) -> Iterator[tuple[str, Any]]:
        """Yield (path, value) of what nobody asked for, here and in what is within."""
        for name, value in self._values.items():
            if name in self._inner:
                yield from self._inner[name].left()
            elif name not in self._taken and value not in (None, "", [], {}):
                yield self.path_of(name), value

    def _wrong(self, name: str, wanted: str, value: object) -> BadInput:
        return BadInput(f"{self.path_of(name)} must be {wanted}, not {kind_of(value)}")


def refuse_unknown(fields: Fields) -> None:
    """Refuse with BadInput fields of which nobody has asked for one."""
    for path, _ in fields.left():
        raise BadInput(f"{path} is not known here; leave it out if the rest is right")


def shown(name: str, value: object) -> str:
    """Return what a note says of a value: short, and nothing of what may be a secret."""
    if isinstance(value, dict | list):
        return kind_of(value)
    if _LIKE_A_SECRET.search(name):
        return "(not shown)"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"


def kind_of(value: object) -> str:
    """Return what a value is, in words and without what it holds."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return f"a mapping of {', '.join(sorted(map(str, value))[:6])}" if value else "{}"
        case _:
            return f"a {type(value).__name__}"
