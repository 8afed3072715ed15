"""The index against the records: what is sound has no fault, and each kind of fault is found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from hashing import change_head
from seeding import (
    EVERY_MINUTE,
    MINUTE,
    NOW,
    QUEUE,
    at_once,
    due_member,
    fire,
    http,
    job_ids,
    limit,
    registration,
    result,
    seed,
    small,
    take,
)

from engine.execution import Outcome
from engine.keys import Shard
from engine.model import JobState
from engine.store import Store
from engine.store.audit import BATCH, EXAMPLES, Audit, audit_shard, strangers
from engine.store.audit_records import faults_of_jobs
from engine.store.changes import pause_job
from engine.store.executions import complete_executions

BUCKET = str(NOW // MINUTE)


@pytest.fixture
async def broken(store: Store) -> AsyncIterator[Store]:
    """A store whose index may be wrong at the end of a test."""
    yield store
    await store.client.flushdb()


async def audit(store: Store, most: int | None = None) -> Audit:
    return await audit_shard(store, store.layout.shard_of("job-0"), most=most)


async def test_an_empty_shard_has_no_fault(any_store: Store) -> None:
    assert await audit(any_store) == Audit()


async def test_whatever_a_job_may_wait_for_is_sound(any_store: Store) -> None:
    shard = await limit(any_store, slots__h_a=1, slots__h_b=0)
    store = small(any_store, max_ready=3)
    names = job_ids(store, 9)
    await seed(
        store,
        registration(names[0], next_run_at=NOW + 5),
        registration(names[1], next_run_at=NOW + 5, group="acme", queue="fair"),
        at_once(names[2]),
        at_once(names[3], target=http("b"), queue="http"),
        registration(names[4]),
        at_once(names[5]),
        at_once(names[6]),
        at_once(names[7]),
        registration(names[8], next_run_at=NOW + 3 * MINUTE),
    )
    await pause_job(store, names[8], NOW)
    await fire(store, shard)
    [delivery, *_] = await take(store, count=1)
    await complete_executions(store, [result(delivery, Outcome.FAILED, NOW + MINUTE)], NOW)
    found = await audit(store)
    assert found.examples == []
    assert (found.jobs, found.is_whole) == (9, True)
    assert found.members >= 6


Break = Callable[[Store, Shard], Awaitable[object]]


async def _forget_member(store: Store, shard: Shard) -> None:
    await store.client.zrem(shard.due(BUCKET), due_member("job-0"))


async def _move_member(store: Store, shard: Shard) -> None:
    await store.client.zadd(shard.due(BUCKET), {due_member("job-0"): NOW + 1})


async def _close_bucket(store: Store, shard: Shard) -> None:
    await store.client.zrem(shard.buckets, BUCKET)


async def _drop_record(store: Store, shard: Shard) -> None:
    await store.client.delete(shard.job("job-0"))


async def _drop_from_list(store: Store, shard: Shard) -> None:
    await store.client.zrem(shard.jobs, "job-0")


async def _drop_from_group(store: Store, shard: Shard) -> None:
    await store.client.zrem(shard.jobs_of_group("acme"), "job-0")


async def _add_stranger(store: Store, shard: Shard) -> None:
    await store.client.zadd(shard.due(BUCKET), {f"job-0@{NOW}": NOW})


async def _pause_behind_its_back(store: Store, shard: Shard) -> None:
    await change_head(store, "job-0", state=JobState.PAUSED)


async def _miscount(store: Store, shard: Shard) -> None:
    await change_head(store, "job-0", live=2)


async def _hold_it_at_another_time(store: Store, shard: Shard) -> None:
    await store.client.zrem(shard.due(BUCKET), due_member("job-0"))
    await store.client.zrem(shard.buckets, BUCKET)
    await store.client.zadd(shard.due(f"@{QUEUE}"), {due_member("job-0"): NOW + 1})
    await store.client.zadd(shard.buckets, {f"@{QUEUE}": "+inf"})


async def _send_into_a_lane(store: Store, shard: Shard) -> None:
    await store.client.zrem(shard.due(BUCKET), due_member("job-0"))
    await store.client.hset(shard.waiting, due_member("job-0"), "@q/mail")


@pytest.mark.parametrize(
    ("break_it", "kinds"),
    [
        (_forget_member, {"is due and not in the index: it will not fire"}),
        (
            _move_member,
            {
                "is in the index at another time than it says",
                "is in the index and belongs to nothing",
            },
        ),
        (_close_bucket, {"is in a bucket that is not listed: it will not fire"}),
        (_drop_record, {"is listed and not stored", "is in the index and has no job"}),
        (_drop_from_list, {"has a job that is not listed"}),
        (_drop_from_group, {"is not in the list of its group"}),
        (_add_stranger, {"is in the index and belongs to nothing"}),
        (_pause_behind_its_back, {"is in the index and belongs to nothing"}),
        (_miscount, {"counts other live executions than it has"}),
        (
            _hold_it_at_another_time,
            {
                "is due and not in the index: it will not fire",
                "is in the index and belongs to nothing",
            },
        ),
        (_send_into_a_lane, {"is due and not in the index: it will not fire"}),
    ],
)
async def test_each_fault_of_a_scheduled_job_is_found(
    broken: Store, break_it: Break, kinds: set[str]
) -> None:
    shard = await seed(broken, registration("job-0", group="acme"))
    assert not (await audit(broken)).faults
    await break_it(broken, shard)
    found = await audit(broken)
    assert found.faults == dict.fromkeys(kinds, 1)
    assert all("job-0" in example for example in found.examples)


async def test_an_entry_that_is_gone_is_found(broken: Store) -> None:
    shard = await seed(broken, at_once("job-0"))
    await broken.client.delete(shard.ready(QUEUE))
    found = await audit(broken)
    assert found.faults == {"is not in its ready stream: nobody will run it": 1}
    assert found.examples[0].startswith(f"job-0@{NOW}: ")


async def test_all_jobs_are_looked_at_batch_after_batch(broken: Store) -> None:
    ids = sorted(job_ids(broken, BATCH + 7))
    shard = await seed(broken, *(registration(job_id) for job_id in ids))
    await broken.client.zrem(shard.due(BUCKET), *(due_member(i) for i in ids[-EXAMPLES - 1 :]))
    found = await audit(broken)
    assert (found.jobs, found.members) == (BATCH + 7, BATCH + 1)
    assert found.faults.total() == EXAMPLES + 1
    assert len(found.examples) == EXAMPLES


async def test_a_sample_looks_at_so_many_and_says_so(any_store: Store) -> None:
    await seed(any_store, *(registration(job_id) for job_id in job_ids(any_store, 9)))
    found = await audit(any_store, 4)
    assert (found.jobs, found.members, found.is_whole) == (4, 4, False)
    assert (await audit(any_store, 10)).is_whole


async def test_what_moves_while_it_is_looked_at_is_no_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the read of a job and the read of the index the job fires."""
    shard = await seed(store, registration("job-0", EVERY_MINUTE))
    hmget = type(store.client.pipeline()).hmget
    times = iter(range(1, 3))

    class Racing(type(store.client.pipeline(transaction=False))):  # type: ignore[misc]
        async def execute(self, *args: object, **more: object) -> object:
            replies = await super().execute(*args, **more)
            if self.reads_job and (n := next(times, None)):
                await fire(store, shard, NOW + n * MINUTE)
            return replies

        reads_job = False

        def hmget(self, *args: object) -> object:
            self.reads_job = True
            return hmget(self, *args)

    plain = store.client.pipeline
    monkeypatch.setattr(
        store.client,
        "pipeline",
        lambda transaction=True: _as(Racing, plain(transaction=transaction)),
    )
    found = await audit(store)
    assert found.faults == {}


def _as(kind: type, pipe: object) -> object:
    pipe.__class__ = kind
    return pipe


async def test_a_member_that_moved_on_meanwhile_is_no_fault(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    seen = [(due_member("job-0"), NOW)]
    await fire(any_store, shard, NOW)
    assert await strangers(any_store, shard, BUCKET, seen) == []


async def test_a_job_that_was_deleted_meanwhile_is_no_fault(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    assert await faults_of_jobs(any_store, shard, ["job-0"]) == set()


def test_sums_keep_the_first_examples() -> None:
    one, two = Audit(jobs=1, members=2), Audit(jobs=3, members=4, is_whole=False)
    one.faults["a"], two.faults["a"], two.faults["b"] = 1, 2, 1
    one.examples, two.examples = ["x"], list("abcdefg")
    one += two
    assert (one.jobs, one.members, one.is_whole) == (4, 6, False)
    assert one.faults == {"a": 3, "b": 1}
    assert one.examples == ["x", "a", "b", "c", "d"]
