"""discard_letters: a letter goes while it is the one that was seen; histories stay."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import NOW, fire, job_ids, result, start, take

from engine.execution import Outcome
from engine.keys import Shard
from engine.store import Store
from engine.store.executions import complete_executions
from engine.store.letters import discard_letters, redrive_letters

DIED_AT = NOW + 600
EXECUTION = f"job-0@{NOW}"


async def die(store: Store, *ids: str) -> Shard:
    """Leave dead letters of jobs that ran once; return their shard."""
    for job_id in ids:
        delivery = await start(store, job_id)
        await complete_executions(store, [result(delivery, Outcome.DEAD)], DIED_AT)
    return store.layout.shards[delivery.shard]


async def test_a_letter_goes_and_the_ledger_says_who_wanted_that(any_store: Store) -> None:
    shard = await die(any_store, "job-0")
    before = await read_shard(any_store, shard)
    assert await discard_letters(any_store, [(DIED_AT, EXECUTION)], by="ana") == 1
    assert changes(before, await read_shard(any_store, shard)) == {
        "dead": {EXECUTION: None},
        f"letter:{EXECUTION}": dict.fromkeys(before[f"letter:{EXECUTION}"]),
        "ledger": [["discarded", EXECUTION, "ana"]],
    }


async def test_only_those_that_are_named_go(any_store: Store) -> None:
    ids = job_ids(any_store, 3)
    shard = await die(any_store, *ids)
    places = [(DIED_AT, f"{job_id}@{NOW}") for job_id in ids[:2]]
    assert await discard_letters(any_store, places, by="ana") == 2
    after = await read_shard(any_store, shard)
    assert after["dead"] == {f"{ids[2]}@{NOW}": DIED_AT}


async def test_one_that_is_named_twice_counts_once(any_store: Store) -> None:
    shard = await die(any_store, "job-0")
    args: list[str | bytes | int] = [shard.letter_prefix, shard.inputs_prefix, 1_000, "ana"]
    args += (EXECUTION, DIED_AT) * 2
    keys = [shard.dead, shard.ledger]
    assert await any_store.scripts.run("discard_letters", keys, args) == 1
    after = await read_shard(any_store, shard)
    assert after["ledger"].count(["discarded", EXECUTION, "ana"]) == 1


async def test_one_that_died_again_is_another(any_store: Store) -> None:
    shard = await die(any_store, "job-0")
    await redrive_letters(any_store, [EXECUTION], NOW)
    await fire(any_store, shard)
    [again] = await take(any_store)
    await complete_executions(any_store, [result(again, Outcome.DEAD)], DIED_AT + 1)
    before = await read_shard(any_store, shard)
    assert await discard_letters(any_store, [(DIED_AT, EXECUTION)], by="ana") == 0
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("place", [(DIED_AT, f"job-0@{NOW + 1}"), (DIED_AT - 1, EXECUTION)])
async def test_a_letter_that_is_not_there_changes_nothing(
    any_store: Store, place: tuple[int, str]
) -> None:
    shard = await die(any_store, "job-0")
    before = await read_shard(any_store, shard)
    assert await discard_letters(any_store, [place], by="ana") == 0
    assert await read_shard(any_store, shard) == before


async def test_what_upstream_jobs_gave_goes_with_the_letter(any_store: Store) -> None:
    shard = await die(any_store, "job-0")
    await any_store.client.hset(shard.inputs("job-0"), mapping={NOW: "1", NOW + 1: "2"})
    assert await discard_letters(any_store, [(DIED_AT, EXECUTION)], by="ana") == 1
    assert (await read_shard(any_store, shard))["inputs:job-0"] == {str(NOW + 1): "2"}
    await any_store.client.delete(shard.inputs("job-0"))
