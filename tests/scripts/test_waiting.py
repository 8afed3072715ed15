"""A limited execution comes into its stream with a permit of each of its lanes, or waits."""

from __future__ import annotations

from typing import Any

import pytest
from filling import advance, order
from filling import begin as begin_backfill
from invariants import changes, read_shard
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    at_once,
    due_member,
    fire,
    grant,
    group,
    http,
    job_ids,
    lanes_of,
    lease,
    limit,
    registration,
    result,
    seed,
    small,
    start,
    take,
)

from engine.execution import Outcome
from engine.store import Store
from engine.store.changes import pause_job, replace_job
from engine.store.due import Fired, fire_attempts, fire_due
from engine.store.executions import complete_executions
from engine.store.jobs import delete_job, get_job, run_job

NEXT = str(int(BUCKET) + 1)


async def test_a_due_job_takes_a_permit_and_the_next_one_waits_for_another(
    any_store: Store,
) -> None:
    shard = await limit(any_store, slots__q_default=1)
    ids = job_ids(any_store, 2)
    await seed(any_store, *(registration(job_id) for job_id in ids))
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)

    assert await fire(any_store, shard) == Fired(fired=1, held=1)

    after = await read_shard(any_store, shard)
    [first] = [job_id for job_id in ids if f"x:{NOW}" in after[f"job:{job_id}"]]
    [other] = {*ids} - {first}
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        f"job:{first}": {
            "next_run_at": str(NOW + MINUTE),
            "live": "1",
            f"x:{NOW}": f"ready:1:{entry};q/default",
        },
        f"due:{BUCKET}": {due_member(first): None, due_member(other): None},
        f"due:{NEXT}": {due_member(first): NOW + MINUTE},
        "due:@q/default": {due_member(other): NOW},
        "due:@": {due_member(other): "@q/default"},
        "buckets": {BUCKET: None, NEXT: float(NEXT), "@q/default": float("inf")},
        "gates": {"slots:q/default": "0", "live:q/default": "1"},
        "ready:default": after["ready:default"],
        "ledger": [["fired", f"{first}@{NOW}", 1, NOW, "default"]],
    }
    assert await fire(any_store, shard) == Fired()
    assert await read_shard(any_store, shard) == after

    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery)], NOW)
    assert await fire(any_store, shard) == Fired(fired=1)
    last = await read_shard(any_store, shard)
    assert not last.keys() & {"due:@q/default", "due:@"}
    assert last[f"job:{other}"]["next_run_at"] == str(NOW + MINUTE)


async def test_a_job_that_is_to_run_at_once_waits_in_the_index(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=2)
    ids = job_ids(any_store, 3)
    before = await read_shard(any_store, shard)
    await seed(any_store, *(at_once(job_id) for job_id in ids))
    after = await read_shard(any_store, shard)
    changed = changes(before, after)
    execution = f"{ids[2]}@{NOW}"
    assert [lanes_of(after, job_id) for job_id in ids[:2]] == ["q/default"] * 2
    assert after[f"job:{ids[2]}"][f"x:{NOW}"] == f"due:1:{NOW}"
    assert changed["due:@q/default"] == {execution: NOW}
    assert changed["due:@"] == {execution: "@q/default"}
    assert changed["buckets"] == {"@q/default": float("inf")}
    assert changed["gates"] == {"slots:q/default": "0", "live:q/default": "2"}
    assert [event[1] for event in changed["ledger"] if event[0] == "fired"] == [
        f"{job_id}@{NOW}" for job_id in ids[:2]
    ]


async def test_a_run_by_hand_waits_and_is_offered_with_the_next_permit(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=0)
    await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await run_job(any_store, "job-0", NOW + 5)
    execution = f"job-0@{NOW + 5}"
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {f"x:{NOW + 5}": f"due:1:{NOW + 5}", "live": "1", "ran_at": str(NOW + 5)},
        "due:@q/default": {execution: NOW + 5},
        "due:@": {execution: "@q/default"},
        "buckets": {"@q/default": float("inf")},
    }
    await grant(any_store, shard, {"slots:q/default": "+1"})
    assert await fire(any_store, shard, NOW - 1) == Fired(fired=1)
    after = await read_shard(any_store, shard)
    assert lanes_of(after, nominal_at=NOW + 5) == "q/default"
    assert after["gates"] == {"slots:q/default": "0", "live:q/default": "1", "token": "1"}
    assert not after.keys() & {"due:@q/default", "due:@"}


