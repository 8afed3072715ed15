"""fire_due and a full queue: its due jobs wait in the index, and fire when room returns."""

from __future__ import annotations

from invariants import read_shard
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    NOW,
    ONE_OFF,
    fire,
    group,
    job_ids,
    lease,
    registration,
    result,
    seed,
    small,
    start,
    take,
)

from engine.store import Store
from engine.store.changes import pause_job
from engine.store.due import Fired, fire_due
from engine.store.executions import complete_executions
from engine.store.jobs import delete_job, run_job


async def test_jobs_of_a_full_queue_wait_and_fire_when_room_returns(any_store: Store) -> None:
    store = small(any_store, max_ready=2)
    ids = job_ids(store, 3)
    shard = await seed(store, *(registration(job_id, ONE_OFF) for job_id in ids))
    assert await fire(store, shard) == Fired(fired=2, held=1)
    [waiting] = [i for i in ids if f"x:{NOW}" not in (await read_shard(store, shard))[f"job:{i}"]]
    held = await read_shard(store, shard)
    assert held["due:@default"] == {f"{ONE_OFF.id}|{waiting}": NOW}
    assert held["buckets"] == {"@default": float("inf")}
    assert held[f"job:{waiting}"]["next_run_at"] == str(NOW)

    assert await fire(store, shard) == Fired()
    assert await read_shard(store, shard) == held

    [first, _] = await take(store)
    await complete_executions(store, [result(first)], NOW)
    assert await fire(store, shard) == Fired(fired=1)
    assert "buckets" not in await read_shard(store, shard)


async def test_a_held_commit_sent_again_leaves_the_job_waiting(any_store: Store) -> None:
    """Even if there is room by then: the job stands in its queue's bucket, not in the minute's."""
    store = small(any_store, max_ready=1)
    delivery = await start(store, "job-0")
    ids = job_ids(store, 2)
    shard = await seed(store, registration(ids[1]))
    token = await lease(store, shard)
    proposed = [group(EVERY_MINUTE, NOW, ids[1])]
    assert await fire_due(store, shard, token, "s1", BUCKET, proposed) == Fired(held=1)
    held = await read_shard(store, shard)
    assert await fire_due(store, shard, token, "s1", BUCKET, proposed) == Fired(held=1)
    assert await read_shard(store, shard) == held

    await complete_executions(store, [result(delivery)], NOW)
    before = await read_shard(store, shard)
    assert await fire_due(store, shard, token, "s1", BUCKET, proposed) == Fired(held=1)
    assert await read_shard(store, shard) == before
    assert await fire(store, shard) == Fired(fired=1)


async def test_a_job_held_in_its_queue_is_skipped_once_it_overlaps(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    delivery = await start(store, "job-0")
    [_, job_id] = job_ids(store, 2)
    shard = await seed(store, registration(job_id))
    assert await fire(store, shard) == Fired(held=1)
    await run_job(store, job_id, NOW + 5)
    await complete_executions(store, [result(delivery)], NOW + 5)
    # Both wait in the queue's bucket; the job itself is older, and overlaps what was run by hand.
    assert await fire(store, shard, NOW + 5) == Fired(overlap=1)
    assert await fire(store, shard, NOW + 5) == Fired(fired=1)


async def test_each_queue_has_its_own_room(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    ids = job_ids(store, 3)
    shard = await seed(
        store,
        registration(ids[0]),
        registration(ids[1]),
        registration(ids[2], queue="other"),
    )
    assert await fire(store, shard) == Fired(fired=2, held=1)
    after = await read_shard(store, shard)
    assert len(after["ready:default"]) == len(after["ready:other"]) == 1


async def test_pausing_and_deleting_reach_a_job_that_waits_for_room(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    await start(store, "job-0")
    ids = job_ids(store, 3)[1:]
    shard = await seed(store, *(registration(job_id) for job_id in ids))
    assert await fire(store, shard) == Fired(held=2)
    await pause_job(store, ids[0], NOW)
    await delete_job(store, ids[1])
    assert "buckets" not in await read_shard(store, shard)
