"""survey_gates: what a shard's gates hold, and what waits at them."""

from __future__ import annotations

from invariants import read_shard
from seeding import NOW, at_once, grant, http, job_ids, seed, small, take

from engine.keys import Shard
from engine.names import Priority
from engine.store import Store
from engine.store.gates import SURVEY_LIMIT, Survey, survey_gates


async def survey(store: Store, shard: Shard, *streams: str) -> Survey:
    found = (await survey_gates(store, streams))[shard.index]
    assert isinstance(found, Survey)
    return found


async def test_a_shard_without_limits_has_nothing_to_tell(any_store: Store) -> None:
    shard = await seed(any_store, at_once("job-0"))
    assert await survey(any_store, shard) == Survey({}, {}, 0, {})


async def test_every_shard_is_asked(any_store: Store) -> None:
    for shard in any_store.layout.shards:
        await grant(any_store, shard, {"slots:q/mail": str(shard.index)})
    found = await survey_gates(any_store)
    assert [one.fields["slots:q/mail"] for one in found if isinstance(one, Survey)] == [0, 1, 2, 3]


async def test_permits_counts_and_what_waits_are_told(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    store = small(any_store, max_ready=2)
    await grant(store, shard, {"slots:q/default": "2", "tokens:h/a.test": "0", "fair:mail": "4"})
    ids = job_ids(store, 6)
    for job_id in ids[:2]:
        await seed(store, at_once(job_id))
    await seed(store, at_once(ids[2], priority=Priority.HIGH))
    for job_id in ids[3:5]:
        await seed(store, at_once(job_id, queue="http", target=http("a.test")))
    await seed(store, at_once(ids[5], queue="http", target=http("b.test")))
    before = await read_shard(store, shard)
    assert await survey(store, shard) == Survey(
        {
            "slots:q/default": 0,
            "live:q/default": 2,
            "tokens:h/a.test": 0,
            "fair:mail": 4,
            "token": 1,
        },
        {"@q/default:high": 1, "@h/a.test": 2},
        2,
        {},
    )
    assert await read_shard(store, shard) == before


async def test_what_waits_for_room_is_told_too(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    ids = job_ids(store, 3)
    shard = await seed(store, *(at_once(job_id) for job_id in ids))
    assert (await survey(store, shard)).waiting == {"@default": 2}


async def test_entries_that_no_consumer_has_are_unread(any_store: Store) -> None:
    ids = job_ids(any_store, 3)
    shard = await seed(any_store, *(at_once(job_id) for job_id in ids))
    unread = (await survey(any_store, shard, "default", "mail")).unread
    assert unread == {"default": 3, "mail": 0}
    await take(any_store, count=2)
    assert (await survey(any_store, shard, "default")).unread == {"default": 1}


async def test_all_buckets_are_told_where_there_are_many(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    names = [f"@g/mail/{n}" for n in range(SURVEY_LIMIT + 1)]
    pipe = any_store.client.pipeline(transaction=False)
    for name in names:
        pipe.zadd(shard.due(name), {"x@1": NOW})
    pipe.zadd(shard.buckets, dict.fromkeys(names, float("inf")))
    await pipe.execute()
    found = await survey(any_store, shard)
    assert found.buckets == len(names)
    assert found.waiting == dict.fromkeys(names, 1)
    await any_store.client.delete(shard.buckets, *map(shard.due, names))
