"""What a job may ask for: an end after some runs, expiry, a pause after failures, deletion."""

from __future__ import annotations

import pytest
from invariants import Keyspace, changes, read_shard
from seeding import (
    AT_ONCE,
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    ONE_OFF,
    fire,
    registration,
    result,
    seed,
    small,
    start,
    take,
)

from engine.execution import DeadReason, Outcome
from engine.keys import Shard
from engine.model import JobState, Overlap, Rules
from engine.store import Store
from engine.store.changes import resume_job
from engine.store.due import Fired
from engine.store.executions import Answer, complete_executions, reclaim_executions
from engine.store.history import list_executions
from engine.store.jobs import get_job, run_job

EXPIRING = Rules(expires_after_ms=5_000)
TWO_FAILURES = Rules(pause_after_failures=2)
PASSING = Rules(delete_after_completion=True)


def at(minute: int) -> int:
    return NOW + minute * MINUTE


async def begin(store: Store, rules: Rules, overlap: Overlap = Overlap.SKIP) -> Shard:
    """Create job-0, due NOW."""
    return await seed(store, registration("job-0", rules=rules, overlap=overlap))


async def run(store: Store, shard: Shard, outcome: Outcome, minute: int = 0) -> Keyspace:
    """Fire job-0 in a minute and end what that starts; return the shard as it was before that."""
    assert (await fire(store, shard, at(minute))).fired == 1
    [delivery] = await take(store)
    before = await read_shard(store, shard)
    ended = result(delivery, outcome, at(1) if outcome is Outcome.FAILED else None)
    assert await complete_executions(store, [ended], at(minute) + 600) == [Answer.DONE]
    return before


async def test_rules_come_back_as_they_were_stored(any_store: Store) -> None:
    rules = Rules(
        max_runs=3, expires_after_ms=5, pause_after_failures=2, delete_after_completion=True
    )
    await begin(any_store, rules, Overlap.QUEUE_ONE)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.rules, stored.overlap, stored.runs_left) == (rules, Overlap.QUEUE_ONE, 3)


async def test_a_job_without_rules_stores_none(any_store: Store) -> None:
    shard = await begin(any_store, Rules())
    names = (await read_shard(any_store, shard))["job:job-0"].keys()
    assert not names & {"rules", "runs_left", "expires_after_ms", "pause_after_failures"}


# max_runs


async def test_the_last_run_that_was_asked_for_completes_the_job(any_store: Store) -> None:
    shard = await begin(any_store, Rules(max_runs=2))
    await run(any_store, shard, Outcome.SUCCEEDED)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.runs_left) == (JobState.ACTIVE, 1)

    assert await fire(any_store, shard, at(1)) == Fired(fired=1)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.next_run_at, stored.runs_left) == (JobState.COMPLETED, None, 0)
    assert "buckets" not in await read_shard(any_store, shard)


async def test_a_time_that_is_skipped_spends_no_run(any_store: Store) -> None:
    shard = await begin(any_store, Rules(max_runs=2))
    await fire(any_store, shard)
    assert await fire(any_store, shard, at(1)) == Fired(overlap=1)
    assert (await get_job(any_store, "job-0")).job.runs_left == 1


async def test_a_run_by_hand_spends_no_run(any_store: Store) -> None:
    await begin(any_store, Rules(max_runs=2))
    await run_job(any_store, "job-0", NOW - 5)
    assert (await get_job(any_store, "job-0")).job.runs_left == 2


async def test_a_time_that_waits_spends_a_run_and_runs_after_the_jobs_end(
    any_store: Store,
) -> None:
    shard = await begin(any_store, Rules(max_runs=2), Overlap.QUEUE_ALL)
    await fire(any_store, shard)
    await fire(any_store, shard, at(1))
    assert (await get_job(any_store, "job-0")).job.state is JobState.COMPLETED
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first)], at(1))
    await fire(any_store, shard, at(1))
    [second] = await take(any_store)
    assert second.nominal_at == at(1)


# expires_after_ms


async def test_an_entry_says_when_it_expires(any_store: Store) -> None:
    shard = await begin(any_store, EXPIRING)
    await fire(any_store, shard, NOW + 700)
    [delivery] = await take(any_store)
    assert delivery.expires_at == NOW + 5_000


async def test_a_retry_does_not_expire(any_store: Store) -> None:
    shard = await begin(any_store, EXPIRING)
    await run(any_store, shard, Outcome.FAILED)
    await fire(any_store, shard, at(1))
    assert {(d.attempt, d.expires_at) for d in await take(any_store)} == {(2, None)}


async def test_a_run_by_hand_expires_from_its_own_time(any_store: Store) -> None:
    await begin(any_store, EXPIRING)
    await run_job(any_store, "job-0", NOW - 5)
    [delivery] = await take(any_store)
    assert delivery.expires_at == NOW - 5 + 5_000


