"""pause_job: an active job leaves the index and remembers its next time."""

from __future__ import annotations

import json

import pytest
from invariants import changes, read_shard
from seeding import BUCKET, EVERY_MINUTE, NOW, fire, registration, result, seed, take

from engine.errors import NotFound, WrongState
from engine.store import Store
from engine.store.changes import pause_job
from engine.store.due import Fired
from engine.store.executions import Answer, complete_executions
from engine.store.jobs import get_job


async def test_a_paused_job_leaves_the_index(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await pause_job(any_store, "job-0", NOW, by="ops", note='a "quiet"\nday')
    note = {"by": "ops", "at": NOW, "note": 'a "quiet"\nday'}
    after = await read_shard(any_store, shard)
    assert json.loads(after["job:job-0"].pop("pause_note")) == note
    assert changes(before, after) == {
        "job:job-0": {"state": "paused"},
        f"due:{BUCKET}": {f"{EVERY_MINUTE.id}|job-0": None},
        "buckets": {BUCKET: None},
        "ledger": [["paused", "job-0", note]],
    }
    assert (await get_job(any_store, "job-0")).job.pause_note == note
    assert await fire(any_store, shard) == Fired()


async def test_a_live_execution_goes_on(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    await pause_job(any_store, "job-0", NOW)
    [delivery] = await take(any_store)
    assert await complete_executions(any_store, [result(delivery)], NOW) == [Answer.DONE]


async def test_a_second_pause_is_refused(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await pause_job(any_store, "job-0", NOW)
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState, match="is paused"):
        await pause_job(any_store, "job-0", NOW)
    assert await read_shard(any_store, shard) == before


async def test_a_job_that_is_not_there_cannot_be_paused(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound, match="job-0"):
        await pause_job(any_store, "job-0", NOW)
    assert await read_shard(any_store, shard) == {}
