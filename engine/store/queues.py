"""Queues: how much waits in their ready streams, and whose leases ran out there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.keys import GROUP
from engine.store import Store
from engine.store.executions import Stream, ensure_groups


async def count_unread(store: Store, streams: Sequence[Stream]) -> dict[Stream, int]:
    """Return how many entries of each stream no consumer has. Makes groups that are missing.

    Length and pending entries are read one after the other, so it may be off by what moves in
    between. `lag`, which the server offers, is wrong or missing where unread entries were deleted.
    """
    lengths = await _ask(store, streams, "XLEN")
    filled = [stream for stream, length in zip(streams, lengths, strict=True) if length]
    groups = dict(zip(filled, await _ask(store, filled, "XINFO", "GROUPS"), strict=True))
    for name in {name for (name, _), found in groups.items() if not found}:
        await ensure_groups(store, name)
    unread = dict(zip(streams, lengths, strict=True))
    for stream, found in groups.items():
        if isinstance(found, list) and found:  # an error: the stream is gone since
            group = dict(zip(found[0][::2], found[0][1::2], strict=True))
            unread[stream] = max(0, unread[stream] - group[b"pending"])
    return unread


async def find_stale(store: Store, streams: Sequence[Stream]) -> list[Stream]:
    """Return the streams that hold a delivery whose lease ran out, in one round trip."""
    idle_ms = store.config.execution_lease_ms
    pipe = store.client.pipeline(transaction=False)
    for name, shard in streams:
        pipe.xpending_range(shard.ready(name), GROUP, "-", "+", 1, idle=idle_ms)
    replies = await pipe.execute(raise_on_error=False)
    stale = []
    for stream, reply in zip(streams, replies, strict=True):
        if isinstance(reply, Exception):
            if not str(reply).startswith("NOGROUP"):
                raise reply
        elif reply:
            stale.append(stream)
    return stale


async def _ask(store: Store, streams: Sequence[Stream], *command: str) -> list[Any]:
    """Return the reply of each stream to one command about its key."""
    if not streams:
        return []
    pipe = store.client.pipeline(transaction=False)
    for name, shard in streams:
        pipe.execute_command(*command, shard.ready(name))
    replies: list[Any] = await pipe.execute(raise_on_error=False)
    for reply in replies:
        if isinstance(reply, Exception) and "no such key" not in str(reply):
            raise reply
    return replies
