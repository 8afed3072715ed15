"""A full server: what needs room is refused before the first write; ending work needs none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from invariants import read_shard
from redis.exceptions import OutOfMemoryError
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
    start,
    take,
)

from engine.codec import Promise
from engine.execution import Outcome
from engine.keys import Shard
from engine.model import Overlap, Rules
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.changes import pause_job, replace_job, resume_job
from engine.store.due import fire_attempts, fire_due, peek_due
from engine.store.effects import record_effect
from engine.store.executions import (
    Answer,
    complete_executions,
    hand_back_executions,
    heartbeat_executions,
    reclaim_executions,
)
from engine.store.gates import grant_permits
from engine.store.jobs import create_jobs, delete_job, get_job, run_job
from engine.store.leases import acquire_lease, release_lease
from engine.store.letters import discard_letters, redrive_letters
from engine.store.reports import report_end, report_running

TOKEN = "7"


@asynccontextmanager
async def full(store: Store) -> AsyncIterator[None]:
    await store.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        await store.client.config_set("maxmemory", 0)


def due(store: Store, shard: Shard) -> Awaitable[object]:
    return fire_due(store, shard, TOKEN, "s1", BUCKET, [group(EVERY_MINUTE, NOW, "job-0")])


def attempts(store: Store, shard: Shard) -> Awaitable[object]:
    return fire_attempts(store, shard, TOKEN, "s1", BUCKET, [(b"job-0@1", NOW)])


async def edit(store: Store) -> int:
    return await replace_job(
        store, await get_job(store, "job-0"), registration("job-0", ONE_OFF), NOW
    )


async def permit(store: Store, shard: Shard) -> None:
    [failed] = await grant_permits(store, [(shard, {"slots:q/default": "+1"})], TOKEN)
    if failed:
        raise failed


REFUSED: dict[str, Callable[[Store, Shard], Awaitable[object]]] = {
    "fire_due": due,
    "fire_attempts": attempts,
    "create_jobs": lambda store, _: create_jobs(store, [registration(job_ids(store, 2)[1])]),
    "run_job": lambda store, _: run_job(store, "job-0", NOW),
    "pause_job": lambda store, _: pause_job(store, "job-0", NOW),
    "replace_job": lambda store, _: edit(store),
    "grant_permits": permit,
    "acquire_lease": lambda store, shard: acquire_lease(store, [shard], "s1"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_needs_room_is_refused_and_changes_nothing(store: Store, name: str) -> None:
    shard = await seed(store, registration("job-0"))
    await store.client.hset(shard.fence, mapping={"token": TOKEN, "holder": "s1"})
    before = await read_shard(store, shard)
    async with full(store):
        with pytest.raises(OutOfMemoryError):
            await REFUSED[name](store, shard)
    assert await read_shard(store, shard) == before


async def test_redriving_and_recording_an_effect_are_refused_and_change_nothing(
    store: Store,
) -> None:
    dead, running = job_ids(store, 2)
    delivery = await start(store, dead)
    await complete_executions(store, [result(delivery, Outcome.DEAD)], NOW)
    held = await start(store, running)
    shard = store.layout.shards[held.shard]
    before = await read_shard(store, shard)
    async with full(store):
        with pytest.raises(OutOfMemoryError):
            await redrive_letters(store, [delivery.execution_id], NOW)
        with pytest.raises(OutOfMemoryError):
            await record_effect(store, held, "pay", b"receipt")
    assert await read_shard(store, shard) == before


async def test_resuming_is_refused_and_the_job_stays_paused(store: Store) -> None:
    shard = await seed(store, registration("job-0"))
    await pause_job(store, "job-0", NOW)
    before = await read_shard(store, shard)
    async with full(store):
        with pytest.raises(OutOfMemoryError):
            await resume_job(store, "job-0", NOW)
    assert await read_shard(store, shard) == before


async def test_what_was_refused_is_done_when_there_is_room_again(store: Store) -> None:
    shard = await seed(store, registration("job-0"))
    async with full(store):
        with pytest.raises(OutOfMemoryError):
            await fire(store, shard)
    assert (await fire(store, shard)).fired == 1


@pytest.mark.parametrize("outcome", Outcome)
async def test_ending_an_execution_needs_no_room(store: Store, outcome: Outcome) -> None:
    shard = await seed(store, registration("job-0"))
    await fire(store, shard)
    [delivery] = await take(store)
    retry_at = NOW + 1 if outcome is Outcome.FAILED else None
    async with full(store):
        assert await heartbeat_executions(store, [delivery]) == [True]
        ended = result(delivery, outcome, retry_at)
        assert await complete_executions(store, [ended], NOW) == [Answer.DONE]


async def test_cancelling_reporting_handing_back_and_discarding_need_no_room(
    store: Store,
) -> None:
    ids = job_ids(store, 4)
    cancelled, reported, back, dead = [await start(store, job_id) for job_id in ids]
    shard = store.layout.shards[back.shard]
    await complete_executions(store, [result(dead, Outcome.DEAD)], NOW)
    promise = Promise(reported.execution_id, 1, NOW, NOW + 60_000)
    async with full(store):
        assert await cancel_executions(store, cancelled.job_id, NOW) == [NOW]
        assert await report_running(store, promise, NOW, NOW + 900)
        done = await report_end(store, promise, NOW, succeeded=True, rng=Random(1))
        assert done is Answer.DONE
        assert await hand_back_executions(store, [back], lane="q/default") == [True]
        assert await discard_letters(store, [(NOW, dead.execution_id)], by="ana") == 1
    assert "dead" not in await read_shard(store, shard)


async def test_what_the_end_of_an_execution_starts_or_deletes_needs_no_room(store: Store) -> None:
    rules = Rules(max_runs=2, delete_after_completion=True, pause_after_failures=1)
    shard = await seed(store, registration("job-0", overlap=Overlap.QUEUE_ONE, rules=rules))
    await fire(store, shard)
    await fire(store, shard, NOW + 60_000)
    [first] = await take(store)
    async with full(store):
        await complete_executions(store, [result(first, Outcome.DEAD)], NOW)
    await fire(store, shard, NOW)
    [second] = await take(store)
    async with full(store):
        await complete_executions(store, [result(second)], NOW)
    assert "job:job-0" not in await read_shard(store, shard)


async def test_looking_reclaiming_releasing_and_deleting_need_no_room(store: Store) -> None:
    shard = await seed(store, registration("job-0"))
    await fire(store, shard)
    [delivery] = await take(store)
    entry = [delivery.entry_id]
    ready = shard.ready("default")
    await store.client.xclaim(ready, "workers", "w1", 0, entry, idle=60_000, justid=True)
    async with full(store):
        [peek] = await peek_due(store, [shard], NOW, 9)
        assert not isinstance(peek, Exception)
        reclaimed = await reclaim_executions(store, "default", shard, "w2", NOW)
        assert len(reclaimed.deliveries) == 1
        assert await release_lease(store, shard, "s1")
        await delete_job(store, "job-0")
    await lease(store, shard)
