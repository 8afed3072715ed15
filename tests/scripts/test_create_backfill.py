"""create_backfill: a job has one backfill at a time, and each knows what those before it passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from filling import advance, backfill_of, begin, old_job, order, write_history
from filling import ended as record
from invariants import changes, read_shard
from seeding import MINUTE, NOW, result, seed, take

from engine.backfill import Backfill, BackfillState, Passed
from engine.errors import BadInput, Conflict, NotFound
from engine.scripts import Scripts
from engine.store import Store
from engine.store.backfills import (
    cancel_backfill,
    create_backfill,
    get_backfill,
    preview_backfill,
)
from engine.store.executions import complete_executions
from engine.store.jobs import delete_job


async def test_an_ordered_backfill_is_read_as_it_was_answered(any_store: Store) -> None:
    shard = await seed(any_store, old_job())
    before = await read_shard(any_store, shard)
    asked = order(-9, 0, "failed", concurrency=7, backwards=True)

    created = await create_backfill(any_store, "job-0", asked, NOW)

    assert created == await get_backfill(any_store, "job-0")
    assert (created.number, created.times, created.next_at) == (1, 10, NOW)
    new = changes(before, await read_shard(any_store, shard))
    assert new.keys() == {"job:job-0", "backfills", "ledger"}
    assert new["backfills"] == {"job-0": True}
    [[word, job_id, _]] = new["ledger"]
    assert (word, job_id) == ("backfill_created", "job-0")


async def test_a_second_backfill_is_refused_while_the_first_is_not_at_its_end(
    any_store: Store,
) -> None:
    shard = await begin(any_store, order(-9, 0))
    await advance(any_store, shard)
    for _ in ("running", "cancelling"):
        before = await read_shard(any_store, shard)
        with pytest.raises(Conflict, match="one at a time"):
            await create_backfill(any_store, "job-0", order(-3, -1), NOW)
        assert await read_shard(any_store, shard) == before
        if "cancelling" not in str(before["job:job-0"]):
            await cancel_backfill(any_store, "job-0")


async def test_of_two_orders_on_the_same_state_one_is_refused(any_store: Store) -> None:
    shard = await begin(any_store, order(-9, 0))
    await cancel_backfill(any_store, "job-0")
    await advance(any_store, shard)

    class Late(Scripts):
        """Another order comes in, and comes to its end, before this one arrives."""

        async def run(
            self, name: str, keys: Sequence[str | bytes], args: Sequence[str | bytes | int] = ()
        ) -> Any:
            if name == "create_backfill":
                await create_backfill(any_store, "job-0", order(-3, -1), NOW)
                await cancel_backfill(any_store, "job-0")
                await advance(any_store, shard)
            return await any_store.scripts.run(name, keys, args)

    late = replace(any_store, scripts=Late(any_store.client))
    with pytest.raises(Conflict, match="meanwhile"):
        await create_backfill(late, "job-0", order(-5, -1), NOW)
    assert (await backfill_of(any_store)).number == 2


async def test_no_backfill_of_a_job_that_is_not_there(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound):
        await create_backfill(any_store, "job-0", order(-9, 0), NOW)
    with pytest.raises(NotFound):
        await preview_backfill(any_store, "job-0", order(-9, 0), NOW)
    assert await read_shard(any_store, shard) == {}


async def test_a_job_deleted_before_the_order_arrives_gets_none(any_store: Store) -> None:
    shard = await seed(any_store, old_job())

    class Late(Scripts):
        async def run(
            self, name: str, keys: Sequence[str | bytes], args: Sequence[str | bytes | int] = ()
        ) -> Any:
            await delete_job(any_store, "job-0")
            return await any_store.scripts.run(name, keys, args)

    late = replace(any_store, scripts=Late(any_store.client))
    with pytest.raises(NotFound):
        await create_backfill(late, "job-0", order(-5, -1), NOW)
    assert "job:job-0" not in await read_shard(any_store, shard)


async def test_a_range_that_ends_after_now_is_refused(any_store: Store) -> None:
    await seed(any_store, old_job())
    for act in (create_backfill, preview_backfill):
        with pytest.raises(BadInput, match="future"):
            await act(any_store, "job-0", order(-9, 1), NOW)


async def test_a_preview_tells_what_would_be_run_and_changes_nothing(any_store: Store) -> None:
    shard = await seed(any_store, old_job())
    await write_history(any_store, shard, record(-5))
    before = await read_shard(any_store, shard)

    preview = await preview_backfill(any_store, "job-0", order(-8, -4), NOW)

    assert (preview.times, preview.run, preview.first) == (5, 1, [NOW - 4 * MINUTE])
    found = {reason: count for reason, count in preview.passed.items() if count}
    assert found == {Passed.SUCCEEDED: 1, Passed.UNKNOWN: 3}
    assert await read_shard(any_store, shard) == before


async def test_a_preview_lists_a_hundred_times_in_the_order_of_their_starts(
    any_store: Store,
) -> None:
    await seed(any_store, old_job(created_at=NOW))
    preview = await preview_backfill(any_store, "job-0", order(-200, -1, backwards=True), NOW)
    assert (preview.run, len(preview.first)) == (200, 100)
    assert preview.first[:2] == [NOW - MINUTE, NOW - 2 * MINUTE]


async def finish(store: Store, asked: int) -> Backfill:
    """Run a backfill of so many minutes before the job's creation to its end."""
    shard = store.layout.shard_of("job-0")
    await create_backfill(store, "job-0", order(-asked, -1, concurrency=100), NOW)
    while (await backfill_of(store)).state is not BackfillState.DONE:
        await advance(store, shard)
        deliveries = await take(store)
        await complete_executions(store, [result(d) for d in deliveries], NOW)
    return await backfill_of(store)


async def test_what_a_backfill_ran_is_not_run_by_the_next_one_though_its_records_are_gone(
    any_store: Store,
) -> None:
    await seed(any_store, old_job(created_at=NOW))
    more = any_store.config.history_limit + 10
    assert (await finish(any_store, more)).started == more
    preview = await preview_backfill(any_store, "job-0", order(-more - 5, -1), NOW)
    assert preview.run == 5
    assert preview.passed[Passed.UNKNOWN] == 10
    assert (await finish(any_store, more + 5)).started == 5


async def test_a_job_without_a_backfill_says_so(any_store: Store) -> None:
    with pytest.raises(NotFound, match="no job"):
        await get_backfill(any_store, "job-0")
    await seed(any_store, old_job())
    with pytest.raises(NotFound, match="no backfill"):
        await get_backfill(any_store, "job-0")
