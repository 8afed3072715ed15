"""cancel_backfill: nothing more is started."""

from __future__ import annotations

import pytest
from filling import advance, backfill_of, begin, old_job, order
from invariants import changes, read_shard
from seeding import seed

from engine.backfill import BackfillState
from engine.errors import NotFound, WrongState
from engine.store import Store
from engine.store.backfills import cancel_backfill


async def test_a_running_backfill_is_cancelled(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1))
    before = await read_shard(any_store, shard)
    await cancel_backfill(any_store, "job-0")
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"backfill_state": "cancelling"},
        "ledger": [["backfill_cancelled", "job-0"]],
    }


async def test_a_backfill_is_cancelled_once(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1))
    await cancel_backfill(any_store, "job-0")
    for state in (BackfillState.CANCELLING, BackfillState.CANCELLED):
        before = await read_shard(any_store, shard)
        with pytest.raises(WrongState, match=f"is {state};"):
            await cancel_backfill(any_store, "job-0")
        assert await read_shard(any_store, shard) == before
        await advance(any_store, shard)
    assert (await backfill_of(any_store)).state is BackfillState.CANCELLED


async def test_without_a_backfill_there_is_nothing_to_cancel(any_store: Store) -> None:
    shard = await seed(any_store, old_job())
    before = await read_shard(any_store, shard)
    with pytest.raises(NotFound, match="job-0"):
        await cancel_backfill(any_store, "job-0")
    assert await read_shard(any_store, shard) == before
