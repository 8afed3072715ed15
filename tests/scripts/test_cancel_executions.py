"""cancel_executions: what is live of a job ends at once, wherever it is; who ran it has lost it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from filling import advance, begin, order
from invariants import Keyspace, changes, read_shard
from seeding import (
    BUCKET,
    LAPSES_AT,
    MINUTE,
    NOW,
    at_once,
    fire,
    grant,
    registration,
    result,
    seed,
    small,
    start,
    take,
)

from engine.codec import Promise
from engine.errors import NotFound
from engine.execution import Outcome
from engine.keys import Shard
from engine.model import Overlap, Rules
from engine.names import Priority
from engine.store import Store
from engine.store.cancelling import CANCEL_LIMIT, cancel_executions
from engine.store.executions import Answer, complete_executions, heartbeat_executions
from engine.store.jobs import get_job, run_job
from engine.store.reports import report_end

AFTER = NOW + 600


def at(minute: int) -> int:
    return NOW + minute * MINUTE


def cancelled(nominal_at: int, now: int = AFTER, attempt: int = 1) -> list[Any]:
    note = "cancelled by ana: too late"
    return [nominal_at, "cancelled", attempt, 0, "", now - nominal_at, 0, None, note]


async def cancel(store: Store, *times: int, now: int = AFTER) -> list[int]:
    return await cancel_executions(store, "job-0", now, times or None, by="ana", note="too late")


async def cancel_and_compare(store: Store, shard: Shard, *times: int) -> Keyspace:
    """Cancel the one execution that is live, NOW's; return what that changed."""
    before = await read_shard(store, shard)
    assert await cancel(store, *times) == [NOW]
    return changes(before, await read_shard(store, shard))


async def queue_up(
    store: Store, overlap: Overlap, minutes: int, rules: Rules | None = None
) -> Shard:
    """Leave job-0 with NOW's execution live, and so many further times that wait for it."""
    shard = await seed(store, registration("job-0", overlap=overlap, rules=rules))
    for minute in range(minutes + 1):
        assert (await fire(store, shard, at(minute))).fired == 1
    return shard


@pytest.mark.parametrize("times", [(), (NOW,), (NOW - 1, NOW)])
@pytest.mark.parametrize("priority", Priority)
async def test_an_execution_that_nobody_has_started_goes(
    any_store: Store, priority: Priority, times: tuple[int, ...]
) -> None:
    shard = await seed(any_store, at_once("job-0", priority=priority))
    stream = (await get_job(any_store, "job-0")).job.stream
    [entry] = (await read_shard(any_store, shard))[f"ready:{stream}"]
    assert await cancel_and_compare(any_store, shard, *times) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        f"ready:{stream}": {entry: None},
        "runs:job-0": [cancelled(NOW)],
        "ledger": [["cancelled", f"job-0@{NOW}", cancelled(NOW)]],
    }


async def test_who_runs_it_has_lost_it_and_learns_so(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    changed = await cancel_and_compare(any_store, shard)
    assert changed["pending:default"] == {delivery.entry_id: None}
    before = await read_shard(any_store, shard)
    assert await heartbeat_executions(any_store, [delivery]) == [False]
    ended = [result(delivery), result(delivery, Outcome.FAILED, NOW + 2_000)]
    assert await complete_executions(any_store, ended, NOW) == [Answer.STALE] * 2
    assert await read_shard(any_store, shard) == before


async def test_one_that_waits_for_its_retry_leaves_the_index(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery, Outcome.FAILED, NOW + 2_000)], NOW)
    shard = any_store.layout.shards[delivery.shard]
    record = cancelled(NOW, attempt=2)
    assert await cancel_and_compare(any_store, shard) == {
        "job:job-0": {f"x:{NOW}": None, "live": "0"},
        f"due:{BUCKET}": {f"job-0@{NOW}": None},
        "buckets": {BUCKET: None},
        "runs:job-0": [record],
        "ledger": [["cancelled", f"job-0@{NOW}", record]],
    }


