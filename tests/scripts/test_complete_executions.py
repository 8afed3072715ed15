"""complete_executions: who holds the delivery records how it ended, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import Keyspace, changes, read_shard
from seeding import (
    AT_ONCE,
    BUCKET,
    NOW,
    fire,
    job_ids,
    registration,
    result,
    seed,
    start,
    take,
)

from engine.model import Delivery, Outcome
from engine.store import Store
from engine.store.executions import Answer, Result, complete_executions
from engine.store.jobs import create_jobs, delete_job, run_job

RETRY_AT = NOW + 2_000


async def end(
    store: Store, *results: Result, now: int = NOW + 600
) -> tuple[list[Answer], Keyspace, Keyspace]:
    """Return the answers, and the shard before and after."""
    shard = store.layout.shards[results[0].delivery.shard]
    before = await read_shard(store, shard)
    answers = await complete_executions(store, results, now)
    return answers, before, await read_shard(store, shard)


async def test_success_ends_the_execution_and_enters_the_history(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    answers, before, after = await end(any_store, result(delivery))
    assert answers == [Answer.DONE]
    record = [NOW, "succeeded", 1, 1, "w1", 500, 40]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "runs:job-0": [record],
        "ledger": [["succeeded", f"job-0@{NOW}", record]],
    }


async def test_failure_puts_the_next_attempt_into_the_index(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    answers, before, after = await end(any_store, result(delivery, Outcome.FAILED, RETRY_AT))
    assert answers == [Answer.DONE]
    record = [NOW, "failed", 1, 1, "w1", 500, 40]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": f"due:2:{RETRY_AT}"},
        "due:" + BUCKET: {f"job-0@{NOW}": RETRY_AT},
        "buckets": {BUCKET: float(BUCKET)},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "runs:job-0": [record],
        "ledger": [["failed", f"job-0@{NOW}", record]],
    }


async def test_the_last_failure_is_a_dead_letter(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    answers, before, after = await end(any_store, result(delivery, Outcome.DEAD), now=NOW + 600)
    assert answers == [Answer.DONE]
    record = [NOW, "dead", 1, 1, "w1", 500, 40]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "runs:job-0": [record],
        "dead": {f"job-0@{NOW}": NOW + 600},
        "ledger": [["dead", f"job-0@{NOW}", record]],
    }


@pytest.mark.parametrize(
    ("outcome", "retry_at"),
    [(Outcome.SUCCEEDED, None), (Outcome.FAILED, RETRY_AT), (Outcome.DEAD, None)],
)
async def test_the_same_outcome_sent_again_is_already_done(
    any_store: Store, outcome: Outcome, retry_at: int | None
) -> None:
    ended = result(await start(any_store, "job-0"), outcome, retry_at)
    await end(any_store, ended)
    answers, before, after = await end(any_store, ended)
    assert answers == [Answer.ALREADY]
    assert after == before


async def test_a_repeat_is_known_after_the_next_attempt_has_ended(any_store: Store) -> None:
    first = result(await start(any_store, "job-0"), Outcome.FAILED, RETRY_AT)
    await end(any_store, first)
    await fire(any_store, any_store.layout.shards[first.delivery.shard], RETRY_AT)
    [delivery] = await take(any_store)
    second = result(delivery)
    answers, before, after = await end(any_store, first, second)
    assert answers == [Answer.ALREADY, Answer.DONE]
    assert changes(before, after)["runs:job-0"] == [[NOW, "succeeded", 2, 1, "w1", 500, 40]]


async def test_another_outcome_than_the_one_recorded_is_stale(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await end(any_store, result(delivery))
    answers, before, after = await end(any_store, result(delivery, Outcome.DEAD))
    assert answers == [Answer.STALE]
    assert after == before


async def test_a_repeat_beyond_the_history_is_stale(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"history_limit": 1})
    first = result(await start(any_store, "job-0"))
    await end(any_store, first)
    await run_job(any_store, "job-0", NOW + 1)
    [delivery] = await take(any_store)
    await end(any_store, result(delivery))
    answers, before, after = await end(any_store, first)
    assert answers == [Answer.STALE]
    assert after == before
    assert len(after["runs:job-0"]) == 1


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param({"consumer": "w2"}, id="another consumer"),
        pytest.param({"deliveries": 2}, id="another delivery count"),
        pytest.param({"entry_id": "1-1"}, id="an entry that is not there"),
    ],
)
async def test_who_does_not_hold_the_delivery_changes_nothing(
    any_store: Store, claim: dict[str, str | int]
) -> None:
    delivery = await start(any_store, "job-0")
    forged: Delivery = replace(delivery, **claim)  # type: ignore[arg-type]
    answers, before, after = await end(any_store, result(forged))
    assert answers == [Answer.STALE]
    assert after == before


async def test_a_delivery_that_was_reclaimed_is_stale_for_its_first_holder(
    any_store: Store,
) -> None:
    delivery = await start(any_store, "job-0")
    ready = any_store.layout.shards[delivery.shard].ready("default")
    await any_store.client.xclaim(ready, "workers", "w2", 0, [delivery.entry_id])
    answers, before, after = await end(any_store, result(delivery))
    assert answers == [Answer.STALE]
    assert after == before
    taken = replace(delivery, consumer="w2", deliveries=2)
    assert (await end(any_store, result(taken)))[0] == [Answer.DONE]


async def test_a_delivery_taken_back_by_the_same_consumer_counts_anew(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    ready = any_store.layout.shards[delivery.shard].ready("default")
    await any_store.client.xclaim(ready, "workers", "w1", 0, [delivery.entry_id])
    assert (await end(any_store, result(delivery)))[0] == [Answer.STALE]
    again = replace(delivery, deliveries=2)
    assert (await end(any_store, result(again)))[0] == [Answer.DONE]


async def test_the_outcome_of_a_deleted_job_ends_its_entry_only(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await delete_job(any_store, "job-0")
    answers, before, after = await end(any_store, result(delivery, Outcome.FAILED, RETRY_AT))
    assert answers == [Answer.DONE]
    assert changes(before, after) == {
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "ledger": [["failed", f"job-0@{NOW}", [NOW, "failed", 1, 1, "w1", 500, 40]]],
    }


async def test_the_outcome_of_a_deleted_job_says_nothing_of_a_new_one(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await delete_job(any_store, "job-0")
    await create_jobs(
        any_store, [registration("job-0", AT_ONCE, next_run_at=None, run_at=delivery.nominal_at)]
    )
    answers, before, after = await end(any_store, result(delivery))
    assert answers == [Answer.DONE]
    assert changes(before, after).keys() == {"ready:default", "pending:default", "ledger"}
    assert after["job:job-0"]["live"] == "1"


async def test_one_delivery_ends_once_in_a_batch(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    answers, _, after = await end(any_store, result(delivery), result(delivery, Outcome.DEAD))
    assert answers == [Answer.DONE, Answer.STALE]
    assert len(after["runs:job-0"]) == 1


async def test_a_batch_goes_over_shards_and_answers_in_its_order(any_store: Store) -> None:
    started = [await start(any_store, f"job-{n}") for n in range(8)]
    assert len({delivery.shard for delivery in started}) > 1
    lost = replace(started[3], deliveries=9)
    results = [result(delivery) for delivery in [*started[:3], lost, *started[4:]]]
    answers = await complete_executions(any_store, results, NOW)
    assert answers == [Answer.DONE] * 3 + [Answer.STALE] + [Answer.DONE] * 4


async def test_a_large_batch_of_one_shard_ends_in_one_call(any_store: Store) -> None:
    ids = job_ids(any_store, 500)
    await seed(any_store, *(registration(i, AT_ONCE, next_run_at=None, run_at=NOW) for i in ids))
    results = [result(delivery) for delivery in await take(any_store, count=500)]
    assert await complete_executions(any_store, results, NOW) == [Answer.DONE] * 500


async def test_an_outcome_for_a_queue_that_nobody_has_read_is_stale(any_store: Store) -> None:
    delivery = replace(await start(any_store, "job-0"), queue="unheard")
    assert await complete_executions(any_store, [result(delivery)], NOW) == [Answer.STALE]
