"""The rule `concurrency`: so many executions of a job may be live before overlap decides."""

from __future__ import annotations

import pytest
from invariants import read_shard
from seeding import MINUTE, NOW, fire, registration, result, seed, take

from engine.execution import Outcome
from engine.keys import Shard
from engine.model import Overlap, Rules
from engine.store import Store
from engine.store.changes import pause_job, replace_job, resume_job
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import get_job, run_job


def at(minute: int) -> int:
    return NOW + minute * MINUTE


async def begin(store: Store, overlap: Overlap, concurrency: int = 3, minutes: int = 3) -> Shard:
    """Create job-0 and fire so many times of it."""
    rules = Rules(concurrency=concurrency)
    shard = await seed(store, registration("job-0", overlap=overlap, rules=rules))
    for minute in range(minutes):
        assert await fire(store, shard, at(minute)) == Fired(fired=1)
    return shard


async def end(store: Store, now: int, *, count: int = 1) -> None:
    """Take what is offered, and end so many of it."""
    ends = [result(delivery) for delivery in (await take(store))[:count]]
    await complete_executions(store, ends, now)


async def edit(store: Store, overlap: Overlap, concurrency: int) -> None:
    rules = Rules(concurrency=concurrency)
    changed = registration("job-0", overlap=overlap, rules=rules)
    await replace_job(store, await get_job(store, "job-0"), changed, NOW)


async def live(store: Store, shard: Shard) -> list[int]:
    """Return the nominal times that are live, after a check that they are counted so."""
    job = (await read_shard(store, shard))["job:job-0"]
    found = sorted(int(name[2:]) for name in job if name.startswith("x:"))
    assert job["live"] == str(len(found))
    return found


async def queued(store: Store) -> list[int]:
    return list((await get_job(store, "job-0")).job.queued)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL])
async def test_as_many_as_are_allowed_run_side_by_side(any_store: Store, overlap: Overlap) -> None:
    shard = await begin(any_store, overlap)
    assert await live(any_store, shard) == [at(0), at(1), at(2)]
    assert await queued(any_store) == []
    assert len(await take(any_store)) == 3


async def test_beyond_that_skip_skips_until_one_has_ended(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.SKIP)
    assert await fire(any_store, shard, at(3)) == Fired(overlap=1)
    await end(any_store, at(3))
    assert await fire(any_store, shard, at(4)) == Fired(fired=1)
    assert await fire(any_store, shard, at(5)) == Fired(overlap=1)


async def test_beyond_that_queue_one_keeps_one(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ONE)
    assert await fire(any_store, shard, at(3)) == Fired(fired=1)
    assert await fire(any_store, shard, at(4)) == Fired(overlap=1)
    assert await queued(any_store) == [at(3)]


async def test_beyond_that_queue_all_keeps_all_and_each_end_starts_the_next(
    any_store: Store,
) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL, minutes=6)
    assert await queued(any_store) == [at(3), at(4), at(5)]
    await end(any_store, at(5))
    assert await queued(any_store) == [at(4), at(5)]
    assert await live(any_store, shard) == [at(1), at(2), at(3)]


async def test_several_ends_in_one_report_start_as_many(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL, minutes=6)
    await end(any_store, at(5), count=2)
    assert await queued(any_store) == [at(5)]
    assert await live(any_store, shard) == [at(2), at(3), at(4)]


async def test_what_waits_is_not_overtaken_by_a_newer_time(any_store: Store) -> None:
    """There is room for it where the rule has changed since."""
    shard = await begin(any_store, Overlap.QUEUE_ALL, concurrency=1, minutes=2)
    await edit(any_store, Overlap.QUEUE_ALL, 3)
    assert await fire(any_store, shard, at(2)) == Fired(fired=1)
    assert await queued(any_store) == [at(1), at(2)]


async def test_replace_ends_all_that_are_live_once_there_are_too_many(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.REPLACE)
    assert await live(any_store, shard) == [at(0), at(1), at(2)]
    assert await fire(any_store, shard, at(3)) == Fired(fired=1)
    assert await live(any_store, shard) == [at(3)]


async def test_allow_asks_no_rule(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.ALLOW, minutes=5)
    assert len(await live(any_store, shard)) == 5


async def test_after_success_is_one_at_a_time_whatever_is_allowed(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.AFTER_SUCCESS)
    assert await live(any_store, shard) == [at(0)]
    assert await queued(any_store) == [at(1), at(2)]
    await run_job(any_store, "job-0", at(2) + 5)
    for delivery, then in zip(await take(any_store), [at(2) + 5, at(1)], strict=True):
        await complete_executions(any_store, [result(delivery)], at(3))
        assert await live(any_store, shard) == [then]


async def test_a_run_by_hand_counts(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.SKIP, concurrency=2, minutes=1)
    await run_job(any_store, "job-0", NOW + 5)
    assert await fire(any_store, shard, at(1)) == Fired(overlap=1)


async def test_a_retry_to_come_counts(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.SKIP, concurrency=2, minutes=2)
    first, _ = await take(any_store)
    await complete_executions(any_store, [result(first, Outcome.FAILED, at(9))], at(1))
    assert await fire(any_store, shard, at(2)) == Fired(overlap=1)


# Edits


async def test_more_that_are_allowed_start_with_the_next_end(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL, concurrency=1, minutes=6)
    await edit(any_store, Overlap.QUEUE_ALL, 3)
    assert await live(any_store, shard) == [at(0)]
    await end(any_store, at(5))
    assert await live(any_store, shard) == [at(1), at(2), at(3)]
    assert await queued(any_store) == [at(4), at(5)]
    assert await fire(any_store, shard, at(5)) == Fired(fired=3)
    assert len(await take(any_store)) == 3


async def test_fewer_that_are_allowed_start_nothing_until_so_few_are_live(
    any_store: Store,
) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL, minutes=5)
    await edit(any_store, Overlap.QUEUE_ALL, 1)
    deliveries = await take(any_store)
    for left, delivery in zip([[at(1), at(2)], [at(2)], [at(3)]], deliveries, strict=True):
        await complete_executions(any_store, [result(delivery)], at(5))
        assert await live(any_store, shard) == left
    assert await queued(any_store) == [at(4)]


async def test_the_rule_is_gone_from_a_job_that_no_longer_asks_for_it(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.SKIP, minutes=2)
    await edit(any_store, Overlap.SKIP, 1)
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert not job.keys() & {"concurrency", "rules"}
    assert await fire(any_store, shard, at(2)) == Fired(overlap=1)


async def test_what_a_pause_held_back_is_caught_up_on_side_by_side(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL, minutes=0)
    await pause_job(any_store, "job-0", NOW)
    await resume_job(any_store, "job-0", at(5) + 1, "fire_all")
    assert await live(any_store, shard) == [at(0)]
    await fire(any_store, shard, at(5) + 1)
    await end(any_store, at(5) + 2)
    assert await live(any_store, shard) == [at(1), at(2), at(3)]