async def test_what_its_target_reports_later_is_stale(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery, Outcome.ACCEPTED)], NOW)
    shard = any_store.layout.shards[delivery.shard]
    changed = await cancel_and_compare(any_store, shard)
    assert changed["job:job-0"] == {f"x:{NOW}": None, "live": "0"}
    assert changed[f"due:{LAPSES_AT // MINUTE}"] == {f"job-0@{NOW}": None}
    before = await read_shard(any_store, shard)
    promise = Promise(f"job-0@{NOW}", 1, NOW + 500, LAPSES_AT)
    late = await report_end(any_store, promise, NOW + 900, succeeded=True, rng=Random(1))
    assert late is Answer.STALE
    assert await read_shard(any_store, shard) == before


async def test_one_that_waits_for_room_leaves_its_streams_bucket(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await seed(store, registration("job-0", overlap=Overlap.ALLOW))
    await fire(store, shard)
    await run_job(store, "job-0", NOW + 5)
    assert sorted(await cancel(store)) == [NOW, NOW + 5]
    after = await read_shard(store, shard)
    assert "due:@default" not in after
    assert after["job:job-0"]["live"] == "0"


async def test_permits_are_given_back_and_waiting_for_one_ends(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.ALLOW))
    await grant(any_store, shard, {"slots:q/default": "1"})
    await fire(any_store, shard)
    await run_job(any_store, "job-0", NOW + 5)
    held = await read_shard(any_store, shard)
    assert held["due:@"] == {f"job-0@{NOW + 5}": "@q/default"}
    assert held["gates"] == {"slots:q/default": "0", "live:q/default": "1", "token": "1"}
    assert sorted(await cancel(any_store)) == [NOW, NOW + 5]
    after = await read_shard(any_store, shard)
    assert not after.keys() & {"due:@", "due:@q/default"}
    assert after["gates"] == {"slots:q/default": "1", "token": "1"}


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ALL, Overlap.AFTER_SUCCESS])
async def test_all_that_waits_for_an_older_one_ends_with_it_and_nothing_starts(
    any_store: Store, overlap: Overlap
) -> None:
    shard = await queue_up(any_store, overlap, 2)
    before = await read_shard(any_store, shard)
    assert await cancel(any_store, now=at(3)) == [at(1), at(2), NOW]
    after = await read_shard(any_store, shard)
    changed = changes(before, after)
    records = [cancelled(nominal_at, at(3)) for nominal_at in (at(1), at(2), NOW)]
    assert changed["job:job-0"] == {f"x:{NOW}": None, "live": "0", "queued": None}
    assert changed["runs:job-0"] == records
    assert changed["ledger"] == [["cancelled", f"job-0@{r[0]}", r] for r in records]


async def test_one_of_those_that_wait_ends_and_the_others_keep_their_order(
    any_store: Store,
) -> None:
    shard = await queue_up(any_store, Overlap.QUEUE_ALL, 3)
    before = await read_shard(any_store, shard)
    assert await cancel(any_store, at(2), now=at(4)) == [at(2)]
    record = cancelled(at(2), at(4))
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"queued": f"{at(1)} {at(3)}"},
        "runs:job-0": [record],
        "ledger": [["cancelled", f"job-0@{at(2)}", record]],
    }


async def test_the_end_of_what_is_live_starts_what_waits_for_it(any_store: Store) -> None:
    shard = await queue_up(any_store, Overlap.QUEUE_ALL, 2)
    assert await cancel(any_store, NOW, now=at(2)) == [NOW]
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert (job["live"], job["queued"], job[f"x:{at(1)}"]) == ("1", str(at(2)), f"due:1:{at(2)}")
    assert f"x:{NOW}" not in job


async def test_cancelling_is_neither_failure_nor_success(any_store: Store) -> None:
    rules = Rules(pause_after_failures=2)
    shard = await queue_up(any_store, Overlap.AFTER_SUCCESS, 1, rules)
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first, Outcome.DEAD)], at(1))
    await run_job(any_store, "job-0", at(1) + 5)
    assert await cancel(any_store, at(1) + 5, now=at(2)) == [at(1) + 5]
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert (job["last"], job["failures"], job["state"]) == ("dead", "1", "active")
    assert job["queued"] == str(at(1))


