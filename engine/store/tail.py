"""The end of the ledger: what happened last, read backwards and in bounded time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.keys import Shard
from engine.store import Store
from engine.store.ledger import LedgerEvent, load_entry

FIRST_LOOK = 16
"""Entries of a shard that the first read asks for; each further one asks for twice as many. One
entry may hold hundreds of events."""


@dataclass(slots=True)
class Tail:
    """The last events of one shard, newest entry first."""

    since: int
    """All that happened after that is in `events`."""
    events: list[LedgerEvent] = field(default_factory=list)
    entries: int = 0
    last: bytes | None = None
    """The id of the oldest entry that was read."""

    def add(self, entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]], room: int) -> bool:
        """Take entries in, newest first; return whether there was room for all. Without room the
        tail begins where it was full."""
        for entry_id, fields in entries:
            if len(self.events) >= room and self.last:
                self.begin_at_last()
                return False
            self.events += load_entry(entry_id, fields)
            self.entries += 1
            self.last = entry_id
        return True

    def begin_at_last(self) -> None:
        if self.last:
            self.since = int(self.last.partition(b"-")[0])


async def read_tails(store: Store, since: int, *, most: int) -> list[Tail]:
    """Return what each shard's ledger has of the time since then, about `most` events in all. Where
    more happened, or the ledger holds no more, a tail begins later."""
    room = max(1, most // len(store.layout.shards))
    tails = {shard: Tail(since) for shard in store.layout.shards}
    reading: list[Shard] = [*tails]
    count = FIRST_LOOK
    while reading:
        pipe = store.client.pipeline(transaction=False)
        for shard in reading:
            last = tails[shard].last
            end = f"({last.decode()}" if last else "+"
            pipe.xrevrange(shard.ledger, end, str(since), count=count)
        going_on = []
        for shard, entries in zip(reading, await pipe.execute(), strict=True):
            tail = tails[shard]
            if not tail.add(entries, room):
                continue
            if len(entries) == count:
                going_on.append(shard)
            elif tail.entries >= store.config.ledger_limit:
                tail.begin_at_last()  # what came before was trimmed
        reading = going_on
        count *= 2
    return [*tails.values()]
