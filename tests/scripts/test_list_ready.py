"""list_ready: the executions at both ends of streams, named and nothing more."""

from __future__ import annotations

import pytest
from invariants import read_shard
from seeding import NOW, QUEUE, at_once, job_ids, seed

from engine.keys import Shard
from engine.store import Store


async def listed(store: Store, shard: Shard, *streams: str, count: int) -> list[list[str]]:
    keys = [shard.ready(stream) for stream in streams]
    reply = await store.scripts.run("list_ready", keys, [count])
    return [[name.decode() for name in names] for names in reply]


@pytest.mark.parametrize(
    ("number", "places"),
    [(0, []), (1, [0]), (3, [0, 1, 2]), (4, [0, 1, 3, 2]), (7, [0, 1, 6, 5])],
)
async def test_both_ends_are_named_and_nothing_twice(
    any_store: Store, number: int, places: list[int]
) -> None:
    ids = job_ids(any_store, max(number, 1))
    shard = any_store.layout.shard_of(ids[0])
    for job_id in ids[:number]:
        await seed(any_store, at_once(job_id))
    [names] = await listed(any_store, shard, QUEUE, count=2)
    assert names == [f"{ids[place]}@{NOW}" for place in places]


async def test_streams_are_told_apart_and_one_that_is_not_there_is_empty(any_store: Store) -> None:
    first, second = job_ids(any_store, 2)
    shard = await seed(any_store, at_once(first), at_once(second, queue="mail"))
    before = await read_shard(any_store, shard)
    assert await listed(any_store, shard, "mail", "none", QUEUE, count=5) == [
        [f"{second}@{NOW}"],
        [],
        [f"{first}@{NOW}"],
    ]
    assert await read_shard(any_store, shard) == before