async def test_a_job_that_starts_when_it_is_registered_expires_too(any_store: Store) -> None:
    await seed(
        any_store, registration("job-0", AT_ONCE, next_run_at=None, run_at=NOW, rules=EXPIRING)
    )
    [delivery] = await take(any_store)
    assert delivery.expires_at == NOW + 5_000


async def test_waiting_for_room_does_not_put_expiry_off(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    first = await start(store, "job-0")
    other = "job-0:2"
    while store.layout.shard_of(other) is not store.layout.shard_of("job-0"):
        other += "2"
    shard = await seed(
        store, registration(other, AT_ONCE, next_run_at=None, run_at=NOW, rules=EXPIRING)
    )
    await complete_executions(store, [result(first)], NOW)
    assert await fire(store, shard, NOW + 4_000) == Fired(fired=1)
    [delivery] = await take(store)
    assert delivery.expires_at == NOW + 5_000


async def test_an_expired_execution_ends_as_skipped_and_a_repeat_is_already_done(
    any_store: Store,
) -> None:
    shard = await begin(any_store, EXPIRING)
    await fire(any_store, shard)
    [delivery] = await take(any_store)
    before = await read_shard(any_store, shard)
    expired = result(delivery, Outcome.SKIPPED)
    assert await complete_executions(any_store, [expired], at(1)) == [Answer.DONE]
    after = await read_shard(any_store, shard)
    record = [NOW, "skipped", NOW, 1, 1, "expired"]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "runs:job-0": [record],
        "ledger": [["skipped", "job-0", record]],
    }
    assert await complete_executions(any_store, [expired], at(1)) == [Answer.ALREADY]
    assert await read_shard(any_store, shard) == after
    [execution] = await list_executions(any_store, "job-0")
    assert execution.state == "skipped"


# pause_after_failures


async def test_dead_executions_in_a_row_pause_the_job(any_store: Store) -> None:
    shard = await begin(any_store, TWO_FAILURES)
    await run(any_store, shard, Outcome.DEAD)
    assert (await get_job(any_store, "job-0")).job.failures == 1

    before = await run(any_store, shard, Outcome.DEAD, minute=1)

    after = await read_shard(any_store, shard)
    changed = changes(before, after)
    note = {"by": "waterclock", "at": at(1) + 600, "note": "2 executions failed in a row"}
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.pause_note, stored.failures) == (JobState.PAUSED, note, 2)
    assert stored.next_run_at == at(2)
    assert changed[f"due:{int(BUCKET) + 2}"] == {f"{EVERY_MINUTE.id}|job-0": None}
    assert [event[0] for event in changed["ledger"]] == ["dead", "paused"]
    assert changed["ledger"][1] == ["paused", "job-0", note]
    assert await fire(any_store, shard, at(2)) == Fired()


async def test_a_success_sets_the_count_back(any_store: Store) -> None:
    shard = await begin(any_store, TWO_FAILURES)
    for minute, outcome in enumerate([Outcome.DEAD, Outcome.SUCCEEDED, Outcome.DEAD]):
        await run(any_store, shard, outcome, minute)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.failures) == (JobState.ACTIVE, 1)


@pytest.mark.parametrize("rules", [Rules(), Rules(max_runs=9), Rules(pause_after_failures=1)])
async def test_a_target_that_is_gone_pauses_the_job_once(any_store: Store, rules: Rules) -> None:
    shard = await begin(any_store, rules)
    await fire(any_store, shard)
    [delivery] = await take(any_store)
    gone = result(delivery, Outcome.DEAD, reason=DeadReason.GONE)
    await complete_executions(any_store, [gone], NOW + 9)
    after = await read_shard(any_store, shard)
    assert after["job:job-0"]["state"] == "paused"
    assert "410 Gone" in after["job:job-0"]["pause_note"]
    assert "buckets" not in after
    assert [event[0] for event in after["ledger"][-2:]] == ["dead", "paused"]


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.FAILED])
async def test_neither_expiry_nor_a_retry_to_come_counts(
    any_store: Store, outcome: Outcome
) -> None:
    shard = await begin(any_store, Rules(pause_after_failures=1))
    await run(any_store, shard, outcome)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.failures) == (JobState.ACTIVE, 0)


async def test_resuming_begins_to_count_anew(any_store: Store) -> None:
    shard = await begin(any_store, TWO_FAILURES)
    await run(any_store, shard, Outcome.DEAD)
    await run(any_store, shard, Outcome.DEAD, minute=1)
    await resume_job(any_store, "job-0", at(1) + 700)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.failures, stored.pause_note) == (0, None)
    await run(any_store, shard, Outcome.DEAD, minute=2)
    assert (await get_job(any_store, "job-0")).job.state is JobState.ACTIVE


