"""Queues: how much waits in their ready streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.keys import GROUP
from engine.store import Store


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one shard's ready stream of a queue holds."""

    waiting: int
    """Entries that no consumer has."""
    held: int
    """Entries that a consumer has."""
    has_stale: bool
    """Whether the lease of one that is held ran out."""
    has_group: bool
    """False before the first consumer: its group is made by `ensure_groups`."""


async def read_backlogs(store: Store, queue: str) -> list[Backlog]:
    """Return the backlog of a queue in each shard. Makes neither stream nor group nor consumer."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xlen(shard.ready(queue))
        pipe.xpending(shard.ready(queue), GROUP)
        pipe.xpending_range(
            shard.ready(queue), GROUP, "-", "+", 1, idle=store.config.execution_lease_ms
        )
    replies = await pipe.execute(raise_on_error=False)
    return [_backlog(*replies[at : at + 3]) for at in range(0, len(replies), 3)]


def _backlog(length: Any, pending: Any, stale: Any) -> Backlog:
    for reply in (length, pending, stale):
        if isinstance(reply, Exception) and not str(reply).startswith("NOGROUP"):
            raise reply
    if isinstance(pending, Exception) or isinstance(stale, Exception):
        return Backlog(length, held=0, has_stale=False, has_group=False)
    # Read one after the other: work may end in between.
    waiting = max(0, length - pending["pending"])
    return Backlog(waiting, pending["pending"], bool(stale), has_group=True)
