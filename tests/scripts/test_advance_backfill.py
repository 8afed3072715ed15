"""advance_backfill: past times are started once each, and beside everything else of the job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from filling import (
    advance,
    backfill_of,
    begin,
    ended,
    old_job,
    order,
    propose,
    times,
    write_history,
)
from invariants import changes, read_shard
from seeding import (
    MINUTE,
    NOW,
    job_ids,
    lease,
    letter,
    registration,
    result,
    run_at_exactly,
    seed,
    small,
    start,
    take,
)

from engine.backfill import BackfillState, Batch
from engine.errors import Fenced
from engine.execution import Outcome
from engine.model import Rules
from engine.store import Store
from engine.store.backfills import advance_backfill, cancel_backfill, create_backfill
from engine.store.changes import pause_job
from engine.store.executions import complete_executions
from engine.store.jobs import delete_job, get_job, run_job


async def test_a_time_is_started_under_its_own_id_and_marked(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1))
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)

    assert await advance(any_store, shard) == 1

    at = NOW - 3 * MINUTE
    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        "job:job-0": {
            f"x:{at}": f"ready:1:{entry}",
            f"b:{at}": "1",
            "backfill_at": str(at + MINUTE),
            "backfill_passed": "1",
            "backfill_started": "1",
            "backfill_live": "1",
        },
        "ready:default": after["ready:default"],
        "ledger": [["fired", f"job-0@{at}", 1, NOW, "default"]],
    }
    fields = after["ready:default"][entry]
    assert (fields["execution_id"], fields["due_at"]) == (f"job-0@{at}", str(NOW))


async def test_no_more_are_live_than_were_asked_for(any_store: Store) -> None:
    shard = await begin(any_store, order(-5, -1, concurrency=2))
    assert [await advance(any_store, shard) for _ in range(3)] == [2, 0, 0]
    [first, _] = await take(any_store)
    await complete_executions(any_store, [result(first)], NOW)
    assert await advance(any_store, shard) == 1
    assert sorted(d.nominal_at for d in await take(any_store)) == times(-3, -3)


async def test_a_batch_committed_again_starts_nothing(any_store: Store) -> None:
    shard = await begin(any_store, order(-5, -1, concurrency=4))
    proposed = await propose(any_store, most=2)
    assert await advance(any_store, shard, proposed) == 2
    before = await read_shard(any_store, shard)
    assert await advance(any_store, shard, proposed) == 0
    assert await read_shard(any_store, shard) == before


async def test_a_fenced_holder_starts_nothing(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1))
    backfill, batch = await propose(any_store)
    token = str(int(await lease(any_store, shard)) + 1)
    before = await read_shard(any_store, shard)
    with pytest.raises(Fenced):
        await advance_backfill(any_store, shard, token, "s1", "job-0", backfill, batch, NOW)
    assert await read_shard(any_store, shard) == before


async def test_a_batch_of_an_older_backfill_starts_nothing(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1))
    backfill, batch = await propose(any_store)
    older = replace(backfill, number=7)
    await lease(any_store, shard)
    before = await read_shard(any_store, shard)
    assert await advance(any_store, shard, (older, batch)) == 0
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_time_that_came_alive_or_began_to_wait_after_the_look_is_passed_over(
    any_store: Store, is_live: bool
) -> None:
    shard = await begin(any_store, order(-2, -1))
    [at, _] = times(-2, -1)
    backfill, _ = await propose(any_store)
    if is_live:
        assert await run_at_exactly(any_store, "job-0", at) == f"job-0@{at}".encode()
    else:
        await any_store.client.hset(shard.job("job-0"), "queued", at)
    assert await advance(any_store, shard, (backfill, Batch([(at, 1)], at + MINUTE))) == 0
    found = await backfill_of(any_store)
    assert (found.passed, found.started, found.next_at) == (1, 0, at + MINUTE)


async def test_a_time_that_the_schedule_holds_is_never_started(any_store: Store) -> None:
    shard = await begin(any_store, order(-2, -1))
    backfill, _ = await propose(any_store)
    held = NOW + MINUTE
    assert await advance(any_store, shard, (backfill, Batch([(held, 1)], None))) == 0
    assert await take(any_store) == []


async def test_a_full_queue_keeps_the_place_until_it_has_room(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    other = await start(store, job_ids(store, 2)[1])
    shard = await begin(store, order(-2, -1))
    await lease(store, shard)
    before = await read_shard(store, shard)
    assert await advance(store, shard) == 0
    assert await read_shard(store, shard) == before
    await complete_executions(store, [result(other)], NOW)
    assert await advance(store, shard) == 1


async def test_nothing_is_left_when_all_times_are_passed_and_ended(any_store: Store) -> None:
    shard = await begin(any_store, order(-2, -1, concurrency=2))
    await advance(any_store, shard)
    assert await advance(any_store, shard) == 0
    assert (await backfill_of(any_store)).state is BackfillState.RUNNING
    first, second = await take(any_store)
    await complete_executions(any_store, [result(first), result(second, Outcome.DEAD)], NOW)
    await advance(any_store, shard)
    found = await backfill_of(any_store)
    assert (found.state, found.next_at) == (BackfillState.DONE, None)
    assert (found.passed, found.started, found.live) == (2, 2, 0)
    assert (found.succeeded, found.dead) == (1, 1)
    assert (await read_shard(any_store, shard))["ledger"][-1] == ["backfill_ended", "job-0"]


async def test_a_cancelled_backfill_starts_nothing_and_ends_with_what_is_live(
    any_store: Store,
) -> None:
    shard = await begin(any_store, order(-5, -1, concurrency=2))
    await advance(any_store, shard)
    proposed = await propose(any_store)
    await cancel_backfill(any_store, "job-0")
    assert await advance(any_store, shard, proposed) == 0
    found = await backfill_of(any_store)
    assert (found.state, found.live) == (BackfillState.CANCELLING, 2)
    deliveries = await take(any_store)
    await complete_executions(any_store, [result(d) for d in deliveries], NOW)
    await advance(any_store, shard)
    found = await backfill_of(any_store)
    assert (found.state, found.started, found.succeeded) == (BackfillState.CANCELLED, 2, 2)


async def test_a_retry_of_a_backfills_execution_stays_the_backfills(any_store: Store) -> None:
    shard = await begin(any_store, order(-1, -1))
    await advance(any_store, shard)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, NOW + 5_000)], NOW)
    found = await backfill_of(any_store)
    assert (found.live, found.succeeded, found.dead) == (1, 0, 0)
    assert (await get_job(any_store, "job-0")).live[0].due_at == NOW + 5_000


async def test_a_dead_execution_that_is_run_again_leaves_the_dead_letters(
    any_store: Store,
) -> None:
    shard = await begin(any_store, order(-5, -5, "failed"))
    await write_history(any_store, shard, ended(-5, Outcome.DEAD, 3))
    execution_id = f"job-0@{NOW - 5 * MINUTE}"
    await any_store.client.zadd(shard.dead, {execution_id: NOW})
    await any_store.client.hset(shard.letter(execution_id), mapping=letter(attempt=3))
    await advance(any_store, shard)
    [delivery] = await take(any_store)
    assert (delivery.execution_id, delivery.attempt) == (execution_id, 4)
    # Attempts of its first life do not count for the retry policy.
    assert (delivery.base, delivery.began_at) == (3, None)
    assert not (await read_shard(any_store, shard)).keys() & {"dead", f"letter:{execution_id}"}


async def test_a_backfills_execution_expires_never(any_store: Store) -> None:
    made = old_job()
    expiring = replace(made, job=replace(made.job, rules=Rules(expires_after_ms=1)))
    shard = await begin(any_store, order(-5, -5), expiring)
    await advance(any_store, shard)
    [delivery] = await take(any_store)
    assert delivery.expires_at is None


async def test_dead_executions_of_a_backfill_do_not_pause_the_job(any_store: Store) -> None:
    made = old_job()
    strict = replace(made, job=replace(made.job, rules=Rules(pause_after_failures=1)))
    shard = await begin(any_store, order(-5, -5), strict)
    await advance(any_store, shard)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery, Outcome.DEAD)], NOW)
    job = (await get_job(any_store, "job-0")).job
    assert (job.state, job.failures) == ("active", 0)


async def test_a_run_by_hand_beside_a_backfill_is_counted_apart(any_store: Store) -> None:
    shard = await begin(any_store, order(-5, -5))
    await advance(any_store, shard)
    await run_job(any_store, "job-0", NOW + 1)
    space = await read_shard(any_store, shard)
    assert [space["job:job-0"][name] for name in ("live", "backfill_live")] == ["1", "1"]


async def test_a_paused_job_is_backfilled_up_to_its_pause(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", next_run_at=NOW - 2 * MINUTE))
    await pause_job(any_store, "job-0", NOW)
    await create_backfill(any_store, "job-0", order(-4, -1, concurrency=10), NOW)
    assert await advance(any_store, shard) == 2
    assert sorted(d.nominal_at for d in await take(any_store)) == times(-4, -3)
    found = await backfill_of(any_store)
    assert (found.passed, found.started) == (4, 2)


async def test_what_a_deleted_job_left_behind_is_tidied_up(any_store: Store) -> None:
    shard = await begin(any_store, order(-5, -5))
    backfill, _ = await propose(any_store)
    await delete_job(any_store, "job-0")
    await any_store.client.sadd(shard.backfills, "job-0")
    await advance(any_store, shard, (backfill, Batch([], None)))
    assert "backfills" not in await read_shard(any_store, shard)


async def test_deleting_a_job_leaves_nothing_of_its_backfill(any_store: Store) -> None:
    shard = await begin(any_store, order(-5, -5))
    await advance(any_store, shard)
    await delete_job(any_store, "job-0")
    left = ["fence", "lease", "ledger", "plans", "ran_at"]
    assert sorted(await read_shard(any_store, shard)) == left


async def test_a_completed_job_stays_after_its_backfill(any_store: Store) -> None:
    shard = await begin(any_store, order(-1, -1), registration("job-0", next_run_at=None))
    await advance(any_store, shard)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery)], NOW)
    await advance(any_store, shard)
    assert (await backfill_of(any_store)).state is BackfillState.DONE


async def test_a_job_that_is_to_be_deleted_stays_while_something_else_of_it_is_live(
    any_store: Store,
) -> None:
    made = registration("job-0", next_run_at=None)
    leaving = replace(made, job=replace(made.job, rules=Rules(delete_after_completion=True)))
    shard = await begin(any_store, order(-1, -1), leaving)
    await advance(any_store, shard)
    await run_job(any_store, "job-0", NOW)
    filled, by_hand = await take(any_store)
    await complete_executions(any_store, [result(filled)], NOW)
    await advance(any_store, shard)
    assert (await backfill_of(any_store)).state is BackfillState.DONE
    await complete_executions(any_store, [result(by_hand)], NOW)
    assert "job:job-0" not in await read_shard(any_store, shard)


async def test_a_job_that_waits_for_its_backfill_to_be_deleted_goes_with_its_end(
    any_store: Store,
) -> None:
    made = registration("job-0", next_run_at=None)
    leaving = replace(made, job=replace(made.job, rules=Rules(delete_after_completion=True)))
    shard = await begin(any_store, order(-1, -1), leaving)
    await advance(any_store, shard)
    await run_job(any_store, "job-0", NOW)
    deliveries = await take(any_store)
    await complete_executions(any_store, [result(d) for d in deliveries[::-1]], NOW)
    assert "job:job-0" in await read_shard(any_store, shard)
    await advance(any_store, shard)
    space = await read_shard(any_store, shard)
    assert sorted(space) == ["fence", "lease", "ledger", "plans"]
