"""reclaim_executions: what a silent consumer held goes to the next, and ends as poison at last."""

from __future__ import annotations

from dataclasses import replace

from invariants import changes, read_shard
from seeding import (
    AT_ONCE,
    NOW,
    at_once,
    fire,
    job_ids,
    letter,
    registration,
    result,
    seed,
    start,
    take,
)

from engine.execution import Delivery, Outcome
from engine.keys import Shard
from engine.names import Priority
from engine.store import Store
from engine.store.executions import (
    RECLAIM_LIMIT,
    Answer,
    Reclaimed,
    complete_executions,
    reclaim_executions,
)
from engine.store.jobs import create_jobs, delete_job

LONG_MS = 60_000
ENDED_AT = NOW + 70_000


async def reclaim(
    store: Store, shard: Shard, *, cursor: str | None = None, room: int = RECLAIM_LIMIT
) -> Reclaimed:
    return await reclaim_executions(
        store, "default", shard, "w2", ENDED_AT, cursor=cursor, room=room
    )


async def fall_silent(store: Store, *deliveries: Delivery) -> Shard:
    """Make deliveries of one shard look a minute old; return the shard."""
    first = deliveries[0]
    shard = store.layout.shards[first.shard]
    entries = [delivery.entry_id for delivery in deliveries]
    ready = shard.ready(first.queue)
    await store.client.xclaim(
        ready, "workers", first.consumer, 0, entries, idle=LONG_MS, justid=True
    )
    return shard


async def start_many(store: Store, count: int) -> list[Delivery]:
    """Return the deliveries of `count` jobs of one shard."""
    ids = job_ids(store, count)
    await seed(store, *(registration(i, AT_ONCE, next_run_at=None, run_at=NOW) for i in ids))
    return await take(store, count=count)


async def test_a_delivery_whose_lease_ran_out_goes_to_who_asks(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = await fall_silent(any_store, delivery)
    before = await read_shard(any_store, shard)
    found = await reclaim(any_store, shard)
    assert found == Reclaimed([replace(delivery, consumer="w2", deliveries=2)], 0, None)
    assert changes(before, await read_shard(any_store, shard)) == {
        "pending:default": {delivery.entry_id: ("w2", 2)}
    }


async def test_a_delivery_within_its_lease_stays(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    assert await reclaim(any_store, shard) == Reclaimed([], 0, None)
    assert await read_shard(any_store, shard) == before


async def test_the_old_holder_is_stale_and_the_new_one_completes(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    [taken] = (await reclaim(any_store, await fall_silent(any_store, delivery))).deliveries
    answers = await complete_executions(any_store, [result(delivery), result(taken)], NOW)
    assert answers == [Answer.STALE, Answer.DONE]


async def test_an_execution_that_was_delivered_too_often_is_poison(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 2})
    delivery = await start(any_store, "job-0")
    shard = await fall_silent(any_store, delivery)
    [taken] = (await reclaim(any_store, shard)).deliveries
    await fall_silent(any_store, taken)
    before = await read_shard(any_store, shard)

    assert await reclaim(any_store, shard) == Reclaimed([], 1, None)

    error = "poison: delivered 2 times and never completed"
    record = [NOW, "dead", 1, 2, "w2", ENDED_AT - NOW, 0, None, error]
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        "ready:default": {delivery.entry_id: None},
        "pending:default": {delivery.entry_id: None},
        "runs:job-0": [record],
        "dead": {f"job-0@{NOW}": ENDED_AT},
        f"letter:job-0@{NOW}": letter(record, reason="poison"),
        "ledger": [["dead", f"job-0@{NOW}", record]],
    }
    assert await complete_executions(any_store, [result(taken)], ENDED_AT) == [Answer.STALE]


async def test_a_letter_of_poison_holds_earlier_attempts_and_names_its_stream(
    any_store: Store,
) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 1})
    stream = "default:high"
    shard = await seed(any_store, at_once("job-0", priority=Priority.HIGH))
    [first] = await take(any_store, stream=stream)
    await complete_executions(any_store, [result(first, Outcome.FAILED, NOW + 900)], NOW)
    await fire(any_store, shard, NOW + 900)
    [second] = await take(any_store, stream=stream)
    await fall_silent(any_store, second)
    found = await reclaim_executions(any_store, stream, shard, "w2", ENDED_AT)
    assert found == Reclaimed([], 1, None)
    failed, died = (await read_shard(any_store, shard))["runs:job-0"]
    assert (failed[1:3], died[1:3]) == (["failed", 1], ["dead", 2])
    expected = letter(died, failed, reason="poison", attempt=2, stream=stream)
    assert (await read_shard(any_store, shard))[f"letter:job-0@{NOW}"] == expected


