"""create_jobs: a job is registered whole, once, and never in another's place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import Keyspace, changes, read_shard
from seeding import (
    AT_ONCE,
    BUCKET,
    EVERY_MINUTE,
    NOW,
    ONE_OFF,
    fire,
    job_ids,
    registration,
    result,
    seed,
    small,
    start,
)

from engine.errors import Conflict
from engine.execution import LiveExecution
from engine.keys import Layout, Shard
from engine.model import JobState
from engine.plan import Plan
from engine.registration import Registration
from engine.store import Store
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, get_job

IMMEDIATE = registration("job-0", AT_ONCE, next_run_at=None, run_at=NOW)

HASH = {
    "state": "active",
    "plan": EVERY_MINUTE.id,
    "next_run_at": str(NOW),
    "queue": "default",
    "overlap": "skip",
    "target": '{"type":"worker"}',
    "payload": '{"n":1}',
    "retry": "",
    "definition": f'[{NOW},{NOW},null,"UTC"]',
}


async def create(store: Store, *registrations: Registration) -> tuple[list[bool], Keyspace]:
    """Return the answers, and what the shard of the first then holds."""
    created = await create_jobs(store, registrations)
    return created, await read_shard(store, store.layout.shard_of(registrations[0].job.id))


async def test_a_job_with_times_stands_in_the_index(any_store: Store) -> None:
    created, after = await create(any_store, registration("job-0"))
    assert created == [True]
    assert after == {
        "job:job-0": HASH,
        "jobs": {"job-0": 0.0},
        "plans": {EVERY_MINUTE.id: '{"interval_ms":60000,"kind":"every"}'},
        f"due:{BUCKET}": {f"{EVERY_MINUTE.id}|job-0": NOW},
        "buckets": {BUCKET: float(BUCKET)},
        "ledger": [["created", "job-0"]],
    }


async def test_a_job_without_times_starts_at_once_and_is_completed(any_store: Store) -> None:
    _, after = await create(any_store, IMMEDIATE)
    [(entry, fields)] = after["ready:default"].items()
    assert after == {
        "job:job-0": HASH
        | {
            "state": "completed",
            "plan": AT_ONCE.id,
            "next_run_at": "",
            f"x:{NOW}": f"ready:1:{entry}",
            "live": "1",
        },
        "jobs": {"job-0": 0.0},
        "plans": {AT_ONCE.id: '{"kind":"immediate"}'},
        "ready:default": {entry: fields},
        "ledger": [["created", "job-0"], ["fired", f"job-0@{NOW}", 1, NOW, "default"]],
    }
    assert fields == {
        "execution_id": f"job-0@{NOW}",
        "attempt": "1",
        "due_at": str(NOW),
        "expires_at": "",
        "target": '{"type":"worker"}',
        "payload": '{"n":1}',
        "retry": "",
    }


async def test_what_was_stored_reads_back_as_it_was(any_store: Store) -> None:
    wanted = registration("job-0")
    await create(any_store, wanted)
    stored = await get_job(any_store, "job-0")
    assert (stored.job, stored.plan, stored.live) == (wanted.job, EVERY_MINUTE, [])


async def test_an_id_that_exists_is_left_as_it_is(any_store: Store) -> None:
    _, before = await create(any_store, registration("job-0"))
    created, after = await create(
        any_store, registration("job-0", ONE_OFF, next_run_at=NOW + 5, queue="other", run_at=NOW)
    )
    assert created == [False]
    assert after == before


async def test_of_two_with_one_id_in_a_batch_the_first_counts(any_store: Store) -> None:
    created, after = await create(
        any_store, registration("job-0"), registration("job-0", next_run_at=NOW + 5)
    )
    assert created == [True, False]
    assert after["job:job-0"] == HASH
    assert after["ledger"] == [["created", "job-0"]]


async def test_a_batch_goes_over_shards_and_answers_in_its_order(any_store: Store) -> None:
    await create_jobs(any_store, [registration("job-3")])
    ids = [f"job-{n}" for n in range(8)]
    assert len({any_store.layout.shard_of(job_id) for job_id in ids}) > 1
    created = await create_jobs(any_store, [registration(job_id) for job_id in ids])
    assert created == [job_id != "job-3" for job_id in ids]


async def test_a_large_batch_is_one_call(any_store: Store) -> None:
    ids = job_ids(any_store, 1_000)
    created = await create_jobs(any_store, [registration(job_id) for job_id in ids])
    assert created == [True] * 1_000


async def test_a_plan_id_that_stands_for_another_plan_is_refused(any_store: Store) -> None:
    shard: Shard = any_store.layout.shard_of("job-0")
    await any_store.client.hset(shard.plans, EVERY_MINUTE.id, '{"kind":"other"}')
    before = await read_shard(any_store, shard)
    with pytest.raises(Conflict, match=EVERY_MINUTE.id):
        await create_jobs(any_store, [IMMEDIATE, registration(job_ids(any_store, 2)[1])])
    assert await read_shard(any_store, shard) == before


async def test_an_execution_without_room_in_its_queue_waits_in_the_index(
    any_store: Store,
) -> None:
    store = small(any_store, max_ready=1)
    first = await start(store, "job-0")
    job_id = job_ids(store, 2)[1]
    shard = store.layout.shard_of(job_id)
    before = await read_shard(store, shard)
    await seed(store, registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW))
    changed = changes(before, await read_shard(store, shard))
    assert changed[f"job:{job_id}"].items() >= {f"x:{NOW}": f"due:1:{NOW}", "live": "1"}.items()
    assert changed["due:@default"] == {f"{job_id}@{NOW}": NOW}
    assert changed["buckets"] == {"@default": float("inf")}
    assert changed["ledger"] == [["created", job_id]]
    assert "ready:default" not in changed

    await complete_executions(store, [result(first)], NOW)
    before = await read_shard(store, shard)
    assert await fire(store, shard) == Fired(fired=1)
    changed = changes(before, await read_shard(store, shard))
    assert changed["ledger"] == [["fired", f"{job_id}@{NOW}", 1, NOW, "default"]]


async def test_a_batch_takes_no_more_room_than_there_is(any_store: Store) -> None:
    store = small(any_store, max_ready=2)
    ids = job_ids(store, 5)
    shard = await seed(
        store, *(registration(i, AT_ONCE, next_run_at=None, run_at=NOW) for i in ids)
    )
    after = await read_shard(store, shard)
    assert (len(after["ready:default"]), len(after["due:@default"])) == (2, 3)


async def test_a_payload_of_any_bytes_comes_back_as_it_went(any_store: Store) -> None:
    payload = bytes(range(256))
    job = replace(IMMEDIATE.job, payload=payload)
    await create_jobs(any_store, [replace(IMMEDIATE, job=job)])
    stored = await get_job(any_store, "job-0")
    assert stored.job.payload == payload
    assert stored.job.state is JobState.COMPLETED
    [live] = stored.live
    ready = any_store.layout.shard_of("job-0").ready("default")
    [(_, fields)] = await any_store.client.xrange(ready)
    assert fields[b"payload"] == payload
    assert live == LiveExecution(NOW, 1, entry_id=live.entry_id)


async def test_every_shard_keeps_the_plans_of_its_own_jobs(any_store: Store) -> None:
    layout: Layout = any_store.layout
    await create_jobs(any_store, [registration(f"job-{n}") for n in range(8)])
    for shard in {layout.shard_of(f"job-{n}") for n in range(8)}:
        stored = await any_store.client.hget(shard.plans, EVERY_MINUTE.id)
        assert Plan.from_canonical(stored) == EVERY_MINUTE
