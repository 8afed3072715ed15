"""create_jobs: a job is registered whole, once, and never in another's place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

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
    job_ids,
    registration,
    result,
    seed,
    small,
    start,
)

from engine.backoff import Retry
from engine.depends import Depends, Join, Match, Upstream
from engine.errors import Conflict
from engine.execution import LiveExecution
from engine.keys import Layout, Shard
from engine.model import HttpTarget, JobState, Overlap, Rules
from engine.names import Priority
from engine.plan import Plan
from engine.registration import BORN_PAUSED, Registration
from engine.store import Store
from engine.store.changes import pause_job, resume_job
from engine.store.creating import MOST_AT_ONCE, new_jobs, store_new
from engine.store.dependencies import link_job
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, get_job, run_job
from engine.store.registering import register_job

IMMEDIATE = registration("job-0", AT_ONCE, next_run_at=None, run_at=NOW)

HASH = {
    "state": "active",
    "plan": EVERY_MINUTE.id,
    "next_run_at": str(NOW),
    "live": "0",
    "queue": "default",
    "overlap": "skip",
    "target": '{"type":"worker"}',
    "payload": '{"n":1}',
    "retry": "",
    "definition": f'[{NOW},0,null,"UTC"]',
}


async def create(store: Store, *registrations: Registration) -> tuple[list[int], Keyspace]:
    """Return the answers, and what the shard of the first then holds."""
    created = await create_jobs(store, registrations)
    return created, await read_shard(store, store.layout.shard_of(registrations[0].job.id))


async def test_a_job_with_times_stands_in_the_index(any_store: Store) -> None:
    created, after = await create(any_store, registration("job-0"))
    assert created == [True]
    assert after == {
        "job:job-0": HASH,
        "jobs": {"job-0": 0.0},
        "plans": {EVERY_MINUTE.id: '{"interval_ms":60000,"kind":"every"}'},
        f"due:{BUCKET}": {f"{EVERY_MINUTE.id}|job-0": NOW},
        "buckets": {BUCKET: float(BUCKET)},
        "ledger": [["created", "job-0"]],
    }


async def test_a_job_without_times_starts_at_once_and_is_completed(any_store: Store) -> None:
    _, after = await create(any_store, IMMEDIATE)
    [(entry, fields)] = after["ready:default"].items()
    assert after == {
        "job:job-0": HASH
        | {
            "state": "completed",
            "plan": AT_ONCE.id,
            "next_run_at": "",
            f"x:{NOW}": f"ready:1:{entry}",
            "live": "1",
        },
        "jobs": {"job-0": 0.0},
        "plans": {AT_ONCE.id: '{"kind":"immediate"}'},
        "ready:default": {entry: fields},
        "ledger": [["created", "job-0"], ["fired", f"job-0@{NOW}", 1, NOW, "default"]],
    }
    assert fields == {
        "execution_id": f"job-0@{NOW}",
        "attempt": "1",
        "due_at": str(NOW),
        "target": '{"type":"worker"}',
        "payload": '{"n":1}',
    }


async def test_what_was_stored_reads_back_as_it_was(any_store: Store) -> None:
    wanted = registration("job-0")
    await create(any_store, wanted)
    stored = await get_job(any_store, "job-0")
    assert (stored.job, stored.plan, stored.live) == (wanted.job, EVERY_MINUTE, [])


async def test_an_id_that_exists_is_left_as_it_is(any_store: Store) -> None:
    _, before = await create(any_store, registration("job-0"))
    created, after = await create(
        any_store, registration("job-0", ONE_OFF, next_run_at=NOW + 5, queue="other", run_at=NOW)
    )
    assert created == [False]
    assert after == before


async def test_a_job_that_others_wait_for_already_knows_it(any_store: Store) -> None:
    one, two, three = job_ids(any_store, 3)
    waiting = registration(two, AT_ONCE, next_run_at=None)
    depends = Depends((Upstream(one),), Join.ALL, Match.SAME_TIME)
    waiting = replace(waiting, job=replace(waiting.job, depends=depends, state=JobState.ACTIVE))
    assert await register_job(any_store, waiting, allow_missing=True)
    _, after = await create(any_store, registration(one), registration(three))
    assert after[f"job:{one}"] == HASH | {"dependents": "1", "rules": "1"}
    assert after[f"job:{three}"] == HASH


async def test_of_two_with_one_id_in_a_batch_the_first_counts(any_store: Store) -> None:
    created, after = await create(
        any_store, registration("job-0"), registration("job-0", next_run_at=NOW + 5)
    )
    assert created == [True, False]
    assert after["job:job-0"] == HASH
    assert after["ledger"] == [["created", "job-0"]]


async def test_a_batch_goes_over_shards_and_answers_in_its_order(any_store: Store) -> None:
    await create_jobs(any_store, [registration("job-3")])
    ids = [f"job-{n}" for n in range(8)]
    assert len({any_store.layout.shard_of(job_id) for job_id in ids}) > 1
    created = await create_jobs(any_store, [registration(job_id) for job_id in ids])
    assert created == [job_id != "job-3" for job_id in ids]


async def test_a_large_batch_goes_in_calls_that_are_bounded(store: Store) -> None:
    await store.client.config_resetstat()
    ids = job_ids(store, 1_000)
    created = await create_jobs(store, [registration(job_id) for job_id in ids])
    assert created == [True] * 1_000
    stats = (await store.client.info("commandstats"))["cmdstat_evalsha"]
    assert stats["calls"] - stats["failed_calls"] == 1_000 // MOST_AT_ONCE


async def test_an_id_counts_once_over_all_calls_of_a_batch(any_store: Store) -> None:
    ids = job_ids(any_store, MOST_AT_ONCE + 50)
    created = await create_jobs(any_store, [registration(job_id) for job_id in [*ids, *ids]])
    assert created == [True] * len(ids) + [False] * len(ids)


async def test_jobs_that_look_alike_are_sent_with_one_shape(store: Store) -> None:
    alike = [registration(f"job-{n}") for n in range(3)]
    alike = [replace(one, job=replace(one.job, target=alike[0].job.target)) for one in alike]
    policies: dict[str, Any] = {"retry": alike[0].job.retry, "rules": alike[0].job.rules}
    alike = [replace(one, job=replace(one.job, **policies)) for one in alike]
    other = replace(alike[0], job=replace(alike[0].job, id="job-3", queue="other"))
    found = new_jobs([*alike, other])
    assert [job.shape is found[0].shape for job in found] == [True, True, True, False]
    assert await create_jobs(store, [*alike, other]) == [True] * 4
    stored = [await get_job(store, f"job-{n}") for n in range(4)]
    assert [one.job for one in stored] == [one.job for one in (*alike, other)]


DIFFERENCES: list[dict[str, Any]] = [
    {"queue": "other"},
    {"priority": Priority.HIGH},
    {"group": "a"},
    {"tags": ("a",)},
    {"overlap": Overlap.ALLOW},
    {"rules": Rules(max_runs=3), "runs_left": 3},
    {"rules": Rules(expires_after_ms=5)},
    {"retry": Retry(max_attempts=9)},
    {"target": HttpTarget("https://example.com")},
    {"created_at": NOW - 1},
    {"anchor_at": NOW - 1},
    {"schedule_expr": "every 1m"},
    {"timezone": "Asia/Tokyo"},
    {"dialect": "interval"},
    {"depends": Depends((Upstream("x"),), Join.ALL, Match.SAME_TIME)},
    {"next_run_at": NOW + MINUTE},
    {"payload": b"7"},
    {"state": JobState.PAUSED, "pause_note": {"by": "api", "at": NOW, "note": BORN_PAUSED}},
]


@pytest.mark.parametrize("different", DIFFERENCES, ids=range(len(DIFFERENCES)))
async def test_what_jobs_differ_in_stays_with_each(store: Store, different: dict[str, Any]) -> None:
    one, two = job_ids(store, 2)
    usual = registration(one)
    other = replace(usual, job=replace(usual.job, id=two, **different))
    if other.job.depends:
        await link_job(store, two, other.job.depends, allow_missing=True)
    assert await create_jobs(store, [usual, other]) == [True, True]
    assert (await get_job(store, one)).job == usual.job
    assert (await get_job(store, two)).job == other.job


async def test_one_refused_shard_is_told_for_its_jobs_alone(store: Store) -> None:
    bad = store.layout.shard_of("job-0")
    ids = [f"job-{n}" for n in range(8)]
    await store.client.hset(bad.plans, EVERY_MINUTE.id, '{"kind":"other"}')
    answers = await store_new(store, new_jobs([registration(job_id) for job_id in ids]))
    for job_id, answer in zip(ids, answers, strict=True):
        if store.layout.shard_of(job_id) is bad:
            assert isinstance(answer, Conflict)
        else:
            assert answer == 1
    await store.client.delete(bad.plans)


@pytest.mark.parametrize(
    ("noted", "answer", "ran_at"),
    [(NOW - 1, 1, NOW), (NOW, NOW + 1, NOW + 1), (NOW + 5, NOW + 6, NOW + 6)],
)
async def test_what_starts_at_once_is_later_than_what_deleted_jobs_left(
    any_store: Store, noted: int, answer: int, ran_at: int
) -> None:
    shard = any_store.layout.shard_of("job-0")
    await any_store.client.set(shard.ran_at, noted)
    created, after = await create(any_store, IMMEDIATE)
    assert created == [answer]
    job = after["job:job-0"]
    assert [name for name in job if name.startswith("x:")] == [f"x:{ran_at}"]
    [entry] = after["ready:default"].values()
    assert (entry["execution_id"], entry["due_at"]) == (f"job-0@{ran_at}", str(ran_at))
    assert job["ran_at"] == str(ran_at)
    assert after["ledger"][-1] == ["fired", f"job-0@{ran_at}", 1, ran_at, "default"]


async def test_what_is_run_by_hand_is_later_than_what_deleted_jobs_left(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    await any_store.client.set(shard.ran_at, NOW + 5)
    created, _ = await create(any_store, registration("job-0"))
    assert created == [1]
    assert await run_job(any_store, "job-0", NOW) == f"job-0@{NOW + 6}"


async def test_a_plan_id_that_stands_for_another_plan_is_refused(any_store: Store) -> None:
    shard: Shard = any_store.layout.shard_of("job-0")
    await any_store.client.hset(shard.plans, EVERY_MINUTE.id, '{"kind":"other"}')
    before = await read_shard(any_store, shard)
    with pytest.raises(Conflict, match=EVERY_MINUTE.id):
        await create_jobs(any_store, [IMMEDIATE, registration(job_ids(any_store, 2)[1])])
    assert await read_shard(any_store, shard) == before


async def test_an_execution_without_room_in_its_queue_waits_in_the_index(
    any_store: Store,
) -> None:
    store = small(any_store, max_ready=1)
    first = await start(store, "job-0")
    job_id = job_ids(store, 2)[1]
    shard = store.layout.shard_of(job_id)
    before = await read_shard(store, shard)
    await seed(store, registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW))
    changed = changes(before, await read_shard(store, shard))
    assert changed[f"job:{job_id}"].items() >= {f"x:{NOW}": f"due:1:{NOW}", "live": "1"}.items()
    assert changed["due:@default"] == {f"{job_id}@{NOW}": NOW}
    assert changed["buckets"] == {"@default": float("inf")}
    assert changed["ledger"] == [["created", job_id]]
    assert "ready:default" not in changed

    await complete_executions(store, [result(first)], NOW)
    before = await read_shard(store, shard)
    assert await fire(store, shard) == Fired(fired=1)
    changed = changes(before, await read_shard(store, shard))
    assert changed["ledger"] == [["fired", f"{job_id}@{NOW}", 1, NOW, "default"]]


async def test_a_batch_takes_no_more_room_than_there_is(any_store: Store) -> None:
    store = small(any_store, max_ready=2)
    ids = job_ids(store, 5)
    shard = await seed(
        store, *(registration(i, AT_ONCE, next_run_at=None, run_at=NOW) for i in ids)
    )
    after = await read_shard(store, shard)
    assert (len(after["ready:default"]), len(after["due:@default"])) == (2, 3)


async def test_a_payload_of_any_bytes_comes_back_as_it_went(any_store: Store) -> None:
    payload = bytes(range(256))
    job = replace(IMMEDIATE.job, payload=payload)
    await create_jobs(any_store, [replace(IMMEDIATE, job=job)])
    stored = await get_job(any_store, "job-0")
    assert stored.job.payload == payload
    assert stored.job.state is JobState.COMPLETED
    [live] = stored.live
    ready = any_store.layout.shard_of("job-0").ready("default")
    [(_, fields)] = await any_store.client.xrange(ready)
    assert fields[b"payload"] == payload
    assert live == LiveExecution(NOW, 1, entry_id=live.entry_id)


async def test_every_shard_keeps_the_plans_of_its_own_jobs(any_store: Store) -> None:
    layout: Layout = any_store.layout
    await create_jobs(any_store, [registration(f"job-{n}") for n in range(8)])
    for shard in {layout.shard_of(f"job-{n}") for n in range(8)}:
        stored = await any_store.client.hget(shard.plans, EVERY_MINUTE.id)
        assert Plan.from_canonical(stored) == EVERY_MINUTE


def paused(job_id: str, **more: Any) -> Registration:
    made = registration(job_id, **more)
    note = {"by": "api", "at": NOW, "note": BORN_PAUSED}
    return replace(made, job=replace(made.job, state=JobState.PAUSED, pause_note=note))


async def test_a_job_that_begins_paused_keeps_its_time_and_is_not_in_the_index(
    any_store: Store,
) -> None:
    [born, other, plain] = job_ids(any_store, 3)
    wanted = paused(born)
    _, after = await create(any_store, wanted, registration(plain))
    note = {"by": "api", "at": NOW, "note": BORN_PAUSED}
    assert json.loads(after[f"job:{born}"].pop("pause_note")) == note
    assert after[f"job:{born}"] == HASH | {"state": "paused"}
    assert after[f"due:{BUCKET}"] == {f"{EVERY_MINUTE.id}|{plain}": NOW}
    assert after["ledger"] == [["created", born], ["paused", born, note], ["created", plain]]
    assert (await get_job(any_store, born)).job == wanted.job

    await pause_job(any_store, plain, NOW, note=BORN_PAUSED)
    paused_later = await read_shard(any_store, any_store.layout.shard_of(born))
    assert paused_later[f"job:{plain}"].keys() - {"pause_note"} == after[f"job:{born}"].keys()
    await create(any_store, paused(other))
    assert await fire(any_store, any_store.layout.shard_of(born)) == Fired()


async def test_a_job_that_began_paused_is_resumed_like_any_other(any_store: Store) -> None:
    await create(any_store, paused("job-0"))
    await resume_job(any_store, "job-0", NOW - 1)
    after = await read_shard(any_store, any_store.layout.shard_of("job-0"))
    assert after[f"due:{BUCKET}"] == {f"{EVERY_MINUTE.id}|job-0": NOW}
    assert "pause_note" not in after["job:job-0"]
