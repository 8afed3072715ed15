"""resume_job: back into the index, with what was missed skipped or left to the misfire policy."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import BUCKET, EVERY_MINUTE, MINUTE, NOW, ONE_OFF, fire, registration, seed

from engine.errors import NotFound, WrongState
from engine.keys import Shard
from engine.plan import Plan
from engine.store import Store
from engine.store.due import Fired
from engine.store.jobs import pause_job, resume_job

MEMBER = f"{EVERY_MINUTE.id}|job-0"


async def pause(store: Store, plan: Plan = EVERY_MINUTE) -> Shard:
    """Leave job-0 paused before NOW."""
    shard = await seed(store, registration("job-0", plan))
    await pause_job(store, "job-0")
    return shard


async def choose(store: Store, shard: Shard, paused_at: int) -> None:
    """Resume as a caller does that read `paused_at` a while ago."""
    keys = [shard.job("job-0"), shard.buckets, shard.runs("job-0"), shard.ledger]
    args: list[str | int] = ["job-0", paused_at, NOW + MINUTE, "", shard.due_prefix, 50, 2_000]
    await store.scripts.run("resume_job", keys, args)


@pytest.mark.parametrize("skip_missed", [True, False])
async def test_a_job_resumed_in_time_goes_on_as_if_nothing_had_been(
    any_store: Store, skip_missed: bool
) -> None:
    shard = await pause(any_store)
    before = await read_shard(any_store, shard)
    await resume_job(any_store, "job-0", NOW - 1, skip_missed=skip_missed)
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"state": "active"},
        f"due:{BUCKET}": {MEMBER: NOW},
        "buckets": {BUCKET: float(BUCKET)},
        "ledger": [["resumed", "job-0"]],
    }


async def test_what_a_pause_kept_from_firing_is_recorded(any_store: Store) -> None:
    shard = await pause(any_store)
    before = await read_shard(any_store, shard)
    await resume_job(any_store, "job-0", NOW + 2 * MINUTE, skip_missed=True)
    changed = changes(before, await read_shard(any_store, shard))
    record = [NOW, "skipped", NOW + 2 * MINUTE, 3, 1, "paused"]
    assert changed["runs:job-0"] == [record]
    assert changed["ledger"] == [["resumed", "job-0"], ["skipped", "job-0", record]]
    assert changed["job:job-0"] == {"state": "active", "next_run_at": str(NOW + 3 * MINUTE)}


async def test_what_is_not_skipped_is_left_to_the_misfire_policy(any_store: Store) -> None:
    shard = await pause(any_store)
    await resume_job(any_store, "job-0", NOW + 2 * MINUTE, skip_missed=False)
    assert await fire(any_store, shard, NOW + 2 * MINUTE) == Fired(fired=1)
    [record] = (await read_shard(any_store, shard))["runs:job-0"]
    assert record == [NOW, "skipped", NOW + MINUTE, 2, 1, "late"]


async def test_a_one_off_that_was_missed_is_completed(any_store: Store) -> None:
    shard = await pause(any_store, ONE_OFF)
    await resume_job(any_store, "job-0", NOW, skip_missed=True)
    after = await read_shard(any_store, shard)
    assert after["job:job-0"].items() >= {"state": "completed", "next_run_at": ""}.items()
    assert after["runs:job-0"] == [[NOW, "skipped", NOW, 1, 1, "paused"]]


async def test_an_active_job_cannot_be_resumed(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState, match="is active"):
        await resume_job(any_store, "job-0", NOW, skip_missed=True)
    assert await read_shard(any_store, shard) == before


async def test_a_job_that_is_not_there_cannot_be_resumed(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound, match="job-0"):
        await resume_job(any_store, "job-0", NOW, skip_missed=True)
    assert await read_shard(any_store, shard) == {}


@pytest.mark.parametrize(
    "paused_at",
    [
        pytest.param(NOW, id="resumed meanwhile"),
        pytest.param(NOW + 1, id="paused at another time"),
    ],
)
async def test_a_choice_made_on_an_older_reading_is_refused(
    any_store: Store, paused_at: int
) -> None:
    shard = await pause(any_store)
    if paused_at == NOW:
        await resume_job(any_store, "job-0", NOW - 1, skip_missed=False)
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState):
        await choose(any_store, shard, paused_at)
    assert await read_shard(any_store, shard) == before


async def test_a_job_deleted_after_the_reading_is_not_found(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound):
        await choose(any_store, shard, NOW)
    assert await read_shard(any_store, shard) == {}
