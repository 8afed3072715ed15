"""complete_executions: who holds the delivery records how it ended, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import Keyspace, changes, read_shard
from seeding import (
    AT_ONCE,
    BUCKET,
    LAPSES_AT,
    MINUTE,
    NOW,
    at_once,
    fire,
    http,
    job_ids,
    lease,
    letter,
    registration,
    result,
    seed,
    start,
    take,
)

from engine.execution import DeadReason, Delivery, Outcome
from engine.model import Overlap
from engine.names import Priority
from engine.store import Store
from engine.store.changes import replace_job
from engine.store.executions import Answer, complete_executions
from engine.store.jobs import create_jobs, delete_job, get_job, run_job
from engine.store.outcomes import Result

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
        "job:job-0": {f"x:{NOW}": f"due:2:{RETRY_AT}:{NOW + 500}.0"},
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
        f"letter:job-0@{NOW}": letter(record),
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


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.ACCEPTED])
async def test_a_delivery_that_was_reclaimed_is_stale_for_its_first_holder(
    any_store: Store, outcome: Outcome
) -> None:
    delivery = await start(any_store, "job-0")
    ready = any_store.layout.shards[delivery.shard].ready("default")
    await any_store.client.xclaim(ready, "workers", "w2", 0, [delivery.entry_id])
    answers, before, after = await end(any_store, result(delivery, outcome))
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


async def test_an_entry_whose_id_begins_as_the_live_ones_does_is_another(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    ready = shard.ready("default")
    fields = (await read_shard(any_store, shard))["ready:default"][delivery.entry_id]
    later = int(delivery.entry_id.partition("-")[0]) + 60_000
    for number in (1, 10):
        await any_store.client.xadd(ready, fields, id=f"{later}-{number}")
    old, live = await take(any_store)
    await any_store.client.xack(ready, "workers", delivery.entry_id)
    await any_store.client.xdel(ready, delivery.entry_id)
    place = f"ready:1:{live.entry_id}"
    await any_store.client.hset(shard.job("job-0"), f"x:{NOW}", place)
    answers, before, after = await end(any_store, result(old))
    assert answers == [Answer.DONE]
    assert changes(before, after).keys() == {"ready:default", "pending:default", "ledger"}
    assert after["job:job-0"][f"x:{NOW}"] == place


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


# What a target promises to report


async def test_an_accepted_execution_waits_for_its_report_in_the_index(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    answers, before, after = await end(any_store, result(delivery, Outcome.ACCEPTED))
    assert answers == [Answer.DONE]
    bucket = str(LAPSES_AT // MINUTE)
    record = [NOW, "accepted", 1, 1, "w1", 500, 40]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": f"async:1:{LAPSES_AT}:{NOW + 500}.0"},
        f"due:{bucket}": {f"job-0@{NOW}": LAPSES_AT},
        "buckets": {bucket: float(bucket)},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "ledger": [["accepted", f"job-0@{NOW}", record]],
    }


async def test_a_promise_sent_again_is_already_done_while_it_stands(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    accepted = result(delivery, Outcome.ACCEPTED)
    await end(any_store, accepted)
    answers, before, after = await end(any_store, accepted)
    assert answers == [Answer.ALREADY]
    assert after == before
    answers, before, after = await end(any_store, result(delivery))
    assert answers == [Answer.STALE]
    assert after == before


async def test_a_promise_of_another_attempt_is_stale(any_store: Store) -> None:
    first = await start(any_store, "job-0")
    await end(any_store, result(first, Outcome.FAILED, RETRY_AT))
    await fire(any_store, any_store.layout.shards[first.shard], RETRY_AT)
    [second] = await take(any_store)
    await end(any_store, result(second, Outcome.ACCEPTED))
    answers, before, after = await end(any_store, result(first, Outcome.ACCEPTED))
    assert answers == [Answer.STALE]
    assert after == before


async def test_a_promise_for_a_deleted_job_ends_its_entry_only(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await delete_job(any_store, "job-0")
    answers, before, after = await end(any_store, result(delivery, Outcome.ACCEPTED))
    assert answers == [Answer.DONE]
    assert changes(before, after).keys() == {"ready:default", "pending:default", "ledger"}


# Dead letters


@pytest.mark.parametrize("reason", DeadReason)
async def test_a_letter_says_why_and_holds_all_attempts_newest_first(
    any_store: Store, reason: DeadReason
) -> None:
    first = await start(any_store, "job-0")
    shard = any_store.layout.shards[first.shard]
    await end(any_store, result(first, Outcome.FAILED, RETRY_AT))
    await run_job(any_store, "job-0", NOW + 1)
    [other] = await take(any_store)
    await end(any_store, result(other))
    await fire(any_store, shard, RETRY_AT)
    [second] = await take(any_store)
    _, _, after = await end(any_store, result(second, Outcome.DEAD, reason=reason), now=NOW + 9)
    died, failed = [NOW, "dead", 2, 1, "w1", 500, 40], [NOW, "failed", 1, 1, "w1", 500, 40]
    expected = letter(died, failed, reason=reason, attempt=2)
    assert after[f"letter:job-0@{NOW}"] == expected
    assert after["dead"] == {f"job-0@{NOW}": NOW + 9}


async def test_a_letter_holds_what_the_attempt_had_not_what_the_job_has_by_now(
    any_store: Store,
) -> None:
    delivery = await start(any_store, "job-0")
    stored = await get_job(any_store, "job-0")
    await replace_job(any_store, stored, at_once("job-0", target=http("a.test")), NOW)
    _, _, after = await end(any_store, result(delivery, Outcome.DEAD))
    assert after[f"letter:job-0@{NOW}"]["target"] == '{"type":"worker"}'


async def test_each_of_several_dead_has_a_letter_of_its_own(any_store: Store) -> None:
    ids = job_ids(any_store, 2)
    await seed(any_store, *(at_once(job_id) for job_id in ids))
    ends = [result(delivery, Outcome.DEAD) for delivery in await take(any_store)]
    _, _, after = await end(any_store, *ends)
    assert after["dead"].keys() == {f"{job_id}@{NOW}" for job_id in ids}


# What the next attempt has to know


async def test_later_attempts_know_when_the_first_one_began(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    assert delivery.began_at is None
    for attempt in (2, 3):
        now = NOW + attempt * 900
        await end(any_store, result(delivery, Outcome.FAILED, now))
        await fire(any_store, shard, now)
        [delivery] = await take(any_store)
        assert (delivery.attempt, delivery.began_at, delivery.base) == (attempt, NOW + 500, 0)


async def test_attempts_that_do_not_count_are_remembered(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    redriven = replace(delivery, base=3)
    _, _, after = await end(any_store, result(redriven, Outcome.FAILED, RETRY_AT))
    assert after["job:job-0"][f"x:{NOW}"] == f"due:2:{RETRY_AT}:{NOW + 500}.3"
    await fire(any_store, shard, RETRY_AT)
    [second] = await take(any_store)
    assert (second.base, second.began_at) == (3, NOW + 500)


# Priorities


@pytest.mark.parametrize("priority", [Priority.HIGH, Priority.LOW])
async def test_each_priority_has_a_stream_of_its_own(any_store: Store, priority: Priority) -> None:
    shard = await seed(any_store, at_once("job-0", priority=priority))
    stream = f"default:{priority}"
    assert await take(any_store) == []
    [first] = await take(any_store, stream=stream)
    answers, _, after = await end(any_store, result(first, Outcome.FAILED, RETRY_AT))
    assert answers == [Answer.DONE]
    assert not after.keys() & {f"ready:{stream}", f"pending:{stream}"}
    await fire(any_store, shard, RETRY_AT)
    assert await take(any_store) == []
    [second] = await take(any_store, stream=stream)
    _, _, after = await end(any_store, result(second, Outcome.DEAD))
    assert after[f"letter:job-0@{NOW}"]["queue"] == stream


async def test_an_outcome_under_another_priority_is_stale(any_store: Store) -> None:
    await seed(any_store, at_once("job-0", priority=Priority.HIGH))
    [delivery] = await take(any_store, stream="default:high")
    answers, before, after = await end(any_store, result(replace(delivery, queue="default")))
    assert answers == [Answer.STALE]
    assert after == before


async def test_two_executions_of_a_job_that_end_together_are_both_counted_off(
    any_store: Store,
) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.ALLOW))
    await lease(any_store, shard)
    await fire(any_store, shard)
    await fire(any_store, shard, NOW + MINUTE)
    both = await take(any_store)
    assert len(both) == 2
    answers = await complete_executions(any_store, [result(one) for one in both], NOW)
    assert answers == [Answer.DONE, Answer.DONE]
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert job["live"] == "0"
