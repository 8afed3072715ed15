"""What one look at the ledger brought, put in words once for all who hear of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import get_args

import orjson

from api.events_shown import Kind, shown
from engine.codec.positions import Position, dump_position
from engine.store.following import Entry

KINDS: frozenset[str] = frozenset(get_args(Kind))


class Read(list[Entry]):
    """Entries, in order of their times."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        super().__init__(entries)
        self._in_full: dict[Position, bytes] = {}

    @cached_property
    def told(self) -> list[tuple[str, str, bytes]]:
        """Kind, subject and text of each event."""
        return [
            (kind, subject, _text(kind, shown(kind, subject, entry.id[0], rest)))
            for entry in self
            for kind, subject, *rest in entry.events
            if kind in KINDS
        ]

    def in_full(self, position: Position) -> bytes:
        """Return all of it as text. Who listens from now on is at the same place as the others."""
        if position not in self._in_full:
            self._in_full[position] = joined([text for _, _, text in self.told], position)
        return self._in_full[position]


def joined(texts: list[bytes], position: Position) -> bytes:
    """Return events as text, and the id behind them all. The id alone moves a listener on past what
    it does not want, or may not see."""
    place = b"id: %b\n\n" % dump_position(position).encode()
    return b"\n".join(texts) + place


def _text(kind: str, said: object) -> bytes:
    return b"event: %b\ndata: %b\n" % (kind.encode(), orjson.dumps(said))
