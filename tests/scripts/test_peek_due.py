"""peek_due: what is due in a shard, and when to look again."""

from __future__ import annotations

from collections import Counter

import pytest
from invariants import read_shard
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    ONE_OFF,
    at_once,
    fire,
    grant,
    http,
    job_ids,
    registration,
    result,
    seed,
    small,
    start,
)

from engine.keys import Shard
from engine.names import Priority
from engine.store import Store
from engine.store.due import Peek, Slice, peek_due
from engine.store.executions import complete_executions


async def peek(store: Store, shard: Shard, now: int = NOW) -> Peek:
    [found] = await peek_due(store, [shard], now, store.config.batch)
    assert isinstance(found, Peek)
    return found


def member(job_id: str) -> bytes:
    return f"{EVERY_MINUTE.id}|{job_id}".encode()


async def test_an_empty_shard_has_nothing_due(any_store: Store) -> None:
    assert await peek(any_store, any_store.layout.shards[0]) == Peek(None, [])


async def test_every_shard_is_asked_at_once(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    found = await peek_due(any_store, any_store.layout.shards, NOW, 9)
    due = [peek for peek in found if isinstance(peek, Peek) and peek.slices]
    assert due == [await peek(any_store, shard)]
    assert len(found) == len(any_store.layout.shards)


async def test_what_is_due_comes_oldest_first(any_store: Store) -> None:
    ids = job_ids(any_store, 3)
    times = [NOW + 2, NOW, NOW + 3]
    shard = await seed(
        any_store,
        *(registration(job_id, next_run_at=at) for job_id, at in zip(ids, times, strict=True)),
    )
    assert await peek(any_store, shard, NOW + 2) == Peek(
        NOW, [Slice(BUCKET, [(member(ids[1]), NOW), (member(ids[0]), NOW + 2)])]
    )


async def test_a_job_due_in_the_future_only_says_when(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    assert await peek(any_store, shard, NOW - 1) == Peek(NOW, [])


async def test_this_minute_comes_first_then_the_last_then_the_oldest(any_store: Store) -> None:
    """What is on time is not held up by minutes that are made up for, which come one by one."""
    ids = job_ids(any_store, 6)
    minutes = [0, 1, 2, 8, 9, 9]
    times = [NOW + n * MINUTE for n in minutes]
    times[-1] += 6
    shard = await seed(
        any_store,
        *(registration(job_id, next_run_at=at) for job_id, at in zip(ids, times, strict=True)),
    )
    slices = [Slice(str(int(BUCKET) + minutes[n]), [(member(ids[n]), times[n])]) for n in (4, 3, 0)]
    assert await peek(any_store, shard, NOW + 9 * MINUTE + 5) == Peek(NOW, slices)


@pytest.mark.parametrize("after_ms", [5, MINUTE - 1, MINUTE + 5, 2 * MINUTE + 5])
async def test_no_minute_comes_twice(any_store: Store, after_ms: int) -> None:
    shard = await seed(any_store, registration("job-0"))
    found = await peek(any_store, shard, NOW + after_ms)
    assert found == Peek(NOW, [Slice(BUCKET, [(member("job-0"), NOW)])])


async def test_the_earliest_time_is_that_of_this_minute_where_there_is_no_older_one(
    any_store: Store,
) -> None:
    ids = job_ids(any_store, 2)
    shard = await seed(
        any_store, registration(ids[0]), registration(ids[1], next_run_at=NOW + MINUTE)
    )
    assert (await peek(any_store, shard)).earliest_at == NOW


async def test_a_look_is_no_longer_than_a_batch(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"batch": 2})
    shard = await seed(any_store, *(registration(job_id) for job_id in job_ids(any_store, 3)))
    [found] = (await peek(any_store, shard)).slices
    assert len(found.members) == 2


async def test_looking_changes_nothing(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await peek(any_store, shard)
    assert await read_shard(any_store, shard) == before


async def test_a_full_queue_shows_as_much_as_it_has_room_for(any_store: Store) -> None:
    store = small(any_store, max_ready=2)
    [first, second, *rest] = job_ids(store, 6)
    one, two = await start(store, first), await start(store, second)
    shard = await seed(
        store,
        *(registration(i, ONE_OFF, next_run_at=NOW - n) for n, i in enumerate(rest)),
    )
    # Two minutes have members: NOW itself starts one.
    await fire(store, shard)
    await fire(store, shard)
    assert await peek(store, shard) == Peek(None, [])

    await complete_executions(store, [result(one)], NOW)
    oldest = f"{ONE_OFF.id}|{rest[3]}".encode()
    assert (await peek(store, shard)).slices == [Slice("@default", [(oldest, NOW - 3)])]
    await complete_executions(store, [result(two)], NOW)
    [found] = (await peek(store, shard)).slices
    assert [at for _, at in found.members] == [NOW - 3, NOW - 2]


async def test_a_full_queue_does_not_hide_what_is_due_elsewhere(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    ids = job_ids(store, 3)
    await start(store, ids[0])
    shard = await seed(store, registration(ids[1]))
    await fire(store, shard)
    await seed(store, registration(ids[2], queue="other", next_run_at=NOW + MINUTE))
    found = await peek(store, shard, NOW + MINUTE)
    assert found == Peek(
        NOW + MINUTE, [Slice(str(int(BUCKET) + 1), [(member(ids[2]), NOW + MINUTE)])]
    )


# What waits for a permit


async def test_of_what_waits_for_permits_as_much_is_shown_as_there_are(any_store: Store) -> None:
    ids = job_ids(any_store, 3)
    shard = any_store.layout.shard_of(ids[0])
    await grant(any_store, shard, {"slots:q/default": "0"})
    await seed(any_store, *(at_once(job_id) for job_id in ids))
    assert await peek(any_store, shard) == Peek(None, [])
    members = [(f"{job_id}@{NOW}".encode(), NOW) for job_id in sorted(ids)]
    for count in (1, 2, 3):
        await grant(any_store, shard, {"slots:q/default": "+1"})
        assert await peek(any_store, shard) == Peek(None, [Slice("@q/default", members[:count])])
    await grant(any_store, shard, {"tokens:q/default": "1"})
    assert await peek(any_store, shard) == Peek(None, [Slice("@q/default", members[:1])])
    await grant(any_store, shard, {"slots:q/default": "-9"})
    assert await peek(any_store, shard) == Peek(None, [])
    await grant(any_store, shard, {"slots:q/default": "", "tokens:q/default": ""})
    assert await peek(any_store, shard) == Peek(None, [Slice("@q/default", members)])


async def test_a_lane_shows_no_more_than_a_batch(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"batch": 2})
    ids = job_ids(any_store, 3)
    shard = any_store.layout.shard_of(ids[0])
    await grant(any_store, shard, {"slots:q/default": "0"})
    await seed(any_store, *(at_once(job_id) for job_id in ids))
    await grant(any_store, shard, {"slots:q/default": "+9"})
    [found] = (await peek(any_store, shard)).slices
    assert len(found.members) == 2


async def test_permits_of_a_lane_go_to_what_is_urgent_first(any_store: Store) -> None:
    ids = job_ids(any_store, 6)
    shard = any_store.layout.shard_of(ids[0])
    await grant(any_store, shard, {"slots:q/default": "0"})
    for job_id, priority in zip(ids, [*Priority] * 2, strict=True):
        await seed(any_store, at_once(job_id, priority=priority))
    shown = []
    for _ in range(6):
        await grant(any_store, shard, {"slots:q/default": "+1"})
        slices = (await peek(any_store, shard)).slices
        shown.append(
            [(part.bucket.removeprefix("@q/default"), len(part.members)) for part in slices]
        )
    assert shown == [
        [(":high", 1)],
        [(":high", 2)],
        [(":high", 2), ("", 1)],
        [(":high", 2), ("", 2)],
        [(":high", 2), ("", 2), (":low", 1)],
        [(":high", 2), ("", 2), (":low", 2)],
    ]


async def test_a_group_that_nobody_knows_shows_its_first_few(any_store: Store) -> None:
    ids = job_ids(any_store, 4)
    shard = any_store.layout.shard_of(ids[0])
    await grant(any_store, shard, {"fair:default": "0"})
    await seed(any_store, *(at_once(job_id, group="blue") for job_id in ids))
    assert (await peek(any_store, shard)).slices == []
    await grant(any_store, shard, {"fair:default": "+3"})
    [found] = (await peek(any_store, shard)).slices
    assert (found.bucket, len(found.members)) == ("@g/default/blue", 3)


async def test_lanes_that_wait_hide_nothing_of_other_lanes(any_store: Store) -> None:
    ids = job_ids(any_store, 3)
    shard = any_store.layout.shard_of(ids[0])
    await grant(any_store, shard, {"slots:h/a.test": "0", "slots:h/b.test": "0"})
    await seed(any_store, at_once(ids[0], target=http("a.test")))
    await seed(any_store, at_once(ids[1], target=http("b.test")))
    await grant(any_store, shard, {"slots:h/b.test": "+1"})
    assert await peek(any_store, shard) == Peek(
        None, [Slice("@h/b.test", [(f"{ids[1]}@{NOW}".encode(), NOW)])]
    )


@pytest.mark.parametrize("count", [100, 101, 150, 201, 250])
async def test_where_very_many_buckets_hold_something_each_has_its_turn(
    any_store: Store, count: int
) -> None:
    """A look takes 100 of them, and the looks of one round leave none out."""
    shard = any_store.layout.shards[0]
    names = [f"@g/default/{n}" for n in range(count)]
    pipe = any_store.client.pipeline(transaction=False)
    for name in names:
        pipe.zadd(shard.due(name), {f"x@{NOW}": NOW})
    pipe.zadd(shard.buckets, dict.fromkeys(names, float("inf")))
    await pipe.execute()
    seen = Counter[str]()
    looks = -(-count // 100)
    for tick in range(looks):
        slices = (await peek(any_store, shard, NOW + 50 * tick)).slices
        buckets = [part.bucket for part in slices]
        assert len(buckets) == len(set(buckets)) == 100
        seen.update(buckets)
    assert seen.keys() == {*names}
    await any_store.client.delete(shard.buckets, *map(shard.due, names))