async def test_a_job_that_waits_for_room_is_paused_too(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await begin(store, Rules(pause_after_failures=1), Overlap.ALLOW)
    await fire(store, shard)
    assert await fire(store, shard, at(1)) == Fired(held=1)
    [delivery] = await take(store)
    await complete_executions(store, [result(delivery, Outcome.DEAD)], at(1))
    assert "buckets" not in await read_shard(store, shard)
    assert (await get_job(store, "job-0")).job.state is JobState.PAUSED


async def test_poison_counts_as_a_failure(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 1})
    shard = await begin(any_store, Rules(pause_after_failures=1))
    await fire(any_store, shard)
    [held] = await take(any_store)
    ready = shard.ready("default")
    await any_store.client.xclaim(
        ready, "workers", "w1", 0, [held.entry_id], idle=3_600_000, justid=True
    )
    found = await reclaim_executions(any_store, "default", shard, "w2", NOW + 9)
    assert found.poisoned == 1
    after = await read_shard(any_store, shard)
    assert after["job:job-0"]["state"] == "paused"
    assert "buckets" not in after
    assert [event[0] for event in after["ledger"][-2:]] == ["dead", "paused"]


async def test_poison_starts_what_waits(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 1})
    shard = await begin(any_store, Rules(), Overlap.QUEUE_ONE)
    await fire(any_store, shard)
    await fire(any_store, shard, at(1))
    [held] = await take(any_store)
    ready = shard.ready("default")
    await any_store.client.xclaim(
        ready, "workers", "w1", 0, [held.entry_id], idle=3_600_000, justid=True
    )
    await reclaim_executions(any_store, "default", shard, "w2", at(1))
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert job[f"x:{at(1)}"] == f"due:1:{at(1)}"


# delete_after_completion


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.DEAD, Outcome.SKIPPED])
async def test_a_job_that_is_done_with_goes(any_store: Store, outcome: Outcome) -> None:
    shard = await seed(any_store, registration("job-0", ONE_OFF, rules=PASSING))
    before = await run(any_store, shard, outcome)
    after = await read_shard(any_store, shard)
    letters = {"dead", f"letter:job-0@{NOW}"} if outcome is Outcome.DEAD else set()
    assert after.keys() == {"plans", "ledger", "lease", "fence"} | letters
    assert [event[:2] for event in changes(before, after)["ledger"][1:]] == [["deleted", "job-0"]]


async def test_a_job_that_is_completed_while_live_goes_when_the_last_one_ends(
    any_store: Store,
) -> None:
    rules = Rules(max_runs=2, delete_after_completion=True)
    shard = await begin(any_store, rules, Overlap.ALLOW)
    await fire(any_store, shard)
    await fire(any_store, shard, at(1))
    first, second = await take(any_store)
    await complete_executions(any_store, [result(first)], at(1))
    assert (await get_job(any_store, "job-0")).job.state is JobState.COMPLETED
    await complete_executions(any_store, [result(second)], at(1))
    assert "jobs" not in await read_shard(any_store, shard)


async def test_both_last_ends_in_one_report_delete_the_job_once(any_store: Store) -> None:
    rules = Rules(max_runs=2, delete_after_completion=True)
    shard = await begin(any_store, rules, Overlap.ALLOW)
    await fire(any_store, shard)
    await fire(any_store, shard, at(1))
    ends = [result(delivery) for delivery in await take(any_store)]
    assert await complete_executions(any_store, ends, at(1)) == [Answer.DONE] * 2
    after = await read_shard(any_store, shard)
    assert "job:job-0" not in after
    assert "runs:job-0" not in after
    assert after["ledger"].count(["deleted", "job-0"]) == 1


async def test_a_job_with_a_retry_to_come_stays(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", ONE_OFF, rules=PASSING))
    await run(any_store, shard, Outcome.FAILED)
    assert (await get_job(any_store, "job-0")).job.state is JobState.COMPLETED


async def test_a_job_that_has_times_to_come_stays(any_store: Store) -> None:
    shard = await begin(any_store, PASSING)
    await run(any_store, shard, Outcome.SUCCEEDED)
    assert (await get_job(any_store, "job-0")).job.next_run_at == at(1)


async def test_a_job_with_times_that_wait_stays_until_they_have_run(any_store: Store) -> None:
    rules = Rules(max_runs=2, delete_after_completion=True)
    shard = await begin(any_store, rules, Overlap.QUEUE_ALL)
    await fire(any_store, shard)
    await fire(any_store, shard, at(1))
    for _ in range(2):
        assert (await get_job(any_store, "job-0")).job.state is JobState.COMPLETED
        [delivery] = await take(any_store)
        await complete_executions(any_store, [result(delivery)], at(1))
        await fire(any_store, shard, at(1))
    assert "jobs" not in await read_shard(any_store, shard)


async def test_a_job_whose_last_time_waits_for_a_success_stays(any_store: Store) -> None:
    rules = Rules(max_runs=2, delete_after_completion=True)
    shard = await begin(any_store, rules, Overlap.AFTER_SUCCESS)
    await fire(any_store, shard)
    await fire(any_store, shard, at(1))
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery, Outcome.DEAD)], at(1))
    stored = await get_job(any_store, "job-0")
    assert (stored.job.state, stored.job.queued, stored.live) == (
        JobState.COMPLETED,
        (at(1),),
        [],
    )
