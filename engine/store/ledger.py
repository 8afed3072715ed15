"""The ledger: what happened, as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine import codec
from engine.execution import Record, SkipRecord
from engine.store import BLOCK_MS, Store


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


async def read_ledger(
    store: Store, cursors: dict[str, str], *, limit: int = 100
) -> list[LedgerEvent]:
    """Return what was added to the shards' ledgers, and move `cursors` on to behind it.

    Begin with empty `cursors` to hear what happens from then on. Waits half a second at the most.
    """
    if not cursors:
        cursors.update({shard.ledger: "$" for shard in store.layout.shards})
        await _resolve_ends(store, cursors)
    events = []
    for name, entries in await store.reader.xread(cursors, count=limit, block=BLOCK_MS) or []:
        for entry_id, fields in entries:
            cursors[name.decode()] = entry_id.decode()
            events += load_entry(entry_id, fields)
    return sorted(events, key=lambda event: event.at)


async def _resolve_ends(store: Store, cursors: dict[str, str]) -> None:
    """Put each ledger's last entry id in place of `$`, which would miss what comes between
    reads."""
    pipe = store.client.pipeline(transaction=False)
    for name in cursors:
        pipe.xrevrange(name, count=1)
    for name, entries in zip(list(cursors), await pipe.execute(), strict=True):
        cursors[name] = entries[0][0].decode() if entries else "0"


def load_entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> list[LedgerEvent]:
    """Return the events of one entry."""
    at = int(entry_id.partition(b"-")[0])
    return [_load_event(at, event) for event in codec.load_events(fields[b"events"])]


def _load_event(at: int, event: list[Any]) -> LedgerEvent:
    word, subject, *rest = event
    if word == "fired":
        attempt, due_at, stream = rest
        return LedgerEvent(at, word, subject, None, stream, at - due_at if attempt == 1 else None)
    has_record = word in ("succeeded", "failed", "dead", "skipped", "cancelled")
    record = codec.load_record(codec.dump_json(rest[0])) if has_record else None
    return LedgerEvent(at, word, subject, record)
