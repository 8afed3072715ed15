"""report_execution: a target that runs an attempt by itself says that it goes on, or how it
ended."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from invariants import Keyspace, changes, read_shard
from seeding import (
    BUCKET,
    LAPSES_AT,
    MINUTE,
    NOW,
    fire,
    letter,
    registration,
    result,
    seed,
    start,
    take,
)

from engine.codec import Promise
from engine.execution import Delivery, Outcome
from engine.keys import Shard
from engine.model import Overlap
from engine.store import Store
from engine.store.executions import Answer, complete_executions
from engine.store.jobs import delete_job
from engine.store.letters import redrive_letters
from engine.store.reports import report_end, report_running

EXECUTION = f"job-0@{NOW}"
BEGAN_AT = NOW + 500
PROMISE = Promise(EXECUTION, 1, BEGAN_AT, NOW + 9 * MINUTE)
LAPSE_BUCKET = str(LAPSES_AT // MINUTE)
REPORTED_AT = NOW + 2_000
RECORD = [NOW, "succeeded", 1, 0, "target", 500, REPORTED_AT - BEGAN_AT]


async def accept(store: Store, delivery: Delivery | None = None) -> Shard:
    """Leave job-0's execution with its target, which has promised to report; return its shard."""
    delivery = delivery or await start(store, "job-0")
    accepted = result(delivery, Outcome.ACCEPTED)
    assert await complete_executions(store, [accepted], NOW + 540) == [Answer.DONE]
    return store.layout.shards[delivery.shard]


async def report(store: Store, promise: Promise = PROMISE, **how: Any) -> Answer:
    said: dict[str, Any] = {"succeeded": True, "rng": Random(1)} | how
    return await report_end(store, promise, REPORTED_AT, **said)


async def report_and_compare(store: Store, shard: Shard, **how: Any) -> Keyspace:
    before = await read_shard(store, shard)
    assert await report(store, **how) is Answer.DONE
    return changes(before, await read_shard(store, shard))


async def test_a_sign_of_life_puts_the_lapse_off(any_store: Store) -> None:
    shard = await accept(any_store)
    before = await read_shard(any_store, shard)
    later = LAPSES_AT + MINUTE
    assert await report_running(any_store, PROMISE, REPORTED_AT, later)
    bucket = str(later // MINUTE)
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {f"x:{NOW}": f"async:1:{later}:{BEGAN_AT}.0"},
        f"due:{LAPSE_BUCKET}": {EXECUTION: None},
        f"due:{bucket}": {EXECUTION: later},
        "buckets": {LAPSE_BUCKET: None, bucket: float(bucket)},
    }


async def test_success_ends_the_execution_and_enters_the_history(any_store: Store) -> None:
    shard = await accept(any_store)
    assert await report_and_compare(any_store, shard) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        f"due:{LAPSE_BUCKET}": {EXECUTION: None},
        "buckets": {LAPSE_BUCKET: None},
        "runs:job-0": [RECORD],
        "ledger": [["succeeded", EXECUTION, RECORD]],
    }


async def test_failure_is_tried_again_by_the_jobs_policy(any_store: Store) -> None:
    shard = await accept(any_store)
    changed = await report_and_compare(any_store, shard, succeeded=False, error="no ink")
    [(bucket, retry_at)] = [
        (name.removeprefix("due:"), int(members[EXECUTION]))
        for name, members in changed.items()
        if name.startswith("due:") and members[EXECUTION]
    ]
    assert retry_at > REPORTED_AT
    record = [NOW, "failed", *RECORD[2:], None, "no ink"]
    assert changed == {
        "job:job-0": {f"x:{NOW}": f"due:2:{retry_at}:{BEGAN_AT}.0"},
        f"due:{LAPSE_BUCKET}": {EXECUTION: None},
        f"due:{bucket}": {EXECUTION: retry_at},
        "buckets": {LAPSE_BUCKET: None, bucket: float(bucket)},
        "runs:job-0": [record],
        "ledger": [["failed", EXECUTION, record]],
    }


async def test_a_final_failure_is_a_dead_letter(any_store: Store) -> None:
    shard = await accept(any_store)
    changed = await report_and_compare(any_store, shard, succeeded=False, is_final=True)
    record = [NOW, "dead", *RECORD[2:]]
    assert changed == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        f"due:{LAPSE_BUCKET}": {EXECUTION: None},
        "buckets": {LAPSE_BUCKET: None},
        "runs:job-0": [record],
        "dead": {EXECUTION: REPORTED_AT},
        f"letter:{EXECUTION}": letter(record, reason="final"),
        "ledger": [["dead", EXECUTION, record]],
    }


async def test_a_target_may_be_quicker_than_the_worker_that_called_it(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    assert await report_and_compare(any_store, shard) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "runs:job-0": [RECORD],
        "ledger": [["succeeded", EXECUTION, RECORD]],
    }
    before = await read_shard(any_store, shard)
    late = [result(delivery, Outcome.ACCEPTED), result(delivery)]
    assert await complete_executions(any_store, late, NOW) == [Answer.STALE] * 2
    assert await read_shard(any_store, shard) == before


