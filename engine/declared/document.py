"""The files: YAML or JSON, several of which make one declaration. Text in, entries and faults out.

    waterclock: 1            the version of this format
    owner: billing           whose jobs these are: what is gone from the files is deleted
    defaults: {…}            what every job of this file has unless it says otherwise
    jobs: {<id>: {…}, …}     bodies of POST /v1/jobs, or a list of them with their `job_id`
    calendars, queues, hosts: {<name>: {…}, …}     bodies of their PUT

Nothing stops at the first fault: each is kept with the place where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from engine.errors import BadInput
from engine.importers.documents import Place, lines_of, read_documents
from engine.names import check_group, check_host, check_job_id, check_queue
from engine.plan.calendar import check_calendar_name

FORMAT = 1
SECTIONS = ("jobs", "calendars", "queues", "hosts")
_FIELDS = ("waterclock", "owner", "defaults", *SECTIONS)
_CHECKS: Mapping[str, Callable[[str], str]] = {
    "jobs": check_job_id,
    "calendars": check_calendar_name,
    "queues": check_queue,
    "hosts": check_host,
}
_MERGED = ("target", "retry", "misfire")
"""Fields of a job that are merged with the default field by field; others are taken whole."""
MOST_OWNER_CHARS = 58
"""The owner is a tag, behind the word."""


@dataclass(frozen=True)
class Source:
    """One file."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _lines(self) -> dict[Place, int]:
        return lines_of(self.text)

    def line_of(self, place: Place) -> int | None:
        """Return the line of a place itself, None for one that is not there."""
        return self._lines.get(place)

    def where(self, place: Place) -> str:
        """Return `file:line` of a place, or of the nearest one around it."""
        for length in range(len(place), 0, -1):
            if line := self.line_of(place[:length]):
                return f"{self.name}:{line}"
        return self.name


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Entry:
    """What a file says of one job, calendar, queue or host; a job's defaults are merged in."""

    source: Source
    place: Place
    body: dict[str, Any] = field(repr=False)

    def fault(self, inner: Place, reason: str) -> Fault:
        """Return the fault of a place in the body: in the entry, or in the defaults."""
        named = ".".join(map(str, inner))
        is_own = not inner or self.source.line_of((*self.place, inner[0])) is not None
        inherits = self.place[0] == "jobs" and self.source.line_of(("defaults", *inner[:1]))
        if not is_own and inherits:
            return Fault(self.source.where(("defaults", *inner)), f"defaults.{named}: {reason}")
        label = ".".join(map(str, (*self.place, *inner)))
        return Fault(self.source.where((*self.place, *inner)), f"{label}: {reason}")


@dataclass
class Declared:
    """What all files say together."""

    owner: str | None = None
    jobs: dict[str, Entry] = field(default_factory=dict)
    calendars: dict[str, Entry] = field(default_factory=dict)
    queues: dict[str, Entry] = field(default_factory=dict)
    hosts: dict[str, Entry] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def section(self, name: str) -> dict[str, Entry]:
        found: dict[str, Entry] = getattr(self, name)
        return found


def read_sources(sources: Sequence[Source]) -> Declared:
    """Return what files declare together, and all that is wrong with how they say it."""
    declared = Declared()
    for source in sources:
        try:
            documents = read_documents(source.text, plain=True)
        except BadInput as error:
            declared.faults.append(Fault(source.name, error.message))
            continue
        declared.faults += _read(source, documents, declared)
    return declared


def _read(source: Source, documents: list[Any], into: Declared) -> Iterator[Fault]:
    content = documents[0] if len(documents) == 1 else None
    if not isinstance(content, dict):
        yield Fault(source.name, "this must be one mapping, with `waterclock: 1` and `jobs`")
        return
    for name in content.keys() - {*_FIELDS}:
        known = ", ".join(_FIELDS)
        yield Fault(source.where((name,)), f"there is no {name!r} here; known are {known}")
    version = content.get("waterclock")
    if type(version) is not int or version != FORMAT:
        reason = f"`waterclock: {FORMAT}` must say which version of this format it is"
        yield Fault(source.where(("waterclock",)), reason)
    yield from _read_owner(source, content.get("owner"), into)
    defaults = {} if content.get("defaults") is None else content["defaults"]
    if not isinstance(defaults, dict) or "job_id" in defaults:
        yield Fault(source.where(("defaults",)), "defaults must be a mapping without `job_id`")
        defaults = {}
    for section in SECTIONS:
        for place, name, body in _entries(section, content.get(section)):
            where = source.where(place)
            label = ".".join(map(str, place))
            if isinstance(name, Fault):
                yield Fault(where, f"{label}: {name.reason}")
            elif not isinstance(body, dict):
                yield Fault(where, f"{label}: this must be a mapping")
            elif other := into.section(section).get(name):
                there = other.source.where(other.place)
                yield Fault(where, f"{label}: {name} is declared at {there} already")
            else:
                merged = with_defaults(defaults, body) if section == "jobs" else body
                into.section(section)[name] = Entry(source, place, merged)


def _read_owner(source: Source, owner: object, into: Declared) -> Iterator[Fault]:
    if owner is None:
        return
    where = source.where(("owner",))
    try:
        if not isinstance(owner, str) or len(check_group(owner)) > MOST_OWNER_CHARS:
            raise BadInput(f"this is a name of {MOST_OWNER_CHARS} characters at the most")
    except BadInput as error:
        yield Fault(where, f"owner: {error.message}")
        return
    if into.owner not in (None, owner):
        yield Fault(where, f"owner: another file says {into.owner}; apply them one by one")
    into.owner = owner


def _entries(section: str, value: Any) -> Iterator[tuple[Place, str | Fault, Any]]:
    """Yield the place, the name and the body of each entry of a section."""
    if value is None:
        return
    if isinstance(value, dict):
        for name, body in value.items():
            place = (section, name)
            if section == "jobs" and isinstance(body, dict) and body.get("job_id", name) != name:
                yield place, Fault("", "another `job_id` stands inside; leave it out"), body
            else:
                yield place, _checked(section, name), {} if body is None else body
    elif section == "jobs" and isinstance(value, list):
        for number, body in enumerate(value):
            name = body.get("job_id") if isinstance(body, dict) else None
            missing = Fault("", "a job in a list needs its `job_id`")
            found = _checked(section, name) if isinstance(name, str) else missing
            yield (section, number), found, body
    else:
        form = "a mapping of ids, or a list" if section == "jobs" else "a mapping of names"
        yield (section,), Fault("", f"this must be {form}"), None


def _checked(section: str, name: str) -> str | Fault:
    try:
        return _CHECKS[section](name)
    except BadInput as error:
        return Fault("", error.message)


def with_defaults(defaults: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's body with what it leaves to the defaults. `null` is for the default of the
    API; a target takes nothing from one of another type."""
    merged = {**defaults, **body}
    for name in _MERGED:
        usual, own = defaults.get(name), body.get(name)
        if not isinstance(usual, dict) or not isinstance(own, dict):
            continue
        if name != "target" or own.get("type", usual.get("type")) == usual.get("type"):
            merged[name] = {**usual, **own}
    return {name: value for name, value in merged.items() if value is not None}
