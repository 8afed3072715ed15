"""glance_due: what is at hand in some shards, in one call."""

from __future__ import annotations

from invariants import read_shard
from seeding import MINUTE, NOW, ONE_OFF, job_ids, registration, seed, small

from engine.store import Store
from engine.store.due import Glance, glance_due
from engine.store.jobs import create_jobs, run_job


async def test_an_empty_deployment_has_nothing_at_hand(any_store: Store) -> None:
    shards = any_store.layout.shards
    assert await glance_due(any_store, shards, NOW) == [Glance(None, False)] * len(shards)


async def test_the_oldest_of_this_minute_is_told_due_or_not(any_store: Store) -> None:
    one, two = job_ids(any_store, 2)
    shard = await seed(any_store, registration(one, next_run_at=NOW + 900))
    await create_jobs(any_store, [registration(two, ONE_OFF, next_run_at=NOW + 20)])
    before = await read_shard(any_store, shard)
    assert await glance_due(any_store, [shard], NOW + 50) == [Glance(NOW + 20, False)]
    assert await read_shard(any_store, shard) == before


async def test_other_minutes_are_not_looked_at(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", next_run_at=NOW + MINUTE))
    assert await glance_due(any_store, [shard], NOW) == [Glance(None, False)]
    assert await glance_due(any_store, [shard], NOW + MINUTE) == [Glance(NOW + MINUTE, False)]
    assert await glance_due(any_store, [shard], NOW + 2 * MINUTE) == [Glance(None, False)]


async def test_what_waits_for_room_is_told(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await seed(store, registration("job-0", next_run_at=NOW + MINUTE))
    for n in range(2):
        await run_job(store, "job-0", NOW + n)
    others = [one for one in store.layout.shards if one is not shard]
    found = await glance_due(store, [others[0], shard], NOW)
    assert found == [Glance(None, False), Glance(None, True)]
