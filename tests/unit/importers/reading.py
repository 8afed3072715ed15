"""What the importers' tests share: sources to read, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.importers import Draft, Imported, Options, read_from

SAMPLES = Path(__file__).parents[1] / "data" / "importers"
NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z
OPTIONS = Options(NOW)

Wrap = Callable[[Any], str]
Path_ = tuple[Any, ...]


def read(source: str, text: str, **options: Any) -> Imported:
    return read_from(source, text, replace(OPTIONS, **options))


def sample(source: str, filename: str, **options: Any) -> Imported:
    return read(source, (SAMPLES / filename).read_text(), **options)


def only(found: Imported) -> Draft:
    """The only draft of a source in which nothing is refused."""
    assert found.refusals == ()
    (draft,) = found.drafts
    return draft


def reason(found: Imported) -> str:
    """Why the only entry of a source is refused."""
    assert found.drafts == ()
    (refusal,) = found.refusals
    return refusal.reason


def noted(draft: Draft) -> dict[str, str]:
    """Field → why, of a draft's notes."""
    return {note.field: note.why for note in draft.notes}


def fields_of(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of each field of mappings within, in lists, too."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from fields_of(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from fields_of(inner, (*path, number))


def mappings_of(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of each mapping within, the outermost first."""
    if isinstance(value, dict):
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in inside:
        if isinstance(inner, dict | list):
            yield from mappings_of(inner, (*path, name))


def changed(value: Any, path: Path_, change: Callable[[Any], None]) -> Any:
    """Return a copy in which `change` was made to what is at the path."""
    copy = deepcopy(value)
    held = copy
    for name in path:
        held = held[name]
    change(held)
    return copy


def outcome(found: Imported) -> str:
    """All that an import says, as text; but not how many things a mapping of a note holds."""
    return json.dumps(
        [
            [
                (draft.body, draft.paused, [note_of(note) for note in draft.notes])
                for draft in found.drafts
            ],
            [refusal.reason for refusal in found.refusals],
            [note_of(note) for note in found.notes],
        ]
    )


def note_of(note: Any) -> list[str]:
    return [note.field, note.value, note.why]
