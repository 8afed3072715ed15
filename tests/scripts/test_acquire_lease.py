"""acquire_lease: one holder a shard, and a token that only grows."""

from __future__ import annotations

from invariants import read_shard
from seeding import lease

from engine.keys import Shard
from engine.store import Store
from engine.store.leases import Grant, acquire_lease, read_holders
from engine.store.server import time_ms


async def ask(store: Store, holder: str) -> Grant:
    [grant] = await acquire_lease(store, [shard_of(store)], holder)
    return grant


def shard_of(store: Store) -> Shard:
    return store.layout.shards[0]


async def test_a_free_shard_is_granted_with_the_servers_time_as_token(any_store: Store) -> None:
    earliest = await time_ms(any_store.client)
    grant = await ask(any_store, "s1")
    latest = await time_ms(any_store.client)
    assert earliest <= int(grant.token) <= latest
    assert grant.ttl_left_ms == any_store.config.lease_ttl_ms
    assert await read_shard(any_store, shard_of(any_store)) == {
        "lease": "s1",
        "fence": {"token": grant.token, "holder": "s1"},
    }


async def test_renewing_extends_the_lease_and_keeps_the_token(any_store: Store) -> None:
    first = await ask(any_store, "s1")
    await any_store.client.pexpire(shard_of(any_store).lease, 1_000)
    assert await ask(any_store, "s1") == first
    left = await any_store.client.pttl(shard_of(any_store).lease)
    assert 1_000 < left <= any_store.config.lease_ttl_ms


async def test_a_shard_that_is_held_is_refused_and_unchanged(any_store: Store) -> None:
    await ask(any_store, "s1")
    before = await read_shard(any_store, shard_of(any_store))
    refused = await ask(any_store, "s2")
    assert refused.token == ""
    assert 0 < refused.ttl_left_ms <= any_store.config.lease_ttl_ms
    assert await read_shard(any_store, shard_of(any_store)) == before


async def test_an_expired_lease_goes_to_the_next_with_a_larger_token(any_store: Store) -> None:
    first = await ask(any_store, "s1")
    await any_store.client.delete(shard_of(any_store).lease)
    second = await ask(any_store, "s2")
    assert int(second.token) > int(first.token)
    assert (await read_shard(any_store, shard_of(any_store)))["lease"] == "s2"


async def test_a_holder_that_lost_its_lease_gets_a_new_token(any_store: Store) -> None:
    first = await ask(any_store, "s1")
    await any_store.client.delete(shard_of(any_store).lease)
    assert int((await ask(any_store, "s1")).token) > int(first.token)


async def test_tokens_grow_past_a_fence_that_is_ahead_of_the_servers_time(
    any_store: Store,
) -> None:
    ahead = await time_ms(any_store.client) + 3_600_000
    await any_store.client.hset(shard_of(any_store).fence, mapping={"token": ahead, "holder": "s0"})
    assert (await ask(any_store, "s1")).token == str(ahead + 1)


async def test_tokens_grow_past_a_fence_that_was_lost(any_store: Store) -> None:
    first = await ask(any_store, "s1")
    await any_store.client.delete(shard_of(any_store).lease, shard_of(any_store).fence)
    # Within one millisecond it is the same number: hence the fence compares the holder too.
    assert int((await ask(any_store, "s2")).token) >= int(first.token)


async def test_a_holder_whose_grant_was_rewound_gets_a_new_token(any_store: Store) -> None:
    """A failover can keep the lease and lose the fence, or give it back to an older holder."""
    shard = shard_of(any_store)
    first = await ask(any_store, "s1")
    await any_store.client.hset(shard.fence, "holder", "s0")
    second = await ask(any_store, "s1")
    assert int(second.token) > int(first.token)
    assert (await read_shard(any_store, shard))["fence"] == {"token": second.token, "holder": "s1"}


async def test_leases_of_several_shards_are_taken_at_once(any_store: Store) -> None:
    shards = any_store.layout.shards
    await lease(any_store, shards[1], "s2")
    grants = await acquire_lease(any_store, list(shards), "s1")
    assert [bool(grant.token) for grant in grants] == [True, False, True, True]
    holders = [holder for holder, _ in await read_holders(any_store)]
    assert holders == ["s1", "s2", "s1", "s1"]
