"""peek_starts: what a start of the deployment makes due in a shard."""

from __future__ import annotations

from dataclasses import replace

from invariants import read_shard
from seeding import MINUTE, NOW, job_ids, registration, seed

from engine.keys import Shard, bucket_of
from engine.plan import Plan, Reboot, wait_from
from engine.store import Store
from engine.store.due import Slice, peek_starts

AT_START = Plan.of(Reboot())
START = NOW + 5


async def peek(store: Store, shard: Shard, start_at: int = START) -> Slice | None:
    before = await read_shard(store, shard)
    [found] = await peek_starts(store, [shard], start_at, store.config.batch)
    assert not isinstance(found, Exception)
    assert await read_shard(store, shard) == before
    return found


async def wait(store: Store, *since: int) -> Shard:
    ids = job_ids(store, len(since))
    return await seed(
        store,
        *(
            registration(job_id, AT_START, next_run_at=wait_from(at))
            for job_id, at in zip(ids, since, strict=True)
        ),
    )


def member(store: Store, n: int) -> bytes:
    return f"{AT_START.id}|{job_ids(store, n + 1)[n]}".encode()


async def test_what_waits_since_before_the_start_is_due(any_store: Store) -> None:
    shard = await wait(any_store, NOW + 1, START, START - 1, START + 1)
    due = [(member(any_store, 0), wait_from(NOW + 1)), (member(any_store, 2), wait_from(START - 1))]
    assert await peek(any_store, shard) == Slice(bucket_of(wait_from(NOW)), due)


async def test_the_oldest_come_first_a_batch_at_a_time(any_store: Store) -> None:
    config = any_store.config.model_copy(update={"batch": 2})
    store = replace(any_store, config=config)
    old = NOW - 7 * MINUTE
    shard = await wait(store, NOW + 1, old + 2, old + 1, old + 3)
    due = [(member(store, 2), wait_from(old + 1)), (member(store, 1), wait_from(old + 2))]
    assert await peek(store, shard) == Slice(bucket_of(wait_from(old)), due)


async def test_jobs_with_a_time_by_the_clock_are_not_looked_at(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", next_run_at=NOW - MINUTE))
    assert await peek(any_store, shard) is None


async def test_a_shard_that_has_carried_the_start_out_has_none(any_store: Store) -> None:
    assert await peek(any_store, any_store.layout.shards[0]) is None
    shard = await wait(any_store, START)
    assert await peek(any_store, shard) is None
    assert await peek(any_store, shard, START + 1) is not None
