"""fire_attempts: an attempt is offered when its time in the index has come, once."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import (
    BUCKET,
    LAPSES_AT,
    MINUTE,
    NOW,
    at_once,
    fire,
    job_ids,
    lease,
    registration,
    result,
    seed,
    small,
    take,
)
from seeding import start as start_job

from engine.codec import Promise
from engine.errors import Fenced
from engine.execution import Outcome
from engine.keys import Shard
from engine.model import Rules
from engine.names import Priority
from engine.store import Store
from engine.store.changes import pause_job
from engine.store.due import Fired, Member, fire_attempts
from engine.store.executions import complete_executions
from engine.store.jobs import delete_job
from engine.store.reports import report_running

RETRY_AT = NOW + 2_000
ATTEMPT: Member = (f"job-0@{NOW}".encode(), RETRY_AT)


async def fail(store: Store) -> Shard:
    """Leave job-0 with a failed first attempt, to be tried again at RETRY_AT; return its shard."""
    delivery = await start_job(store, "job-0")
    await complete_executions(store, [result(delivery, Outcome.FAILED, RETRY_AT)], NOW)
    return store.layout.shards[delivery.shard]


async def commit(store: Store, shard: Shard, *attempts: Member, bucket: str = BUCKET) -> Fired:
    token = await lease(store, shard)
    return await fire_attempts(store, shard, token, "s1", bucket, attempts)


async def test_a_failed_attempt_is_offered_again_at_its_time(any_store: Store) -> None:
    shard = await fail(any_store)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)

    assert await commit(any_store, shard, ATTEMPT) == Fired(fired=1)

    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": f"ready:2:{entry}:{NOW + 500}.0"},
        f"due:{BUCKET}": {f"job-0@{NOW}": None},
        "buckets": {BUCKET: None},
        "ready:default": {
            entry: {
                "execution_id": f"job-0@{NOW}",
                "attempt": "2",
                "due_at": str(RETRY_AT),
                "target": '{"type":"worker"}',
                "payload": '{"n":1}',
                "since": f"{NOW + 500}.0",
            }
        },
        "ledger": [["fired", f"job-0@{NOW}", 2, RETRY_AT, "default"]],
    }


async def test_an_attempt_committed_again_is_offered_once(any_store: Store) -> None:
    shard = await fail(any_store)
    await commit(any_store, shard, ATTEMPT)
    before = await read_shard(any_store, shard)
    assert await commit(any_store, shard, ATTEMPT) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_a_fenced_holder_offers_nothing(any_store: Store) -> None:
    shard = await fail(any_store)
    token = await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    with pytest.raises(Fenced):
        await fire_attempts(any_store, shard, str(int(token) + 1), "s1", BUCKET, [ATTEMPT])
    assert await read_shard(any_store, shard) == before


async def test_an_attempt_at_another_time_than_the_records_is_left_where_it_is(
    any_store: Store,
) -> None:
    shard = await fail(any_store)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    member, due_at = ATTEMPT
    assert await commit(any_store, shard, (member, due_at - 1)) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_an_attempt_that_no_job_knows_is_cleared_away(any_store: Store) -> None:
    shard = await fail(any_store)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    await any_store.client.zadd(shard.due(BUCKET), {f"gone@{NOW}": NOW})
    assert await commit(any_store, shard, (f"gone@{NOW}".encode(), NOW)) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_an_attempt_of_a_job_deleted_after_the_look_is_gone(any_store: Store) -> None:
    shard = await fail(any_store)
    await lease(any_store, shard)
    await delete_job(any_store, "job-0")
    before = await read_shard(any_store, shard)
    assert await commit(any_store, shard, ATTEMPT) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_pausing_a_job_does_not_stop_its_retries(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, RETRY_AT)], NOW)
    await pause_job(any_store, "job-0", NOW)
    assert await fire(any_store, shard, RETRY_AT) == Fired(fired=1)


async def test_an_attempt_waits_while_its_queue_is_full(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await fail(store)
    other = await start_job(store, job_ids(store, 2)[1])
    await lease(store, shard)
    before = await read_shard(store, shard)

    assert await commit(store, shard, ATTEMPT) == Fired(held=1)
    held = await read_shard(store, shard)
    assert changes(before, held) == {
        f"due:{BUCKET}": {f"job-0@{NOW}": None},
        "due:@default": {f"job-0@{NOW}": RETRY_AT},
        "buckets": {BUCKET: None, "@default": float("inf")},
    }

    await complete_executions(store, [result(other)], NOW)
    assert await fire(store, shard, RETRY_AT) == Fired(fired=1)


async def test_a_held_attempt_committed_again_goes_on_waiting(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await fail(store)
    other = await start_job(store, job_ids(store, 2)[1])
    await commit(store, shard, ATTEMPT)
    await complete_executions(store, [result(other)], NOW)
    before = await read_shard(store, shard)
    assert await commit(store, shard, ATTEMPT) == Fired(held=1)
    assert await read_shard(store, shard) == before


async def test_an_attempt_is_offered_in_the_stream_of_its_priority(any_store: Store) -> None:
    shard = await seed(any_store, at_once("job-0", priority=Priority.LOW))
    [first] = await take(any_store, stream="default:low")
    await complete_executions(any_store, [result(first, Outcome.FAILED, RETRY_AT)], NOW)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    assert await commit(any_store, shard, ATTEMPT) == Fired(fired=1)
    changed = changes(before, await read_shard(any_store, shard))
    assert changed["ready:default:low"].keys()
    assert changed["ledger"] == [["fired", f"job-0@{NOW}", 2, RETRY_AT, "default:low"]]


# One whose target promised to report, and fell silent


async def accept(store: Store) -> tuple[Shard, Member]:
    """Leave job-0's execution with its target; return its shard, and what is in the index."""
    delivery = await start_job(store, "job-0")
    await complete_executions(store, [result(delivery, Outcome.ACCEPTED)], NOW)
    return store.layout.shards[delivery.shard], (f"job-0@{NOW}".encode(), LAPSES_AT)


