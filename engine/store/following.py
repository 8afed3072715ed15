"""Following the ledger: what was added to it behind a position, entry by entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine import codec
from engine.codec.positions import BEGINNING, EntryId, Position, dump_entry_id, load_entry_id
from engine.store import BLOCK_MS, Store


@dataclass(frozen=True, slots=True)
class Entry:
    """What one script did, as its ledger has it."""

    shard: int
    id: EntryId
    events: list[list[Any]]
    """Each is a word, a job's or an execution's id, and what else there is to say."""


async def read_ends(store: Store) -> Position:
    """Return the position behind all that has happened so far."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xrevrange(shard.ledger, count=1)
    return tuple(load_entry_id(e[0][0]) if e else BEGINNING for e in await pipe.execute())


async def find_gaps(store: Store, position: Position) -> list[EntryId]:
    """Return, for each shard whose ledger was trimmed since this position, the first entry that it
    still holds: what lay between may be lost."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xrange(shard.ledger, count=1)
        pipe.xlen(shard.ledger)
    replies = await pipe.execute()
    gaps = []
    for seen, entries, _ in zip(position, replies[::2], replies[1::2], strict=True):
        first = load_entry_id(entries[0][0]) if entries else BEGINNING
        if BEGINNING < seen < first:
            gaps.append(first)
    return gaps


async def read_between(
    store: Store, position: Position, until: Position, count: int
) -> list[Entry]:
    """Return what lies behind a position, up to and with another: `count` entries of a shard at the
    most, in order of their times; empty when there is nothing more."""
    pipe = store.client.pipeline(transaction=False)
    asked = []
    for shard, begin, end in zip(store.layout.shards, position, until, strict=True):
        if begin < end:
            asked.append(shard.index)
            first = f"({dump_entry_id(begin)}"
            pipe.xrange(shard.ledger, first, dump_entry_id(end), count=count)
    replies = await pipe.execute() if asked else []
    return _in_order(
        _load(index, entry_id, fields)
        for index, entries in zip(asked, replies, strict=True)
        for entry_id, fields in entries
    )


async def wait_for_entries(store: Store, position: Position, count: int) -> list[Entry]:
    """Return what comes behind a position, in order of its times; empty when nothing came within
    half a second."""
    names = {shard.ledger.encode(): shard.index for shard in store.layout.shards}
    cursors = {
        shard.ledger: dump_entry_id(seen)
        for shard, seen in zip(store.layout.shards, position, strict=True)
    }
    reply = await store.reader.xread(cursors, count=count, block=BLOCK_MS) or []
    return _in_order(
        _load(names[name], entry_id, fields)
        for name, entries in reply
        for entry_id, fields in entries
    )


async def read_groups(store: Store, job_ids: Iterable[str]) -> dict[str, str | None]:
    """Return the group, None for none, of those jobs that are there."""
    asked = list(job_ids)
    pipe = store.client.pipeline(transaction=False)
    for job_id in asked:
        pipe.hmget(store.layout.shard_of(job_id).job(job_id), "head", "group")
    replies = await pipe.execute() if asked else []
    return {
        job_id: group.decode() if group else None
        for job_id, (head, group) in zip(asked, replies, strict=True)
        if head
    }


def behind(position: Position, entries: Iterable[Entry]) -> Position:
    """Return the position behind these entries."""
    moved = list(position)
    for entry in entries:
        moved[entry.shard] = max(moved[entry.shard], entry.id)
    return tuple(moved)


def _load(shard: int, entry_id: bytes, fields: dict[bytes, bytes]) -> Entry:
    return Entry(shard, load_entry_id(entry_id), codec.load_events(fields[b"events"]))


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.id, entry.shard))
