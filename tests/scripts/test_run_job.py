"""run_job: one more execution, under a nominal time of its own."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import (
    MINUTE,
    NOW,
    fire,
    job_ids,
    registration,
    result,
    run_at_exactly,
    seed,
    small,
    start,
    take,
)

from engine.errors import NotFound
from engine.store import Store
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import run_job

AT = NOW + 1_500
"""No time of the schedule that `registration` gives."""


async def test_a_run_by_hand_leaves_the_schedule_alone(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", next_run_at=NOW + 5_000))
    before = await read_shard(any_store, shard)
    assert await run_job(any_store, "job-0", AT) == f"job-0@{AT}"
    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        "job:job-0": {f"x:{AT}": f"ready:1:{entry}", "live": "1", "ran_at": str(AT)},
        "ready:default": after["ready:default"],
        "ledger": [["fired", f"job-0@{AT}", 1, AT, "default"]],
    }
    assert after["ready:default"][entry]["execution_id"] == f"job-0@{AT}"


async def test_runs_within_one_millisecond_have_times_of_their_own(any_store: Store) -> None:
    await seed(any_store, registration("job-0", next_run_at=NOW + 5_000))
    ids = [await run_job(any_store, "job-0", AT) for _ in range(3)]
    assert ids == [f"job-0@{AT}", f"job-0@{AT + 1}", f"job-0@{AT + 2}"]


async def test_a_time_stays_taken_after_its_run_has_ended(any_store: Store) -> None:
    await seed(any_store, registration("job-0", next_run_at=NOW + 5_000))
    await run_job(any_store, "job-0", AT)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery)], AT)
    assert await run_job(any_store, "job-0", AT) == f"job-0@{AT + 1}"


async def test_a_run_by_hand_does_not_stand_for_the_scheduled_one(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    assert await run_job(any_store, "job-0", NOW) == f"job-0@{NOW + 1}"
    assert await fire(any_store, shard) == Fired(overlap=1)


async def test_a_run_by_hand_does_not_share_a_live_executions_time(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    assert await run_at_exactly(any_store, "job-0", NOW) == f"job-0@{NOW + 1}".encode()


async def test_a_run_by_hand_takes_no_time_that_the_schedule_holds(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    overdue = NOW + 2 * MINUTE
    assert await run_job(any_store, "job-0", overdue) == f"job-0@{overdue + 1}"
    assert (await read_shard(any_store, shard))["job:job-0"]["next_run_at"] == str(NOW)


async def test_without_room_the_run_waits_in_the_index(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    await start(store, "job-0")
    job_id = job_ids(store, 2)[1]
    shard = await seed(store, registration(job_id, next_run_at=NOW + 5_000))
    before = await read_shard(store, shard)
    await run_job(store, job_id, AT)
    assert changes(before, await read_shard(store, shard)) == {
        f"job:{job_id}": {f"x:{AT}": f"due:1:{AT}", "live": "1", "ran_at": str(AT)},
        "due:@default": {f"{job_id}@{AT}": AT},
        "buckets": {"@default": float("inf")},
    }


async def test_a_job_that_is_not_there_cannot_be_run(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound, match="job-0"):
        await run_job(any_store, "job-0", NOW)
    assert await read_shard(any_store, shard) == {}