async def test_an_attempt_that_lapsed_is_offered_again_to_be_ended(any_store: Store) -> None:
    shard, attempt = await accept(any_store)
    bucket = str(LAPSES_AT // MINUTE)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)

    assert await commit(any_store, shard, attempt, bucket=bucket) == Fired(fired=1)

    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": f"ready:1:{entry}:{NOW + 500}.0"},
        f"due:{bucket}": {f"job-0@{NOW}": None},
        "buckets": {bucket: None},
        "ready:default": {
            entry: {
                "execution_id": f"job-0@{NOW}",
                "attempt": "1",
                "due_at": str(LAPSES_AT),
                "target": '{"type":"worker"}',
                "payload": '{"n":1}',
                "since": f"{NOW + 500}.0",
                "lapsed": "1",
            }
        },
        "ledger": [["fired", f"job-0@{NOW}", 1, LAPSES_AT, "default"]],
    }
    assert await commit(any_store, shard, attempt, bucket=bucket) == Fired(stale=1)
    assert await read_shard(any_store, shard) == after


async def test_one_that_gave_a_sign_of_life_after_the_look_stays(any_store: Store) -> None:
    shard, attempt = await accept(any_store)
    promise = Promise(f"job-0@{NOW}", 1, NOW + 500, NOW + 9 * MINUTE)
    await lease(any_store, shard)
    await report_running(any_store, promise, LAPSES_AT, LAPSES_AT + 5)
    before = await read_shard(any_store, shard)
    bucket = str(LAPSES_AT // MINUTE)
    assert await commit(any_store, shard, attempt, bucket=bucket) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_what_has_lapsed_is_ended_without_waiting_for_room(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard, _ = await accept(store)
    await start_job(store, job_ids(store, 2)[1])
    assert await fire(store, shard, LAPSES_AT) == Fired(fired=1)


async def test_an_execution_that_would_have_expired_is_ended_for_its_silence(
    any_store: Store,
) -> None:
    shard = await seed(any_store, registration("job-0", rules=Rules(expires_after_ms=5_000)))
    await fire(any_store, shard)
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first, Outcome.ACCEPTED)], NOW)
    await fire(any_store, shard, LAPSES_AT)
    [lapsed] = [one for one in await take(any_store) if one.lapsed]
    assert (lapsed.attempt, lapsed.expires_at, lapsed.began_at) == (1, None, NOW + 500)


async def test_jobs_and_attempts_share_a_bucket(any_store: Store) -> None:
    shard = await fail(any_store)
    await seed(any_store, registration(job_ids(any_store, 2)[1]))
    assert await fire(any_store, shard, NOW + MINUTE - 1) == Fired(fired=2)
