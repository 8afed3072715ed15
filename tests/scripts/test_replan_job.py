"""replan_job: another next time for a job that stands as it was read."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import BUCKET, EVERY_MINUTE, MINUTE, NOW, registration, seed

from engine import codec
from engine.errors import Conflict, NotFound
from engine.execution import SkipReason, SkipRecord
from engine.keys import Shard
from engine.store import Store
from engine.store.changes import pause_job

MEMBER = f"{EVERY_MINUTE.id}|job-0"
LATER = NOW + 5 * MINUTE
LATER_BUCKET = str(LATER // MINUTE)


async def replan(
    store: Store,
    shard: Shard,
    next_run_at: int | str = LATER,
    *,
    job_id: str = "job-0",
    due_at: int = NOW,
    skipped: bytes = b"",
) -> None:
    keys = [shard.job(job_id), shard.runs(job_id), shard.buckets, shard.ledger]
    args: list[str | bytes | int] = [
        job_id,
        due_at,
        next_run_at,
        skipped,
        shard.due_prefix,
        50,
        1_000,
    ]
    await store.scripts.run("replan_job", keys, args)


async def test_an_active_job_moves_in_the_index(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await replan(any_store, shard)
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"next_run_at": str(LATER)},
        f"due:{BUCKET}": {MEMBER: None},
        f"due:{LATER_BUCKET}": {MEMBER: LATER},
        "buckets": {BUCKET: None, LATER_BUCKET: float(LATER_BUCKET)},
        "ledger": [["replanned", "job-0"]],
    }


async def test_a_paused_job_stays_out_of_the_index(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await pause_job(any_store, "job-0", NOW)
    before = await read_shard(any_store, shard)
    await replan(any_store, shard)
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"next_run_at": str(LATER)},
        "ledger": [["replanned", "job-0"]],
    }


async def test_a_time_that_is_lost_is_recorded(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    record = SkipRecord(NOW, NOW, 1, SkipReason.CALENDAR, detail="holidays")
    await replan(any_store, shard, skipped=codec.dump_record(record))
    changed = changes(before, await read_shard(any_store, shard))
    line = [NOW, "skipped", NOW, 1, 1, "calendar: holidays"]
    assert changed["runs:job-0"] == [line]
    assert changed["ledger"] == [["replanned", "job-0"], ["skipped", "job-0", line]]


async def test_a_job_without_a_time_to_come_is_completed(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await replan(any_store, shard, "")
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"next_run_at": "", "state": "completed"},
        f"due:{BUCKET}": {MEMBER: None},
        "buckets": {BUCKET: None},
        "ledger": [["replanned", "job-0"]],
    }


@pytest.mark.parametrize(
    ("job_id", "due_at", "error"), [("gone", NOW, NotFound), ("job-0", NOW - 1, Conflict)]
)
async def test_a_job_that_is_not_as_it_was_read_stays_as_it_is(
    any_store: Store, job_id: str, due_at: int, error: type[Exception]
) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    with pytest.raises(error):
        await replan(any_store, shard, job_id=job_id, due_at=due_at)
    assert await read_shard(any_store, shard) == before
