"""rerun_execution: what has ended runs again, with its next attempt."""

from __future__ import annotations

from typing import Any

import pytest
from invariants import changes, read_shard
from linking import make, outbox_of
from seeding import BUCKET, MINUTE, NOW, fire, registration, result, seed, start, take

from engine.errors import NotFound, WrongState
from engine.execution import Outcome
from engine.store import Store
from engine.store.executions import complete_executions

AGAIN_AT = NOW + 2 * MINUTE
EXECUTION = f"job-0@{NOW}"


async def rerun(store: Store, job_id: str = "job-0", attempt: int = 2) -> None:
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.dead, shard.letter(f"{job_id}@{NOW}")]
    keys += [shard.buckets, shard.ledger]
    args: list[str | int] = [job_id, NOW, attempt, AGAIN_AT, shard.due_prefix, 1_000]
    await store.scripts.run("rerun_execution", keys, args)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.DEAD])
async def test_it_is_due_at_once_and_begins_anew_for_the_retry_policy(
    any_store: Store, outcome: Outcome
) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    await complete_executions(any_store, [result(delivery, outcome)], NOW)
    before = await read_shard(any_store, shard)
    await rerun(any_store)
    bucket = str(AGAIN_AT // MINUTE)
    wanted: dict[str, Any] = {
        "job:job-0": {f"x:{NOW}": f"due:2:{AGAIN_AT}:.1", "live": "1"},
        "buckets": {bucket: float(bucket)},
        f"due:{bucket}": {EXECUTION: float(AGAIN_AT)},
        "ledger": [["rerun", EXECUTION, 2]],
    }
    if outcome is Outcome.DEAD:
        wanted["dead"] = {EXECUTION: None}
        letter = f"letter:{EXECUTION}"
        wanted[letter] = dict.fromkeys(before[letter])
    assert changes(before, await read_shard(any_store, shard)) == wanted
    await fire(any_store, shard, AGAIN_AT)
    [again] = await take(any_store)
    assert (again.execution_id, again.attempt, again.base) == (EXECUTION, 2, 1)


async def test_its_end_is_told_as_that_of_one_that_ended_before(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await make(any_store, {"z": "job-0"})
    shard = any_store.layout.shards[delivery.shard]
    await complete_executions(any_store, [result(delivery)], NOW)
    await rerun(any_store)
    await fire(any_store, shard, AGAIN_AT)
    await complete_executions(any_store, [result(d) for d in await take(any_store)], NOW)
    assert await outbox_of(any_store, "job-0") == [("job-0", "succeeded", "")] * 2
    entries = await any_store.client.xrange(shard.outbox)
    assert [fields[b"again"] for _, fields in entries] == [b"", b"1"]


async def test_what_is_live_is_refused(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState, match=f"execution {EXECUTION} is live"):
        await rerun(any_store)
    assert await read_shard(any_store, shard) == before


async def test_a_job_that_is_gone_is_refused(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    with pytest.raises(NotFound):
        await rerun(any_store, "gone")
    assert await read_shard(any_store, shard) == before
    assert BUCKET in before["buckets"]
