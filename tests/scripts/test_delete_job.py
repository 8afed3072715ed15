"""delete_job: nothing of the job stays but what a consumer is running."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    fire,
    job_ids,
    registration,
    result,
    seed,
    small,
    start,
    take,
)

from engine.errors import Conflict, NotFound
from engine.execution import Outcome
from engine.model import Overlap
from engine.store import Store
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import delete_job, run_job

RETRY_AT = NOW + 2_000


async def test_a_job_goes_with_its_times(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await delete_job(any_store, "job-0")
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": dict.fromkeys(before["job:job-0"]),
        "jobs": {"job-0": None},
        f"due:{BUCKET}": {f"{EVERY_MINUTE.id}|job-0": None},
        "buckets": {BUCKET: None},
        "ledger": [["deleted", "job-0"]],
    }


async def test_an_execution_that_nobody_has_started_goes_too(any_store: Store) -> None:
    """Also where no consumer ever asked, so that the stream has no group yet."""
    shard = await seed(any_store, registration("job-0"))
    await run_job(any_store, "job-0", NOW - 1)
    await delete_job(any_store, "job-0")
    assert (await read_shard(any_store, shard)).keys() == {"plans", "ledger", "ran_at"}


async def test_a_delivery_that_is_running_goes_on(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.ALLOW))
    await fire(any_store, shard)
    [running] = await take(any_store)
    await fire(any_store, shard, NOW + MINUTE)
    await delete_job(any_store, "job-0")
    after = await read_shard(any_store, shard)
    assert after["ready:default"].keys() == after["pending:default"].keys() == {running.entry_id}
    assert await take(any_store) == []


async def test_a_retry_leaves_the_index_and_the_history_goes(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, RETRY_AT)], NOW)
    shard = any_store.layout.shards[delivery.shard]
    assert "runs:job-0" in await read_shard(any_store, shard)
    await delete_job(any_store, "job-0")
    assert (await read_shard(any_store, shard)).keys() == {"plans", "ledger", "ran_at"}


async def test_the_newest_time_of_its_executions_is_noted_for_a_minute(any_store: Store) -> None:
    """Of those that are live, and of those by hand that have ended."""
    ids = job_ids(any_store, 3)
    shard = await seed(any_store, *(registration(job_id) for job_id in ids))
    await run_job(any_store, ids[0], NOW + 7)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery)], NOW + 8)
    await delete_job(any_store, ids[0])
    assert (await read_shard(any_store, shard))["ran_at"] == str(NOW + 7)
    assert 0 < await any_store.client.pttl(shard.ran_at) <= 60_000
    await fire(any_store, shard)
    await delete_job(any_store, ids[1])
    assert (await read_shard(any_store, shard))["ran_at"] == str(NOW + 7)
    await run_job(any_store, ids[2], NOW + 9)
    await delete_job(any_store, ids[2])
    assert (await read_shard(any_store, shard))["ran_at"] == str(NOW + 9)


async def test_a_job_of_which_nothing_was_live_leaves_no_note(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await delete_job(any_store, "job-0")
    assert "ran_at" not in await read_shard(any_store, shard)


async def test_an_execution_that_waits_for_room_goes_too(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    running = await start(store, "job-0")
    job_id = job_ids(store, 2)[1]
    shard = await seed(store, registration(job_id))
    await run_job(store, job_id, NOW - 1)
    await delete_job(store, job_id)
    assert "buckets" not in await read_shard(store, shard)
    await complete_executions(store, [result(running)], NOW)
    assert await fire(store, shard) == Fired()


async def test_the_jobs_beside_it_stay(any_store: Store) -> None:
    ids = job_ids(any_store, 2)
    shard = await seed(any_store, *(registration(job_id) for job_id in ids))
    await delete_job(any_store, ids[0])
    assert await fire(any_store, shard) == Fired(fired=1)


async def test_a_job_that_is_not_there_cannot_be_deleted(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await delete_job(any_store, "job-0")
    before = await read_shard(any_store, shard)
    with pytest.raises(NotFound, match="job-0"):
        await delete_job(any_store, "job-0")
    assert await read_shard(any_store, shard) == before


async def test_another_version_than_the_one_that_is_named_is_left_alone(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    with pytest.raises(Conflict, match="has changed"):
        await delete_job(any_store, "job-0", version=2)
    assert await read_shard(any_store, shard) == before
    await delete_job(any_store, "job-0", version=1)
    assert "job:job-0" not in await read_shard(any_store, shard)