async def test_a_run_by_hand_takes_a_permit(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=3)
    await seed(any_store, registration("job-0"))
    await run_job(any_store, "job-0", NOW + 5)
    after = await read_shard(any_store, shard)
    assert lanes_of(after, nominal_at=NOW + 5) == "q/default"
    assert after["gates"] == {"slots:q/default": "2", "live:q/default": "1", "token": "1"}


async def test_a_backfill_starts_as_many_as_there_are_permits(any_store: Store) -> None:
    shard = await begin_backfill(any_store, order(-5, -1, concurrency=4))
    await limit(any_store, slots__q_default=2)
    assert await advance(any_store, shard) == 2
    before = await read_shard(any_store, shard)
    assert before["gates"] == {"slots:q/default": "0", "live:q/default": "2", "token": "1"}
    assert lanes_of(before, nominal_at=NOW - 5 * MINUTE) == "q/default"
    assert await advance(any_store, shard) == 0
    assert await read_shard(any_store, shard) == before
    [first, _] = await take(any_store)
    await complete_executions(any_store, [result(first)], NOW)
    assert await advance(any_store, shard) == 1


async def test_a_retry_waits_for_a_permit_too(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = await limit(any_store, slots__q_default=0)
    retry_at = NOW + 2_000
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, retry_at)], NOW)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, retry_at) == Fired(held=1)
    assert changes(before, await read_shard(any_store, shard)) == {
        f"due:{BUCKET}": {f"job-0@{NOW}": None},
        "due:@q/default": {f"job-0@{NOW}": retry_at},
        "due:@": {f"job-0@{NOW}": "@q/default"},
        "buckets": {BUCKET: None, "@q/default": float("inf")},
    }
    await grant(any_store, shard, {"slots:q/default": "+1"})
    assert await fire(any_store, shard, retry_at) == Fired(fired=1)
    after = await read_shard(any_store, shard)
    assert after["job:job-0"][f"x:{NOW}"].endswith(f":{NOW + 500}.0;q/default")
    assert not after.keys() & {"due:@q/default", "due:@"}


async def test_a_debt_is_paid_by_ends_before_anything_comes_in(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=2)
    ids = job_ids(any_store, 3)
    await seed(any_store, *(at_once(job_id) for job_id in ids))
    await grant(any_store, shard, {"slots:q/default": "-1"})
    first, second = await take(any_store)
    await complete_executions(any_store, [result(first)], NOW)
    assert (await read_shard(any_store, shard))["gates"]["slots:q/default"] == "0"
    assert await fire(any_store, shard) == Fired()
    await complete_executions(any_store, [result(second)], NOW)
    assert await fire(any_store, shard) == Fired(fired=1)


async def test_where_there_is_no_room_no_permit_is_taken(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await limit(store, slots__q_default=5)
    ids = job_ids(store, 2)
    await seed(store, *(at_once(job_id) for job_id in ids))
    after = await read_shard(store, shard)
    assert after["due:@default"] == {f"{ids[1]}@{NOW}": NOW}
    assert "due:@" not in after
    assert after["gates"] == {"slots:q/default": "4", "live:q/default": "1", "token": "1"}


async def test_what_has_one_permit_goes_on_to_wait_for_the_next(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_http=0, **{"slots__h_a.test": 0})
    ids = job_ids(any_store, 2)
    due = registration(ids[0], queue="http", target=http("a.test"))
    await seed(any_store, due, at_once(ids[1], queue="http", target=http("a.test")))
    assert await fire(any_store, shard) == Fired(held=1)
    await grant(any_store, shard, {"slots:q/http": "+5"})
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard) == Fired(held=2)
    members = {due_member(ids[0]): NOW, f"{ids[1]}@{NOW}": NOW}
    assert changes(before, await read_shard(any_store, shard)) == {
        "due:@q/http": dict.fromkeys(members),
        "due:@h/a.test": members,
        "due:@": dict.fromkeys(members, "@h/a.test"),
        "buckets": {"@q/http": None, "@h/a.test": float("inf")},
    }


