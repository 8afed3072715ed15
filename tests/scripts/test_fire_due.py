"""fire_due: a proposal is committed once, or not at all."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import (
    AT_ONCE,
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    ONE_OFF,
    fire,
    group,
    job_ids,
    lease,
    registration,
    result,
    run_at_exactly,
    seed,
    start,
    take,
)

from engine.errors import Fenced
from engine.keys import Shard
from engine.model import Overlap
from engine.plan import Every, Misfire, Plan
from engine.store import Store
from engine.store.changes import pause_job
from engine.store.due import Fired, Group, fire_due
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, delete_job

NEXT = str(int(BUCKET) + 1)
MEMBER = f"{EVERY_MINUTE.id}|job-0"


async def commit(
    store: Store, shard: Shard, *groups: Group, bucket: str = BUCKET, token: str = ""
) -> Fired:
    token = token or await lease(store, shard)
    return await fire_due(store, shard, token, "s1", bucket, groups)


async def test_a_due_job_fires_and_moves_to_its_next_time(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    before = await read_shard(any_store, shard)

    done = await commit(any_store, shard, group(EVERY_MINUTE, NOW, "job-0"), token=token)

    assert done == Fired(fired=1)
    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        "job:job-0": {
            "next_run_at": str(NOW + MINUTE),
            f"x:{NOW}": f"ready:1:{entry}",
            "live": "1",
        },
        f"due:{BUCKET}": {MEMBER: None},
        f"due:{NEXT}": {MEMBER: NOW + MINUTE},
        "buckets": {BUCKET: None, NEXT: float(NEXT)},
        "ready:default": {
            entry: {
                "execution_id": f"job-0@{NOW}",
                "attempt": "1",
                "due_at": str(NOW),
                "target": '{"type":"worker"}',
                "payload": '{"n":1}',
            }
        },
        "ledger": [["fired", f"job-0@{NOW}", 1, NOW, "default"]],
    }


async def test_a_commit_sent_again_fires_nothing_more(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    proposed = group(EVERY_MINUTE, NOW, "job-0")
    await commit(any_store, shard, proposed)
    before = await read_shard(any_store, shard)
    assert await commit(any_store, shard, proposed) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("lost", ["token", "holder"])
async def test_a_fenced_holder_changes_nothing(any_store: Store, lost: str) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    token, holder = (token, "s2") if lost == "holder" else (str(int(token) - 1), "s1")
    with pytest.raises(Fenced):
        await fire_due(any_store, shard, token, holder, BUCKET, [group(EVERY_MINUTE, NOW, "job-0")])
    assert await read_shard(any_store, shard) == before


async def test_a_shard_that_never_had_a_lease_refuses_everybody(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    with pytest.raises(Fenced):
        await commit(any_store, shard, group(EVERY_MINUTE, NOW, "job-0"), token="1")
    assert await read_shard(any_store, shard) == before


async def test_a_job_paused_after_the_look_does_not_fire(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    await pause_job(any_store, "job-0", NOW)
    before = await read_shard(any_store, shard)
    done = await commit(any_store, shard, group(EVERY_MINUTE, NOW, "job-0"), token=token)
    assert done == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_a_job_deleted_after_the_look_does_not_fire(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    await delete_job(any_store, "job-0")
    before = await read_shard(any_store, shard)
    done = await commit(any_store, shard, group(EVERY_MINUTE, NOW, "job-0"), token=token)
    assert done == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize(
    ("plan", "next_run_at"),
    [
        pytest.param(EVERY_MINUTE, NOW + 1, id="another time in the same bucket"),
        pytest.param(EVERY_MINUTE, NOW + MINUTE, id="another time"),
        pytest.param(Plan.of(Every(2 * MINUTE)), NOW, id="another plan"),
    ],
)
async def test_a_job_replaced_after_the_look_keeps_its_new_time(
    any_store: Store, plan: Plan, next_run_at: int
) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    await delete_job(any_store, "job-0")
    await create_jobs(any_store, [registration("job-0", plan, next_run_at=next_run_at)])
    before = await read_shard(any_store, shard)
    done = await commit(any_store, shard, group(EVERY_MINUTE, NOW, "job-0"), token=token)
    assert done == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


async def test_a_member_that_its_job_does_not_know_is_cleared_away(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", next_run_at=NOW + MINUTE))
    token = await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    await any_store.client.zadd(shard.due(BUCKET), {MEMBER: NOW, f"{EVERY_MINUTE.id}|gone": NOW})
    await any_store.client.zadd(shard.buckets, {BUCKET: int(BUCKET)})
    done = await commit(any_store, shard, group(EVERY_MINUTE, NOW, "job-0", "gone"), token=token)
    assert done == Fired(stale=2)
    assert await read_shard(any_store, shard) == before


async def test_a_job_with_a_live_execution_is_skipped_for_overlap(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, NOW + MINUTE) == Fired(overlap=1)
    due_at, after = NOW + MINUTE, await read_shard(any_store, shard)
    changed = changes(before, after)
    assert changed["job:job-0"] == {"next_run_at": str(due_at + MINUTE)}
    record = [due_at, "skipped", due_at, 1, 1, "overlap"]
    assert changed["runs:job-0"] == [record]
    assert changed["ledger"] == [["skipped", "job-0", record]]
    assert "ready:default" not in changed


async def test_a_job_that_allows_overlap_fires_beside_its_live_execution(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.ALLOW))
    await fire(any_store, shard)
    assert await fire(any_store, shard, NOW + MINUTE) == Fired(fired=1)
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert job["live"] == "2"
    assert {f"x:{NOW}", f"x:{NOW + MINUTE}"} <= job.keys()


async def test_a_completed_execution_makes_way_for_the_next(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery)], NOW)
    assert await fire(any_store, shard, NOW + MINUTE) == Fired(fired=1)


async def test_a_one_off_is_completed_when_it_fires(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", ONE_OFF))
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard) == Fired(fired=1)
    changed = changes(before, await read_shard(any_store, shard))
    assert changed["job:job-0"].items() >= {"state": "completed", "next_run_at": ""}.items()
    assert changed[f"due:{BUCKET}"] == {f"{ONE_OFF.id}|job-0": None}
    assert changed["buckets"] == {BUCKET: None}


async def test_late_times_are_recorded_and_the_latest_fires(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, NOW + 5 * MINUTE + 7) == Fired(fired=1)
    changed = changes(before, await read_shard(any_store, shard))
    record = [NOW, "skipped", NOW + 4 * MINUTE, 5, 1, "late"]
    assert changed["runs:job-0"] == [record]
    nominal_at = NOW + 5 * MINUTE
    assert changed["ledger"] == [
        ["fired", f"job-0@{nominal_at}", 1, NOW, "default"],
        ["skipped", "job-0", record],
    ]
    assert changed["job:job-0"]["next_run_at"] == str(NOW + 6 * MINUTE)


async def test_a_plan_that_skips_what_is_late_fires_nothing(any_store: Store) -> None:
    plan = Plan.of(Every(MINUTE), Misfire("skip", grace_ms=0))
    shard = await seed(any_store, registration("job-0", plan))
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, NOW + MINUTE + 7) == Fired()
    changed = changes(before, await read_shard(any_store, shard))
    assert changed["runs:job-0"] == [[NOW, "skipped", NOW + MINUTE, 2, 1, "late"]]
    assert changed["job:job-0"] == {"next_run_at": str(NOW + 2 * MINUTE)}
    assert "ready:default" not in changed


async def test_a_next_time_in_the_same_minute_stays_in_the_bucket(any_store: Store) -> None:
    plan = Plan.of(Every(1_000))
    shard = await seed(any_store, registration("job-0", plan))
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard) == Fired(fired=1)
    changed = changes(before, await read_shard(any_store, shard))
    assert changed[f"due:{BUCKET}"] == {f"{plan.id}|job-0": NOW + 1_000}
    assert "buckets" not in changed


async def test_groups_of_one_bucket_go_their_own_ways(any_store: Store) -> None:
    ids = job_ids(any_store, 4)
    other = Plan.of(Every(5 * MINUTE))
    shard = await seed(
        any_store,
        registration(ids[0]),
        registration(ids[1]),
        registration(ids[2], next_run_at=NOW + 1),
        registration(ids[3], other),
    )
    assert await fire(any_store, shard, NOW + 1) == Fired(fired=4)
    after = await read_shard(any_store, shard)
    due = {
        member: at for key, z in after.items() if key.startswith("due:") for member, at in z.items()
    }
    assert due == {
        f"{EVERY_MINUTE.id}|{ids[0]}": NOW + MINUTE,
        f"{EVERY_MINUTE.id}|{ids[1]}": NOW + MINUTE,
        f"{EVERY_MINUTE.id}|{ids[2]}": NOW + 1 + MINUTE,
        f"{other.id}|{ids[3]}": NOW + 5 * MINUTE,
    }


async def test_a_whole_batch_fires_in_one_commit(any_store: Store) -> None:
    ids = job_ids(any_store, 1_000)
    shard = await seed(any_store, *(registration(job_id) for job_id in ids))
    done = await commit(any_store, shard, group(EVERY_MINUTE, NOW, *ids))
    assert done == Fired(fired=1_000)


async def test_a_nominal_time_that_is_live_already_is_not_fired_again(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    late = NOW + 2 * MINUTE
    assert await run_at_exactly(any_store, "job-0", late) == f"job-0@{late}".encode()
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, late) == Fired()
    changed = changes(before, await read_shard(any_store, shard))
    assert changed["job:job-0"] == {"next_run_at": str(late + MINUTE)}
    assert "ready:default" not in changed


async def test_an_immediate_plan_never_stands_in_the_index(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    assert AT_ONCE.first_after(NOW, NOW) is None
    assert "buckets" not in await read_shard(any_store, shard)
