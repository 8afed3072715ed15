"""The ledger: what happened, as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine import codec
from engine.execution import Record, SkipRecord


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """One event. `subject` is an execution id for what happens to one, else a job id."""

    at: int
    word: str
    subject: str
    record: Record | SkipRecord | None
    stream: str | None = None
    """With `lag_ms`, of what was fired: where it waits for a worker."""
    lag_ms: int | None = None
    """How late a first attempt came there."""


def load_entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> list[LedgerEvent]:
    """Return the events of one entry."""
    at = int(entry_id.partition(b"-")[0])
    return [load_event(at, event) for event in codec.load_events(fields[b"events"])]


def load_event(at: int, event: list[Any]) -> LedgerEvent:
    """Return one event of an entry that was added at that time."""
    word, subject, *rest = event
    if word == "fired":
        attempt, due_at, stream = rest
        return LedgerEvent(at, word, subject, None, stream, at - due_at if attempt == 1 else None)
    has_record = word in ("succeeded", "failed", "dead", "skipped", "cancelled")
    record = codec.load_record(codec.dump_json(rest[0])) if has_record else None
    return LedgerEvent(at, word, subject, record)