@pytest.mark.parametrize("is_dead", [False, True])
async def test_a_job_that_is_done_with_goes(any_store: Store, is_dead: bool) -> None:
    """Also where nothing was live any more, and only times that waited for a success are left."""
    rules = Rules(max_runs=2, delete_after_completion=True)
    shard = await queue_up(any_store, Overlap.AFTER_SUCCESS, 1, rules)
    if is_dead:
        [first] = await take(any_store)
        await complete_executions(any_store, [result(first, Outcome.DEAD)], at(1))
    await cancel(any_store, now=at(2))
    after = await read_shard(any_store, shard)
    assert not after.keys() & {"jobs", "job:job-0", "runs:job-0"}
    assert after["ledger"][-1] == ["deleted", "job-0"]


async def test_one_that_a_backfill_started_is_counted_there(any_store: Store) -> None:
    shard = await begin(any_store, order(-3, -1, concurrency=2))
    assert await advance(any_store, shard) == 2
    nominal_at = at(-3)
    before = await read_shard(any_store, shard)
    assert await cancel(any_store, nominal_at) == [nominal_at]
    after = await read_shard(any_store, shard)
    assert changes(before, after)["job:job-0"] == {
        f"x:{nominal_at}": None,
        f"b:{nominal_at}": None,
        "backfill_live": "1",
        "backfill_cancelled": "1",
    }


@pytest.mark.parametrize("are_named", [False, True])
async def test_more_than_one_script_may_touch_end_all_the_same(
    any_store: Store, are_named: bool
) -> None:
    shard = await seed(any_store, registration("job-0"))
    times = [NOW + 5 + n for n in range(CANCEL_LIMIT + 1)]
    for nominal_at in times:
        await run_job(any_store, "job-0", nominal_at)
    assert sorted(await cancel(any_store, *times * are_named)) == times
    after = await read_shard(any_store, shard)
    assert after["job:job-0"]["live"] == "0"
    assert "ready:default" not in after


async def test_one_script_ends_no_more_than_it_is_told(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    for n in range(3):
        await run_job(any_store, "job-0", NOW + 5 + n)
    keys = [shard.job("job-0"), shard.jobs, shard.runs("job-0"), shard.buckets]
    args: list[str | bytes | int] = ["job-0", AFTER, shard.due_prefix, shard.ready_prefix]
    args += [10, 1_000, '"enough"', 2]
    keys += [shard.inputs("job-0"), shard.gates, shard.outbox, shard.ledger]
    reply = await any_store.scripts.run("cancel_executions", keys, args)
    assert len(reply) == 2
    assert (await read_shard(any_store, shard))["job:job-0"]["live"] == "1"


@pytest.mark.parametrize("times", [(NOW + 1,), (at(7), at(8))])
async def test_times_that_are_not_live_change_nothing(
    any_store: Store, times: tuple[int, ...]
) -> None:
    shard = await queue_up(any_store, Overlap.QUEUE_ALL, 1)
    before = await read_shard(any_store, shard)
    assert await cancel(any_store, *times) == []
    assert await read_shard(any_store, shard) == before


async def test_cancelling_again_changes_nothing(any_store: Store) -> None:
    shard = await queue_up(any_store, Overlap.QUEUE_ALL, 2)
    await cancel(any_store)
    before = await read_shard(any_store, shard)
    assert await cancel(any_store) == []
    assert await read_shard(any_store, shard) == before


async def test_the_note_is_left_out_where_there_is_none(any_store: Store) -> None:
    shard = await seed(any_store, at_once("job-0"))
    await cancel_executions(any_store, "job-0", NOW)
    assert (await read_shard(any_store, shard))["runs:job-0"][0][8] == "cancelled by api"


async def test_a_job_that_is_not_there_has_nothing_to_cancel(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound, match="job-0"):
        await cancel(any_store)
    assert await read_shard(any_store, shard) == {}
