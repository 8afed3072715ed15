"""add_dependent: a job that is there tells another one from now on; one that comes later too."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import registration, seed

from engine.errors import NotFound
from engine.store import Store
from engine.store.jobs import create_jobs


async def add(store: Store, job_id: str, dependent: str, *, may_be_missing: bool = False) -> None:
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.dependents(job_id)]
    await store.scripts.run("add_dependent", keys, [job_id, dependent, int(may_be_missing)])


async def test_a_job_that_is_there_is_marked(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    for _ in range(2):
        await add(any_store, "job-0", "b")
        assert changes(before, await read_shard(any_store, shard)) == {
            "job:job-0": {"dependents": "1", "rules": "1"},
            "dependents:job-0": {"b": 0.0},
        }


async def test_one_that_is_not_there_is_refused(any_store: Store) -> None:
    with pytest.raises(NotFound, match="there is no job gone to depend on"):
        await add(any_store, "gone", "b")
    assert await any_store.client.dbsize() <= 1  # the layout


async def test_one_that_may_be_missing_is_marked_when_it_comes(any_store: Store) -> None:
    await add(any_store, "a", "b", may_be_missing=True)
    shard = any_store.layout.shard_of("a")
    assert await read_shard(any_store, shard) == {"dependents:a": {"b": 0.0}}
    await create_jobs(any_store, [registration("a")])
    assert (await read_shard(any_store, shard))["job:a"]["dependents"] == "1"
