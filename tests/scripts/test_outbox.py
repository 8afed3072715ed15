"""The outbox: which ends of executions are told to dependent jobs, whichever script makes them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from filling import advance, begin, ended, order, write_history
from invariants import read_shard
from linking import make, outbox_of
from seeding import LAPSES_AT, MINUTE, NOW, fire, registration, result, seed, start, take

from engine.codec import Promise
from engine.execution import Outcome
from engine.model import Overlap
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.executions import Answer, complete_executions, reclaim_executions
from engine.store.letters import redrive_letters
from engine.store.reports import report_end

OWN = f"job-0@{NOW}"


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.SUCCEEDED, [("job-0", "succeeded", "")]),
        (Outcome.DEAD, [("job-0", "dead", OWN)]),
        (Outcome.SKIPPED, [("job-0", "skipped", OWN)]),
        (Outcome.FAILED, []),
        (Outcome.ACCEPTED, []),
    ],
)
@pytest.mark.parametrize("has_dependents", [True, False])
async def test_what_a_completion_tells(
    any_store: Store, outcome: Outcome, told: list[object], has_dependents: bool
) -> None:
    delivery = await start(any_store, "job-0")
    if has_dependents:
        await make(any_store, {"z": "job-0"})
    retry_at = NOW + MINUTE if outcome is Outcome.FAILED else None
    end = result(delivery, outcome, retry_at)
    for answer in (Answer.DONE, Answer.ALREADY):
        assert await complete_executions(any_store, [end], NOW) == [answer]
        assert await outbox_of(any_store, "job-0") == told * has_dependents


async def test_an_entry_holds_all_that_a_dependent_gets(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await make(any_store, {"z": "job-0"})
    end = replace(result(delivery), gave=b'{"n":[1]}')
    await complete_executions(any_store, [end], NOW)
    shard = any_store.layout.shards[delivery.shard]
    [entry] = (await read_shard(any_store, shard))["outbox"].values()
    assert entry == {
        "job": "job-0",
        "time": str(NOW),
        "outcome": "succeeded",
        "cause": "",
        "result": '{"n":[1]}',
        "again": "",
    }


async def test_a_report_of_the_end_is_told(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await make(any_store, {"z": "job-0"})
    await complete_executions(any_store, [result(delivery, Outcome.ACCEPTED)], NOW)
    promise = Promise(OWN, 1, NOW + 500, LAPSES_AT)
    await report_end(any_store, promise, NOW + 2_000, succeeded=True, rng=Random(1))
    assert await outbox_of(any_store, "job-0") == [("job-0", "succeeded", "")]


async def test_poison_is_told_as_a_death(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await make(any_store, {"z": "job-0"})
    shard = any_store.layout.shards[delivery.shard]
    config = any_store.config.model_copy(update={"max_deliveries": 1, "execution_lease_ms": 0})
    store = replace(any_store, config=config)
    found = await reclaim_executions(store, "default", shard, "w2", NOW)
    assert found.poisoned == 1
    assert await outbox_of(any_store, "job-0") == [("job-0", "dead", OWN)]


async def test_cancelling_tells_of_what_is_live_and_of_what_waits(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.QUEUE_ALL))
    await make(any_store, {"z": "job-0"})
    for n in range(2):
        await fire(any_store, shard, NOW + n * MINUTE)
    assert len(await cancel_executions(any_store, "job-0", NOW + MINUTE)) == 2
    assert sorted(await outbox_of(any_store, "job-0")) == [
        ("job-0", "cancelled", OWN),
        ("job-0", "cancelled", f"job-0@{NOW + MINUTE}"),
    ]


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_what_was_redriven_is_told_as_ended_before(
    any_store: Store, is_cancelled: bool
) -> None:
    delivery = await start(any_store, "job-0")
    await make(any_store, {"z": "job-0"})
    shard = any_store.layout.shards[delivery.shard]
    await complete_executions(any_store, [result(delivery, Outcome.DEAD)], NOW)
    await redrive_letters(any_store, [OWN], NOW)
    if is_cancelled:
        await cancel_executions(any_store, "job-0", NOW)
    else:
        await fire(any_store, shard)
        # A retry of it is as much the one that had ended as its first attempt.
        [delivery] = await take(any_store)
        failed = result(delivery, Outcome.FAILED, NOW)
        await complete_executions(any_store, [failed], NOW)
        await fire(any_store, shard)
        [delivery] = await take(any_store)
        await complete_executions(any_store, [result(delivery)], NOW)
    entries = (await read_shard(any_store, shard))["outbox"].values()
    assert [entry["again"] for entry in entries] == ["", "1"]


async def test_a_backfill_tells_of_new_times_and_of_those_that_it_runs_anew(
    any_store: Store,
) -> None:
    shard = await begin(any_store, order(-3, -2, "all"))
    await make(any_store, {"z": "job-0"})
    await write_history(any_store, shard, ended(-2))
    for _ in range(2):
        assert await advance(any_store, shard) == 1
        [delivery] = await take(any_store)
        await complete_executions(any_store, [result(delivery)], NOW)
    entries = (await read_shard(any_store, shard))["outbox"].values()
    assert [(int(e["time"]) - NOW, e["again"]) for e in entries] == [
        (-3 * MINUTE, ""),
        (-2 * MINUTE, "1"),
    ]
