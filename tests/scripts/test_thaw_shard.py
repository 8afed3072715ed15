"""thaw_shard.lua: a shard goes on from where it stood."""

from __future__ import annotations

from invariants import changes, read_shard
from seeding import QUEUE, at_once, job_ids, seed, take
from test_freeze_shard import freeze_shard, position

from engine.keys import Shard
from engine.store import Store


async def thaw_shard(store: Store, shard: Shard) -> int:
    going: int = await store.scripts.run("thaw_shard", [shard.frozen], [shard.ready_prefix])
    return going


async def test_a_stream_hands_out_what_it_had_not(any_store: Store) -> None:
    store = any_store
    ids = job_ids(store, 3)
    shard = await seed(store, *map(at_once, ids))
    [first] = await take(store, count=1)
    before = await read_shard(store, shard)
    await freeze_shard(store, shard, "frozen", QUEUE)
    assert await thaw_shard(store, shard) == 1
    assert changes(before, await read_shard(store, shard)) == {}
    assert [d.job_id for d in [first, *await take(store)]] == ids


async def test_thawing_again_moves_nothing(any_store: Store) -> None:
    store = any_store
    shard = await seed(store, *map(at_once, job_ids(store, 2)))
    await freeze_shard(store, shard, "frozen", QUEUE)
    await thaw_shard(store, shard)
    await take(store, count=1)
    stands = await position(store, shard)
    assert await thaw_shard(store, shard) == 0
    assert await position(store, shard) == stands


async def test_a_stream_that_went_meanwhile_is_passed_over(any_store: Store) -> None:
    store = any_store
    shard = await seed(store, at_once("job-0"))
    await freeze_shard(store, shard, "frozen", QUEUE)
    await store.client.hset(shard.frozen, "group:gone", "1-0")
    assert await thaw_shard(store, shard) == 1
    assert await store.client.exists(shard.frozen, shard.ready("gone")) == 0
