"""remove_dependent: a job tells another one nothing more; without any it is as others are."""

from __future__ import annotations

from invariants import changes, read_shard
from seeding import registration, seed
from test_add_dependent import add

from engine.store import Store


async def remove(store: Store, job_id: str, dependent: str) -> None:
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.dependents(job_id)]
    await store.scripts.run("remove_dependent", keys, [dependent])


async def test_the_mark_goes_with_the_last_one(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await add(any_store, "job-0", "b")
    await add(any_store, "job-0", "c")
    await remove(any_store, "job-0", "b")
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"dependents": "1", "rules": "1"},
        "dependents:job-0": {"c": 0.0},
    }
    for _ in range(2):
        await remove(any_store, "job-0", "c")
        # To look once more at the end of an execution hurts nobody.
        assert changes(before, await read_shard(any_store, shard)) == {"job:job-0": {"rules": "1"}}


async def test_of_a_job_that_is_gone_nothing_is_made(any_store: Store) -> None:
    await add(any_store, "a", "b", may_be_missing=True)
    await remove(any_store, "a", "b")
    assert await read_shard(any_store, any_store.layout.shard_of("a")) == {}
