"""adopt_zones: by which editions of the zone database next times of a shard may be."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import lease, registration, seed

from engine.errors import Fenced
from engine.plan import ZONE_DATABASE
from engine.store import Store
from engine.store.zones import adopt_zones


async def test_an_edition_is_added_once(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    assert await adopt_zones(any_store, shard, token, "s1") == {ZONE_DATABASE}
    assert await adopt_zones(any_store, shard, token, "s1") == {ZONE_DATABASE}
    after = await read_shard(any_store, shard)
    assert changes(before, after) == {"zones": {ZONE_DATABASE: True}}


async def test_one_that_is_done_goes(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    token = await lease(any_store, shard)
    await any_store.client.sadd(shard.zones, "2000a", "2001b")
    found = await adopt_zones(any_store, shard, token, "s1", done="2000a")
    assert found == {ZONE_DATABASE, "2001b"}
    assert (await read_shard(any_store, shard))["zones"] == {ZONE_DATABASE: True, "2001b": True}


@pytest.mark.parametrize(("token", "holder"), [("1", "s1"), ("", "s2")])
async def test_an_old_grant_changes_nothing(any_store: Store, token: str, holder: str) -> None:
    shard = any_store.layout.shards[0]
    newest = await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    with pytest.raises(Fenced):
        await adopt_zones(any_store, shard, token or newest, holder)
    assert await read_shard(any_store, shard) == before
