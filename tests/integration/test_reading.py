"""What is read back: lists of jobs in pages, and the executions of a job with their states."""

from __future__ import annotations

import pytest
from seeding import (
    AT_ONCE,
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

from engine.errors import NotFound, Unusable
from engine.execution import ExecutionState, Outcome, Record, SkipReason
from engine.keys import LAYOUT
from engine.model import Overlap
from engine.store import Store
from engine.store.executions import complete_executions
from engine.store.history import Execution, list_executions
from engine.store.jobs import get_job
from engine.store.outcomes import Result

RETRY_AT = NOW + 2_000


async def test_reading_no_job_finds_none(any_store: Store) -> None:
    with pytest.raises(NotFound):
        await get_job(any_store, "job-0")
    with pytest.raises(NotFound):
        await list_executions(any_store, "job-0")


def attempts(*results: Result) -> list[Record]:
    """Return the records of attempts that were made."""
    return [result.record for result in results if isinstance(result.record, Record)]


async def only(store: Store, job_id: str = "job-0") -> Execution:
    [execution] = await list_executions(store, job_id)
    return execution


async def test_an_execution_waits_then_runs_then_has_succeeded(any_store: Store) -> None:
    await seed(any_store, registration("job-0", AT_ONCE, next_run_at=None, run_at=NOW))
    assert (await only(any_store)).state is ExecutionState.WAITING
    [delivery] = await take(any_store)
    running = await only(any_store)
    assert (running.state, running.worker) == (ExecutionState.RUNNING, "w1")
    ended = result(delivery)
    await complete_executions(any_store, [ended], NOW)
    assert await only(any_store) == Execution(
        "job-0", NOW, ExecutionState.SUCCEEDED, 1, attempts(ended)
    )


async def test_a_failed_execution_is_retried_then_dead(any_store: Store) -> None:
    first = result(await start(any_store, "job-0"), Outcome.FAILED, RETRY_AT)
    await complete_executions(any_store, [first], NOW)
    assert await only(any_store) == Execution(
        "job-0", NOW, ExecutionState.RETRYING, 2, attempts(first), retry_at=RETRY_AT
    )
    await fire(any_store, any_store.layout.shard_of("job-0"), RETRY_AT)
    waiting = await only(any_store)
    assert (waiting.state, waiting.attempt) == (ExecutionState.WAITING, 2)
    second = result((await take(any_store))[0], Outcome.DEAD)
    await complete_executions(any_store, [second], NOW)
    dead = await only(any_store)
    assert dead.state is ExecutionState.DEAD
    assert dead.attempts == attempts(second, first)


async def test_an_execution_without_room_in_its_queue_waits(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    await start(store, "job-0")
    job_id = job_ids(store, 2)[1]
    await seed(store, registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW))
    assert (await only(store, job_id)).state is ExecutionState.WAITING


async def test_times_that_were_not_fired_are_listed_with_their_reason(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard, NOW + 3 * MINUTE)
    live, skipped = await list_executions(any_store, "job-0")
    assert (live.nominal_at, live.state) == (NOW + 3 * MINUTE, ExecutionState.WAITING)
    assert skipped.state is ExecutionState.SKIPPED
    assert skipped.skipped is not None
    assert (skipped.skipped.count, skipped.skipped.reason) == (3, SkipReason.LATE)


async def test_a_store_of_another_layout_is_refused(store: Store) -> None:
    await store.client.set(LAYOUT, '{"version":99,"hash":"crc32","tags":["a"]}')
    with pytest.raises(Unusable, match="layout version 99"):
        await Store.open(store.config)


async def test_the_first_process_decides_on_the_shards(store: Store) -> None:
    config = store.config.model_copy(update={"shards": 9})
    async with await Store.open(config) as second:
        assert second.layout == store.layout


async def test_a_second_process_sees_what_the_first_has_stored(store: Store) -> None:
    await seed(store, registration("job-0"))
    async with await Store.open(store.config) as second:
        assert (await get_job(second, "job-0")).job.id == "job-0"


async def test_times_that_wait_for_an_older_execution_are_listed_as_waiting(store: Store) -> None:
    job_id = "job-0"
    shard = store.layout.shard_of(job_id)
    await seed(store, registration(job_id, overlap=Overlap.QUEUE_ALL))
    await fire(store, shard)
    await fire(store, shard, NOW + MINUTE)
    waiting, live = await list_executions(store, job_id)
    assert (waiting.nominal_at, waiting.state) == (NOW + MINUTE, ExecutionState.WAITING)
    assert (live.nominal_at, live.state) == (NOW, ExecutionState.WAITING)
