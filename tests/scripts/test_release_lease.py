"""release_lease: a lease is given back by its holder alone."""

from __future__ import annotations

from invariants import changes, read_shard
from seeding import lease

from engine.store import Store
from engine.store.leases import release_lease


async def test_a_released_shard_is_free_and_keeps_its_fence(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    await lease(any_store, shard, "s1")
    before = await read_shard(any_store, shard)
    assert await release_lease(any_store, shard, "s1")
    assert changes(before, await read_shard(any_store, shard)) == {"lease": None}


async def test_somebody_elses_lease_stays(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    await lease(any_store, shard, "s1")
    before = await read_shard(any_store, shard)
    assert not await release_lease(any_store, shard, "s2")
    assert await read_shard(any_store, shard) == before


async def test_releasing_again_is_nothing(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    await lease(any_store, shard, "s1")
    await release_lease(any_store, shard, "s1")
    assert not await release_lease(any_store, shard, "s1")
