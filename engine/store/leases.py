"""Leases of shards, and which schedulers there are."""

from __future__ import annotations

from dataclasses import dataclass

from engine.keys import SCHEDULERS, STARTS, Shard
from engine.store import Store


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to asking for a lease. `token` is the fencing token, '' if somebody else holds the
    lease."""

    token: str
    ttl_left_ms: int


async def acquire_lease(store: Store, shards: list[Shard], holder: str) -> list[Grant]:
    """Take or extend the leases of `shards`; return a grant for each. Raises what a call failed
    with."""
    ttl_ms = store.config.lease_ttl_ms
    replies = await store.scripts.run_all(
        [("acquire_lease", [s.lease, s.fence], [holder, ttl_ms]) for s in shards]
    )
    return [Grant(token.decode(), int(left)) for token, left in replies]


async def release_lease(store: Store, shard: Shard, holder: str) -> bool:
    """Give one lease back; return whether it was the caller's."""
    return bool(await store.scripts.run("release_lease", [shard.lease], [holder]))


async def read_holders(store: Store) -> list[tuple[str | None, int]]:
    """Return each shard's (holder, ms that its lease has left); None where nobody holds it."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.get(shard.lease)
        pipe.pttl(shard.lease)
    flat = await pipe.execute()
    return [
        (holder and holder.decode(), left)
        for holder, left in zip(flat[::2], flat[1::2], strict=True)
    ]


async def announce_scheduler(
    store: Store, holder: str, now: int, *, begins: bool = False
) -> list[str]:
    """Count `holder` as alive for one lease TTL; return all who are, in order of name. If it
    `begins` while none is alive, that is a start of the deployment. Also reads `store.starts`."""
    names, starts = await store.scripts.run(
        "announce_scheduler",
        [SCHEDULERS, STARTS],
        [holder, now, store.config.lease_ttl_ms, int(begins)],
    )
    store.starts = [int(at) for at in starts]
    return sorted(name.decode() for name in names)


async def read_starts(store: Store) -> list[int]:
    """Return the newest starts of the deployment, oldest first, and keep them as `store.starts`."""
    store.starts = [int(at) for at in await store.client.zrange(STARTS, 0, -1)]
    return store.starts


async def forget_scheduler(store: Store, holder: str) -> None:
    """Take a scheduler that stops off the list of live ones."""
    await store.client.zrem(SCHEDULERS, holder)