async def test_a_delivery_that_is_taken_over_knows_what_its_first_holder_knew(
    any_store: Store,
) -> None:
    first = await start(any_store, "job-0")
    await complete_executions(any_store, [result(first, Outcome.FAILED, NOW + 900)], NOW)
    await fire(any_store, any_store.layout.shards[first.shard], NOW + 900)
    [second] = await take(any_store)
    [taken] = (await reclaim(any_store, await fall_silent(any_store, second))).deliveries
    assert taken == replace(second, consumer="w2", deliveries=2)
    assert taken.began_at == NOW + 500


async def test_poison_of_a_deleted_job_leaves_no_dead_letter(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 1})
    delivery = await start(any_store, "job-0")
    shard = await fall_silent(any_store, delivery)
    await delete_job(any_store, "job-0")
    before = await read_shard(any_store, shard)
    assert (await reclaim(any_store, shard)).poisoned == 1
    changed = changes(before, await read_shard(any_store, shard))
    assert changed.keys() == {"ready:default", "pending:default", "ledger"}


async def test_poison_of_a_deleted_job_says_nothing_of_a_new_one(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 1})
    delivery = await start(any_store, "job-0")
    shard = await fall_silent(any_store, delivery)
    await delete_job(any_store, "job-0")
    await create_jobs(any_store, [at_once("job-0")])
    before = await read_shard(any_store, shard)
    assert (await reclaim(any_store, shard)).poisoned == 1
    changed = changes(before, await read_shard(any_store, shard))
    assert changed.keys() == {"ready:default", "pending:default", "ledger"}


async def test_a_pending_entry_that_is_gone_is_forgotten(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await delete_job(any_store, "job-0")
    shard = await fall_silent(any_store, delivery)
    await any_store.client.xdel(shard.ready("default"), delivery.entry_id)
    assert await reclaim(any_store, shard) == Reclaimed([], 0, None)
    assert "pending:default" not in await read_shard(any_store, shard)


async def test_a_long_list_is_looked_at_piece_by_piece(any_store: Store) -> None:
    started = await start_many(any_store, RECLAIM_LIMIT + 20)
    shard = await fall_silent(any_store, *started[-30:])
    first = await reclaim(any_store, shard)
    assert len(first.deliveries) == 10
    assert first.cursor == f"({started[RECLAIM_LIMIT - 1].entry_id}"
    second = await reclaim(any_store, shard, cursor=first.cursor)
    assert len(second.deliveries) == 20
    assert second.cursor is None
    taken = [delivery.entry_id for delivery in first.deliveries + second.deliveries]
    assert taken == [delivery.entry_id for delivery in started[-30:]]


async def test_a_list_of_exactly_one_look_ends_with_an_empty_one(any_store: Store) -> None:
    started = await start_many(any_store, RECLAIM_LIMIT)
    shard = await fall_silent(any_store, *started)
    first = await reclaim(any_store, shard)
    assert len(first.deliveries) == RECLAIM_LIMIT
    assert await reclaim(any_store, shard, cursor=first.cursor) == Reclaimed([], 0, None)


async def test_no_more_is_taken_over_than_there_is_room_for(any_store: Store) -> None:
    started = await start_many(any_store, 5)
    shard = await fall_silent(any_store, *started)
    first = await reclaim(any_store, shard, room=3)
    assert [taken.entry_id for taken in first.deliveries] == [d.entry_id for d in started[:3]]
    rest = await reclaim(any_store, shard, cursor=first.cursor, room=3)
    assert [taken.entry_id for taken in rest.deliveries] == [d.entry_id for d in started[3:]]
    assert rest.cursor is None


async def test_a_queue_that_nobody_has_read_gets_its_group(any_store: Store) -> None:
    shard = any_store.layout.shards[0]
    assert await reclaim(any_store, shard) == Reclaimed([], 0, None)
    [group] = await any_store.client.xinfo_groups(shard.ready("default"))
    assert group["name"] == b"workers"
