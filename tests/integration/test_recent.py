"""Executions over all jobs: found by their traces, shown as they stand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from burying import bury
from seeding import (
    MINUTE,
    NOW,
    at_once,
    fire,
    job_ids,
    registration,
    result,
    seed,
    small,
    take,
)

from engine.execution import ExecutionState, Outcome
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.executions import complete_executions
from engine.store.history import Execution
from engine.store.jobs import delete_job
from engine.store.recent import Asked, Place, find_recent

QUEUES = ["default", "mail"]
ALL = Asked()


async def found(
    store: Store, asked: Asked = ALL, queues: Sequence[str] = QUEUES, limit: int = 100
) -> list[Execution]:
    executions, following = await find_recent(store, asked, queues, limit=limit)
    assert following is None
    return executions


def told(executions: Sequence[Execution]) -> list[tuple[str, str]]:
    return [(e.job_id, e.state.value) for e in executions]


async def lose_the_ledger(store: Store) -> None:
    """Have nothing but what is live and dead leave traces."""
    for shard in store.layout.shards:
        await store.client.delete(shard.ledger)


async def run_all_kinds(store: Store) -> list[str]:
    """Have an execution in each state, each of a job of its own; return the jobs in the order of
    the states."""
    ids = sorted(job_ids(store, 7))
    for at, job_id in enumerate(ids[:6]):
        await seed(store, registration(job_id, next_run_at=NOW + at, queue="default"))
    await seed(store, registration(ids[6], next_run_at=NOW - 9 * MINUTE))
    shard = store.layout.shard_of(ids[0])
    await fire(store, shard, NOW + 5)
    deliveries = {d.job_id: d for d in await take(store)}
    ends = {
        ids[2]: (Outcome.FAILED, NOW + MINUTE),
        ids[3]: (Outcome.SUCCEEDED, None),
        ids[4]: (Outcome.DEAD, None),
    }
    for job_id, (outcome, retry_at) in ends.items():
        await complete_executions(store, [result(deliveries[job_id], outcome, retry_at)], NOW)
    await cancel_executions(store, ids[5], NOW)
    return ids


async def test_every_state_is_found(store: Store) -> None:
    ids = await run_all_kinds(store)
    states = {e.job_id: e.state.value for e in await found(store) if not e.skipped}
    assert states == {
        ids[0]: "running",
        ids[1]: "running",
        ids[2]: "retrying",
        ids[3]: "succeeded",
        ids[4]: "dead",
        ids[5]: "cancelled",
        ids[6]: "running",
    }
    by_job = {e.job_id: e for e in await found(store) if not e.skipped}
    assert by_job[ids[0]].worker == "w1"
    assert by_job[ids[2]].retry_at == NOW + MINUTE
    assert [record.outcome for record in by_job[ids[4]].attempts] == [Outcome.DEAD]


async def test_times_that_were_skipped_are_found_with_their_reason(store: Store) -> None:
    ids = await run_all_kinds(store)
    [skipped] = await found(store, Asked(frozenset({ExecutionState.SKIPPED})))
    assert skipped.job_id == ids[6]
    assert skipped.skipped is not None
    assert (skipped.skipped.reason, skipped.skipped.count) == ("late", 9)


@pytest.mark.parametrize("state", ["waiting", "running", "retrying", "dead", "succeeded"])
async def test_a_filter_keeps_one_state(store: Store, state: str) -> None:
    await run_all_kinds(store)
    await seed(store, at_once("waits", queue="mail"))
    wanted = ExecutionState(state)
    states = [e.state for e in await found(store, Asked(frozenset({wanted})))]
    assert states
    assert set(states) == {wanted}


async def test_what_is_live_or_dead_is_found_without_the_ledger(store: Store) -> None:
    ids = await run_all_kinds(store)
    await seed(store, at_once("waits", queue="mail"))
    await lose_the_ledger(store)
    assert {e.job_id: e.state.value for e in await found(store)} == {
        "waits": "waiting",
        ids[0]: "running",
        ids[1]: "running",
        ids[2]: "retrying",
        ids[4]: "dead",
        ids[6]: "running",
    }


async def test_what_waits_for_room_is_found(store: Store) -> None:
    tight = small(store, max_ready=1)
    ids = job_ids(store, 3)
    for job_id in ids:
        await seed(tight, at_once(job_id))
    await lose_the_ledger(store)
    assert sorted(told(await found(store))) == sorted((job_id, "waiting") for job_id in ids)


async def test_they_come_by_nominal_time_and_only_those_of_the_range(store: Store) -> None:
    ids = sorted(job_ids(store, 4))
    for at, job_id in enumerate(ids):
        await seed(store, registration(job_id, next_run_at=NOW + at))
    await fire(store, store.layout.shard_of(ids[0]), NOW + 3)
    assert [e.nominal_at for e in await found(store)] == [NOW + 3, NOW + 2, NOW + 1, NOW]
    ranged = Asked(from_at=NOW + 1, until_at=NOW + 3)
    assert [e.nominal_at for e in await found(store, ranged)] == [NOW + 2, NOW + 1]


async def test_queue_and_group_are_those_of_the_job(store: Store) -> None:
    first, second, third = job_ids(store, 3)
    await seed(
        store,
        at_once(first, queue="mail"),
        at_once(second, queue="mail", group="acme"),
        at_once(third, group="acme"),
    )
    assert {e.job_id for e in await found(store, Asked(queue="mail"))} == {first, second}
    acme = Asked(sees=lambda group: group == "acme")
    assert {e.job_id for e in await found(store, acme)} == {second, third}
    both = Asked(queue="mail", sees=lambda group: group == "acme")
    assert {e.job_id for e in await found(store, both)} == {second}


async def test_pages_lead_through_all_once(store: Store) -> None:
    ids = job_ids(store, 7)
    for job_id in ids:
        await seed(store, at_once(job_id))
    seen: list[str] = []
    after: Place | None = None
    for size in (3, 3, 1):
        page, after = await find_recent(store, ALL, QUEUES, after=after, limit=3)
        assert len(page) == size
        seen += [e.job_id for e in page]
    assert after is None
    assert sorted(seen) == sorted(ids)


async def test_a_page_that_is_just_full_is_the_last_one(store: Store) -> None:
    for job_id in job_ids(store, 3):
        await seed(store, at_once(job_id))
    page, after = await find_recent(store, ALL, QUEUES, limit=3)
    assert (len(page), after) == (3, None)


async def test_one_call_looks_at_a_bounded_number(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.recent.LOOK_LIMIT", 4)
    ids = sorted(job_ids(store, 6), reverse=True)
    await seed(store, *(at_once(job_id) for job_id in ids[:5]), at_once(ids[5], queue="mail"))
    asked = Asked(queue="mail")
    page, after = await find_recent(store, asked, QUEUES)
    assert (page, after) == ([], (NOW, 0, ids[3]))
    page, after = await find_recent(store, asked, QUEUES, after=after)
    assert told(page) == [(ids[5], "waiting")]
    assert after is None


async def test_a_deleted_job_leaves_its_letter_to_those_who_see_all(store: Store) -> None:
    await bury(store, "gone")
    await delete_job(store, "gone")
    [execution] = await found(store)
    assert told([execution]) == [("gone", "dead")]
    assert len(execution.attempts) == 1
    assert await found(store, Asked(sees=lambda group: group == "acme")) == []
    assert await found(store, Asked(queue="mail")) == []