@pytest.mark.parametrize("is_attempt", [False, True])
@pytest.mark.parametrize(
    ("bucket", "granted"), [(BUCKET, None), (BUCKET, "+1"), ("@q/default", "+1")]
)
async def test_a_held_commit_sent_again_leaves_it_waiting(
    any_store: Store, bucket: str, granted: str | None, is_attempt: bool
) -> None:
    """Even if there is a permit by then, and if it went from one lane on to the next."""
    is_second = bucket != BUCKET
    shard = await limit(any_store, slots__q_default=0, **{"slots__h_a.test": 0})
    beside = registration(job_ids(any_store, 2)[1], target=http("a.test"))
    if is_attempt:
        await any_store.client.delete(shard.gates)
        await seed(any_store, at_once("job-0", target=http("a.test")))
        [first] = await take(any_store)
        await complete_executions(any_store, [result(first, Outcome.FAILED, NOW + 5)], NOW)
        await limit(any_store, slots__q_default=0, **{"slots__h_a.test": 0})
    else:
        await seed(any_store, registration("job-0", target=http("a.test")))
    await seed(any_store, beside)
    token = await lease(any_store, shard)
    attempt = (f"job-0@{NOW}".encode(), NOW + 5)

    async def commit() -> Fired:
        if is_attempt:
            return await fire_attempts(any_store, shard, token, "s1", bucket, [attempt])
        proposed = [group(EVERY_MINUTE, NOW, "job-0")]
        return await fire_due(any_store, shard, token, "s1", bucket, proposed)

    if is_second:
        await fire(any_store, shard, NOW + 5)
        await grant(any_store, shard, {"slots:q/default": "+1"})
    assert await commit() == Fired(held=1)
    if granted:
        await grant(any_store, shard, {"slots:h/a.test": granted, "slots:q/default": granted})
    before = await read_shard(any_store, shard)
    waiting = attempt[0].decode() if is_attempt else due_member("job-0")
    assert before["due:@"][waiting] == ("@h/a.test" if is_second else "@q/default")
    assert await commit() == Fired(held=1)
    assert await read_shard(any_store, shard) == before


async def test_pausing_editing_and_deleting_reach_a_job_that_waits_for_a_permit(
    any_store: Store,
) -> None:
    shard = await limit(any_store, slots__q_default=0)
    ids = job_ids(any_store, 3)
    await seed(any_store, *(registration(job_id) for job_id in ids))
    assert await fire(any_store, shard) == Fired(held=3)
    await pause_job(any_store, ids[0], NOW)
    await delete_job(any_store, ids[1])
    stored = await get_job(any_store, ids[2])
    edited = registration(ids[2], queue="mail", target=http("a.test"))
    await replace_job(any_store, stored, edited, NOW)
    after = await read_shard(any_store, shard)
    assert not after.keys() & {"due:@q/default", "due:@"}
    assert after[f"due:{BUCKET}"] == {due_member(ids[2]): NOW}


async def test_a_job_that_waits_for_a_permit_is_skipped_once_it_overlaps(any_store: Store) -> None:
    shard = await limit(any_store, **{"slots__h_a.test": 0})
    await seed(any_store, registration("job-0", target=http("a.test")))
    assert await fire(any_store, shard) == Fired(held=1)
    await run_job(any_store, "job-0", NOW + 5)
    await grant(any_store, shard, {"slots:h/a.test": "+1"})
    # The job itself is older, and overlaps what was run by hand, which takes the permit next.
    assert await fire(any_store, shard, NOW + 5) == Fired(overlap=1)
    assert await fire(any_store, shard, NOW + 5) == Fired(fired=1)


async def test_all_that_waits_is_offered_when_its_limit_is_lifted(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=1)
    ids = job_ids(any_store, 3)
    await seed(any_store, at_once(ids[0]), *(registration(job_id) for job_id in ids[1:]))
    assert await fire(any_store, shard) == Fired(held=2)
    await grant(any_store, shard, {"slots:q/default": "", "live:q/default": ""})
    assert await fire(any_store, shard) == Fired(fired=2)
    after = await read_shard(any_store, shard)
    assert [lanes_of(after, job_id) for job_id in ids] == ["q/default", "", ""]
    assert not after.keys() & {"gates", "due:@", "due:@q/default"}


async def test_a_stale_member_of_a_lane_is_cleared_away(any_store: Store) -> None:
    shard = await limit(any_store, slots__q_default=0)
    await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    gone: dict[str, Any] = {due_member("gone"): NOW, f"gone@{NOW}": NOW}
    before = await read_shard(any_store, shard)
    await any_store.client.zadd(shard.due("@q/default"), gone)
    await any_store.client.hset(shard.waiting, mapping=dict.fromkeys(gone, "@q/default"))
    token = await lease(any_store, shard)
    stale = [group(EVERY_MINUTE, NOW, "gone")]
    assert await fire_due(any_store, shard, token, "s1", "@q/default", stale) == Fired(stale=1)
    attempts = [(f"gone@{NOW}".encode(), NOW)]
    answer = await fire_attempts(any_store, shard, token, "s1", "@q/default", attempts)
    assert answer == Fired(stale=1)
    assert await read_shard(any_store, shard) == before
