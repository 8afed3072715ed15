"""Stopping a deployment for good, so that it can be carried to another server; and thawing it.

Scripts look at `frozen` of their shard (lua/lib/frozen.lua), so that no process has to be told.
Reads of ready streams are no scripts: their groups are put at the end of all ids. What is written
without a script, settings by the API, is turned away by the API, which looks once a second.
`FROZEN` is for processes that start (phase.py); it is written first and taken away last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from engine import codec
from engine.keys import FROZEN, GROUP, Shard
from engine.store import Store
from engine.store.phase import Phase
from engine.store.server import time_ms

SCAN_COUNT = 1_000


async def write_phase(store: Store, phase: Phase) -> None:
    """Say for the whole deployment in what phase it is."""
    at = await time_ms(store.client)
    await store.client.set(FROZEN, codec.dump_json({"phase": phase, "at": at}))


async def freeze(store: Store, phase: Phase) -> None:
    """Stop a deployment, or take one that is stopped to another phase. Sending it again is safe."""
    await write_phase(store, phase)
    await _freeze(store, phase, {})
    # A stream may have been made before its shard was frozen; none is after that.
    streams: dict[Shard, list[str]] = {}
    for shard, stream in await list_streams(store):
        streams.setdefault(shard, []).append(stream)
    await _freeze(store, phase, streams)


async def _freeze(store: Store, phase: Phase, streams: dict[Shard, list[str]]) -> None:
    await store.scripts.run_all(
        [
            ("freeze_shard", [s.frozen], [phase, s.ready_prefix, *streams.get(s, [])])
            for s in store.layout.shards
        ]
    )


async def thaw(store: Store) -> None:
    """Let a deployment go on that was stopped. Sending it again is safe."""
    await store.scripts.run_all(
        [("thaw_shard", [s.frozen], [s.ready_prefix]) for s in store.layout.shards]
    )
    await store.client.delete(FROZEN)


async def count_held(store: Store) -> int:
    """Return how many executions workers hold. Makes no group that is missing."""
    streams = await list_streams(store)
    pipe = store.client.pipeline(transaction=False)
    for shard, stream in streams:
        pipe.xpending(shard.ready(stream), GROUP)
    replies = await pipe.execute(raise_on_error=False) if streams else []
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith("NOGROUP"):
            raise reply
    return sum(reply["pending"] for reply in replies if not isinstance(reply, Exception))


async def list_streams(store: Store) -> list[tuple[Shard, str]]:
    """Return the ready streams there are, in a stable order."""
    found = {
        (shard.index, stream)
        async for shard, stream in scan_keys(store, lambda shard: shard.ready_prefix)
    }
    return [(store.layout.shards[index], stream) for index, stream in sorted(found)]


async def scan_keys(
    store: Store, prefix_of: Callable[[Shard], str]
) -> AsyncIterator[tuple[Shard, str]]:
    """Yield the shard of each key of a kind, and what follows its prefix there: some twice, where
    the server rebuilds its table meanwhile."""
    by_prefix = {prefix_of(shard): shard for shard in store.layout.shards}
    # A job's id may look like a key of another kind: what matches is compared once more.
    match = f"{prefix_of(Shard(0, '*'))}*"
    async for key in store.client.scan_iter(match=match, count=SCAN_COUNT):
        name = key.decode()
        for prefix, shard in by_prefix.items():
            if name.startswith(prefix):
                yield shard, name.removeprefix(prefix)
