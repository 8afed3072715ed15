"""redrive_letters: the dead get another attempt, under their id and as their job is now."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import changes, read_shard
from seeding import (
    MINUTE,
    NOW,
    ONE_OFF,
    at_once,
    fire,
    grant,
    job_ids,
    letter,
    registration,
    result,
    seed,
    start,
    take,
)

from engine.execution import Outcome
from engine.keys import Shard
from engine.model import HttpTarget, Rules
from engine.store import Store
from engine.store.changes import replace_job
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, delete_job, get_job
from engine.store.letters import Redriven, redrive_letters

EXECUTION = f"job-0@{NOW}"
DIED_AT = NOW + 600
REDRIVEN_AT = NOW + 2 * MINUTE + 5
BUCKET_THEN = str(REDRIVEN_AT // MINUTE)


async def die(store: Store, *ids: str) -> Shard:
    """Leave dead letters of jobs that ran once; return their shard."""
    for job_id in ids or ("job-0",):
        delivery = await start(store, job_id)
        await complete_executions(store, [result(delivery, Outcome.DEAD)], DIED_AT)
    return store.layout.shards[delivery.shard]


async def redrive(store: Store, *execution_ids: str) -> list[Redriven]:
    found = await redrive_letters(store, execution_ids or (EXECUTION,), REDRIVEN_AT)
    return list(found.values())


async def test_the_dead_get_another_attempt_and_their_count_goes_on(any_store: Store) -> None:
    shard = await die(any_store)
    before = await read_shard(any_store, shard)
    assert await redrive(any_store) == [Redriven.REDRIVEN]
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {f"x:{NOW}": f"due:2:{REDRIVEN_AT}:.1", "live": "1"},
        f"due:{BUCKET_THEN}": {EXECUTION: REDRIVEN_AT},
        "buckets": {BUCKET_THEN: float(BUCKET_THEN)},
        "dead": {EXECUTION: None},
        f"letter:{EXECUTION}": dict.fromkeys(before[f"letter:{EXECUTION}"]),
        "ledger": [["redriven", EXECUTION, 2]],
    }
    await fire(any_store, shard, REDRIVEN_AT)
    [delivery] = await take(any_store)
    assert (delivery.execution_id, delivery.attempt, delivery.base) == (EXECUTION, 2, 1)
    assert delivery.began_at is None


async def test_for_the_retry_policy_it_begins_anew_and_again_after_the_next_death(
    any_store: Store,
) -> None:
    shard = await die(any_store)
    for attempt in (2, 3):
        await redrive(any_store)
        await fire(any_store, shard, REDRIVEN_AT)
        [delivery] = await take(any_store)
        assert (delivery.attempt, delivery.base) == (attempt, attempt - 1)
        await complete_executions(any_store, [result(delivery, Outcome.DEAD)], DIED_AT + attempt)
    after = await read_shard(any_store, shard)
    assert after["dead"] == {EXECUTION: DIED_AT + 3}
    lines = [[NOW, "dead", attempt, 1, "w1", 500, 40] for attempt in (3, 2, 1)]
    assert after[f"letter:{EXECUTION}"] == letter(*lines, attempt=3)


async def test_its_expiry_is_over_and_it_runs_all_the_same(any_store: Store) -> None:
    shard = await seed(
        any_store, registration("job-0", ONE_OFF, rules=Rules(expires_after_ms=5_000))
    )
    await fire(any_store, shard)
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first, Outcome.DEAD)], DIED_AT)
    await redrive(any_store)
    await fire(any_store, shard, REDRIVEN_AT)
    [again] = await take(any_store)
    assert again.expires_at is None


async def test_it_runs_as_its_job_is_now(any_store: Store) -> None:
    shard = await die(any_store)
    edited = at_once("job-0", target=HttpTarget("https://new.test/"))
    await replace_job(any_store, await get_job(any_store, "job-0"), edited, DIED_AT)
    assert await redrive(any_store) == [Redriven.REDRIVEN]
    await fire(any_store, shard, REDRIVEN_AT)
    [delivery] = await take(any_store)
    assert delivery.target == b'{"type":"http","url":"https://new.test/"}'


async def test_it_waits_for_a_permit_as_others_do(any_store: Store) -> None:
    shard = await die(any_store)
    await grant(any_store, shard, {"slots:q/default": "0"})
    await redrive(any_store)
    assert (await fire(any_store, shard, REDRIVEN_AT)).held == 1
    after = await read_shard(any_store, shard)
    assert after["due:@"] == {EXECUTION: "@q/default"}
    assert after["job:job-0"][f"x:{NOW}"] == f"due:2:{REDRIVEN_AT}:.1"


async def test_many_are_redriven_in_one_call_and_each_has_its_answer(any_store: Store) -> None:
    ids = job_ids(any_store, 3)
    shard = await die(any_store, *ids)
    await delete_job(any_store, ids[1])
    asked = [f"{job_id}@{NOW}" for job_id in ids]
    answers = [Redriven.REDRIVEN, Redriven.NO_JOB, Redriven.REDRIVEN]
    assert await redrive(any_store, *asked) == answers
    after = await read_shard(any_store, shard)
    assert after["dead"] == {asked[1]: DIED_AT}
    assert after[f"due:{BUCKET_THEN}"] == dict.fromkeys(asked[::2], REDRIVEN_AT)


async def test_one_that_is_named_twice_starts_once(any_store: Store) -> None:
    shard = await die(any_store)
    keys = [shard.dead, shard.buckets, shard.ledger]
    args: list[str | bytes | int] = [REDRIVEN_AT, shard.job_prefix, shard.due_prefix]
    args += [shard.letter_prefix, 1_000, EXECUTION, EXECUTION]
    reply = await any_store.scripts.run("redrive_letters", keys, args)
    assert reply == [b"redriven", b"gone"]
    after = await read_shard(any_store, shard)
    assert after["job:job-0"]["live"] == "1"
    assert after["ledger"].count(["redriven", EXECUTION, 2]) == 1


async def test_redriving_again_changes_nothing(any_store: Store) -> None:
    shard = await die(any_store)
    await redrive(any_store)
    before = await read_shard(any_store, shard)
    assert await redrive(any_store) == [Redriven.GONE]
    assert await read_shard(any_store, shard) == before


async def test_an_execution_that_never_died_is_gone(any_store: Store) -> None:
    shard = await die(any_store)
    before = await read_shard(any_store, shard)
    asked = [f"job-0@{NOW + 1}", f"nobody@{NOW}"]
    assert await redrive(any_store, *asked) == [Redriven.GONE] * 2
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_of_a_job_that_is_gone_nothing_is_redriven(
    any_store: Store, is_made_again: bool
) -> None:
    """Another job of the same id does not run what died of the first."""
    shard = await die(any_store)
    await delete_job(any_store, "job-0")
    if is_made_again:
        made = registration("job-0")
        await create_jobs(any_store, [replace(made, job=replace(made.job, created_at=NOW + 1))])
    before = await read_shard(any_store, shard)
    assert await redrive(any_store) == [Redriven.NO_JOB]
    assert await read_shard(any_store, shard) == before


async def test_one_that_is_live_again_stays_dead_and_live(any_store: Store) -> None:
    """No script leads there: a letter that a failover brought back is not run beside its life."""
    shard = await die(any_store)
    dead = await any_store.client.hgetall(shard.letter(EXECUTION))
    await redrive(any_store)
    await any_store.client.hset(shard.letter(EXECUTION), mapping=dead)
    await any_store.client.zadd(shard.dead, {EXECUTION: DIED_AT})
    before = await read_shard(any_store, shard)
    assert await redrive(any_store) == [Redriven.LIVE]
    assert await read_shard(any_store, shard) == before
    await any_store.client.delete(shard.letter(EXECUTION), shard.dead)