async def test_a_sign_of_life_before_the_workers_word_changes_nothing(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    assert await report_running(any_store, PROMISE, REPORTED_AT, LAPSES_AT)
    assert await read_shard(any_store, shard) == before
    await accept(any_store, delivery)


async def test_the_end_of_one_that_has_lapsed_still_counts(any_store: Store) -> None:
    shard = await accept(any_store)
    await fire(any_store, shard, LAPSES_AT)
    [lapsed] = await take(any_store)
    assert lapsed.lapsed
    changed = await report_and_compare(any_store, shard)
    assert changed["ready:default"] == changed["pending:default"] == {lapsed.entry_id: None}
    assert changed["runs:job-0"] == [RECORD]
    assert await complete_executions(any_store, [result(lapsed)], NOW) == [Answer.STALE]


async def test_a_sign_of_life_brings_one_back_that_has_lapsed_and_was_not_ended_yet(
    any_store: Store,
) -> None:
    shard = await accept(any_store)
    await fire(any_store, shard, LAPSES_AT)
    [lapsed] = await take(any_store)
    later = LAPSES_AT + MINUTE
    before = await read_shard(any_store, shard)
    assert await report_running(any_store, PROMISE, LAPSES_AT + 5, later)
    bucket = str(later // MINUTE)
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {f"x:{NOW}": f"async:1:{later}:{BEGAN_AT}.0"},
        f"due:{bucket}": {EXECUTION: later},
        "buckets": {bucket: float(bucket)},
        "ready:default": {lapsed.entry_id: None},
        "pending:default": {lapsed.entry_id: None},
    }
    assert await complete_executions(any_store, [result(lapsed)], NOW) == [Answer.STALE]


@pytest.mark.parametrize(
    "how", [{}, {"succeeded": False}, {"succeeded": False, "is_final": True}], ids=str
)
async def test_the_same_word_sent_again_is_already_done(
    any_store: Store, how: dict[str, Any]
) -> None:
    shard = await accept(any_store)
    await report(any_store, **how)
    before = await read_shard(any_store, shard)
    assert await report(any_store, **how) is Answer.ALREADY
    assert await read_shard(any_store, shard) == before


async def test_another_word_than_the_one_recorded_is_stale(any_store: Store) -> None:
    shard = await accept(any_store)
    await report(any_store)
    before = await read_shard(any_store, shard)
    assert await report(any_store, succeeded=False) is Answer.STALE
    assert not await report_running(any_store, PROMISE, REPORTED_AT, LAPSES_AT)
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("attempt", [1, 3])
async def test_a_word_on_another_attempt_than_the_live_one_is_stale(
    any_store: Store, attempt: int
) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, NOW + 900)], NOW)
    shard = any_store.layout.shards[delivery.shard]
    await fire(any_store, shard, NOW + 900)
    [second] = await take(any_store)
    await accept(any_store, second)
    before = await read_shard(any_store, shard)
    promise = replace(PROMISE, attempt=attempt)
    assert await report(any_store, promise) is Answer.STALE
    assert not await report_running(any_store, promise, REPORTED_AT, LAPSES_AT)
    assert await read_shard(any_store, shard) == before
    assert await report(any_store, replace(PROMISE, attempt=2)) is Answer.DONE


async def test_a_word_on_an_attempt_that_is_to_come_is_stale(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, NOW + 900)], NOW)
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    assert await report(any_store, replace(PROMISE, attempt=2)) is Answer.STALE
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("how", [{}, {"succeeded": False}], ids=str)
async def test_a_word_on_an_attempt_that_died_before_a_redrive_is_stale(
    any_store: Store, how: dict[str, Any]
) -> None:
    shard = await accept(any_store)
    await fire(any_store, shard, LAPSES_AT)
    [lapsed] = await take(any_store)
    await complete_executions(any_store, [result(lapsed, Outcome.DEAD)], LAPSES_AT)
    await redrive_letters(any_store, [EXECUTION], LAPSES_AT)
    before = await read_shard(any_store, shard)
    assert await report(any_store, **how) is Answer.STALE
    assert await read_shard(any_store, shard) == before


async def test_a_word_on_a_job_that_is_gone_is_stale(any_store: Store) -> None:
    shard = await accept(any_store)
    await delete_job(any_store, "job-0")
    before = await read_shard(any_store, shard)
    assert await report(any_store) is Answer.STALE
    assert not await report_running(any_store, PROMISE, REPORTED_AT, LAPSES_AT)
    assert await read_shard(any_store, shard) == before


async def test_an_end_that_is_reported_starts_what_waits_for_it(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.QUEUE_ONE))
    await fire(any_store, shard)
    [delivery] = await take(any_store)
    await accept(any_store, delivery)
    await fire(any_store, shard, NOW + MINUTE)
    changed = await report_and_compare(any_store, shard)
    assert changed["job:job-0"] == {
        f"x:{NOW}": None,
        f"x:{NOW + MINUTE}": f"due:1:{REPORTED_AT}",
        "queued": None,
        "last": "succeeded",
    }
    assert changed[f"due:{BUCKET}"] == {f"job-0@{NOW + MINUTE}": REPORTED_AT}
