"""Overlap policies: what a due job does about its older executions, and what their end starts."""

from __future__ import annotations

import pytest
from invariants import Keyspace, changes, read_shard
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    fire,
    registration,
    result,
    seed,
    small,
    take,
)

from engine.execution import Delivery, Outcome
from engine.keys import Shard
from engine.model import Overlap, Rules
from engine.store import Store
from engine.store.changes import pause_job
from engine.store.due import Fired
from engine.store.executions import Answer, complete_executions
from engine.store.jobs import get_job, run_job

RETRY_AT = NOW + 90_000


def at(minute: int) -> int:
    return NOW + minute * MINUTE


async def begin(store: Store, overlap: Overlap, rules: Rules | None = None) -> Shard:
    """Create job-0 and fire its first time."""
    shard = await seed(store, registration("job-0", overlap=overlap, rules=rules))
    assert await fire(store, shard) == Fired(fired=1)
    return shard


async def end(store: Store, outcome: Outcome = Outcome.SUCCEEDED, now: int = NOW) -> Delivery:
    """Take the one delivery that there is, and end it; return it."""
    [delivery] = await take(store)
    retry_at = RETRY_AT if outcome is Outcome.FAILED else None
    assert await complete_executions(store, [result(delivery, outcome, retry_at)], now) == [
        Answer.DONE
    ]
    return delivery


async def job(store: Store, shard: Shard) -> dict[str, str]:
    found: dict[str, str] = (await read_shard(store, shard))["job:job-0"]
    return found


def skipped(space: Keyspace) -> list[tuple[int, str]]:
    """Return (nominal time, reason) of what the history of job-0 says was skipped."""
    return [(r[0], r[5]) for r in space.get("runs:job-0", []) if r[1] == "skipped"]


# queue_one and queue_all


@pytest.mark.parametrize("overlap", [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.AFTER_SUCCESS])
async def test_a_time_that_waits_changes_only_the_job(any_store: Store, overlap: Overlap) -> None:
    shard = await begin(any_store, overlap)
    before = await read_shard(any_store, shard)
    assert await fire(any_store, shard, at(1)) == Fired(fired=1)
    changed = changes(before, await read_shard(any_store, shard))
    assert changed["job:job-0"] == {"next_run_at": str(at(2)), "queued": str(at(1))}
    assert changed.keys() <= {"job:job-0", "buckets", f"due:{int(BUCKET) + 1}"} | {
        f"due:{int(BUCKET) + 2}",
        "fence",
    }
    assert (await get_job(any_store, "job-0")).job.queued == (at(1),)


async def test_queue_one_keeps_the_first_and_skips_further_ones(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ONE)
    assert await fire(any_store, shard, at(1)) == Fired(fired=1)
    assert await fire(any_store, shard, at(2)) == Fired(overlap=1)
    assert await fire(any_store, shard, at(3)) == Fired(overlap=1)
    after = await read_shard(any_store, shard)
    assert after["job:job-0"]["queued"] == str(at(1))
    assert skipped(after) == [(at(2), "overlap"), (at(3), "overlap")]


async def test_queue_all_keeps_a_hundred_and_skips_further_ones(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL)
    for minute in range(1, 101):
        assert await fire(any_store, shard, at(minute)) == Fired(fired=1)
    assert await fire(any_store, shard, at(101)) == Fired(overlap=1)
    after = await read_shard(any_store, shard)
    assert (await get_job(any_store, "job-0")).job.queued == tuple(map(at, range(1, 101)))
    assert skipped(after) == [(at(101), "overlap")]


async def test_the_end_of_an_execution_starts_the_oldest_that_waits(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL)
    await fire(any_store, shard, at(1))
    await fire(any_store, shard, at(2))
    before = await read_shard(any_store, shard)
    await end(any_store, now=at(2) + 5)
    changed = changes(before, await read_shard(any_store, shard))
    assert changed["job:job-0"] == {
        f"x:{NOW}": None,
        f"x:{at(1)}": f"due:1:{at(2) + 5}",
        "queued": str(at(2)),
        "last": "succeeded",
    }
    assert changed[f"due:{int(BUCKET) + 2}"] == {f"job-0@{at(1)}": at(2) + 5}


async def test_what_waits_runs_in_turn_and_nothing_twice(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL)
    for minute in (1, 2, 3):
        await fire(any_store, shard, at(minute))
    nominal = []
    for _ in range(4):
        nominal.append((await end(any_store, now=at(3))).nominal_at)
        await fire(any_store, shard, at(3))
    assert nominal == [at(0), at(1), at(2), at(3)]
    assert "queued" not in await job(any_store, shard)
    assert await take(any_store) == []
    assert await fire(any_store, shard, at(4)) == Fired(fired=1)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.DEAD, Outcome.SKIPPED])
async def test_any_end_starts_what_a_queue_holds(any_store: Store, outcome: Outcome) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ONE)
    await fire(any_store, shard, at(1))
    await end(any_store, outcome, now=at(1))
    assert (await job(any_store, shard))[f"x:{at(1)}"] == f"due:1:{at(1)}"


async def test_a_retry_to_come_is_no_end(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ONE)
    await fire(any_store, shard, at(1))
    await end(any_store, Outcome.FAILED, now=at(1))
    assert (await job(any_store, shard))["queued"] == str(at(1))


async def test_what_waits_goes_on_while_its_job_is_paused(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ONE)
    await fire(any_store, shard, at(1))
    await pause_job(any_store, "job-0", at(1))
    await end(any_store, now=at(1))
    assert await fire(any_store, shard, at(1)) == Fired(fired=1)
    assert (await end(any_store)).nominal_at == at(1)


async def test_an_end_that_is_sent_again_starts_nothing_more(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.QUEUE_ALL)
    await fire(any_store, shard, at(1))
    await fire(any_store, shard, at(2))
    delivery = await end(any_store, now=at(2))
    before = await read_shard(any_store, shard)
    assert await complete_executions(any_store, [result(delivery)], at(2)) == [Answer.ALREADY]
    assert await read_shard(any_store, shard) == before


# replace


async def test_a_newer_execution_replaces_one_that_runs_and_its_holder_is_stale(
    any_store: Store,
) -> None:
    shard = await begin(any_store, Overlap.REPLACE)
    [running] = await take(any_store)
    before = await read_shard(any_store, shard)

    assert await fire(any_store, shard, at(1)) == Fired(fired=1)

    after = await read_shard(any_store, shard)
    changed = changes(before, after)
    [entry] = after["ready:default"]
    record = [NOW, "skipped", NOW, 1, 1, "replaced"]
    assert changed["job:job-0"] == {
        "next_run_at": str(at(2)),
        f"x:{NOW}": None,
        f"x:{at(1)}": f"ready:1:{entry}",
    }
    assert after["job:job-0"]["live"] == "1"
    assert changed["pending:default"] == {running.entry_id: None}
    assert changed["runs:job-0"] == [record]
    assert changed["ledger"] == [
        ["fired", f"job-0@{at(1)}", 1, at(1), "default"],
        ["skipped", "job-0", record],
    ]
    assert await complete_executions(any_store, [result(running)], at(1)) == [Answer.STALE]
    assert await read_shard(any_store, shard) == after


async def test_a_newer_execution_replaces_one_that_nobody_has_started(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.REPLACE)
    await fire(any_store, shard, at(1))
    [delivery] = await take(any_store)
    assert delivery.nominal_at == at(1)
    assert skipped(await read_shard(any_store, shard)) == [(NOW, "replaced")]


@pytest.mark.parametrize("retry_at", [at(1), at(1) + 5, at(5)])
async def test_a_newer_execution_replaces_one_that_waits_for_its_retry(
    any_store: Store, retry_at: int
) -> None:
    """Also where the retry is due in the same minute, so that one bucket holds both."""
    shard = await begin(any_store, Overlap.REPLACE)
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first, Outcome.FAILED, retry_at)], NOW)
    await fire(any_store, shard, at(1))
    after = await read_shard(any_store, shard)
    assert [name for name in after["job:job-0"] if name.startswith("x:")] == [f"x:{at(1)}"]
    assert skipped(after) == [(NOW, "replaced")]
    assert await fire(any_store, shard, retry_at) == Fired(fired=retry_at == at(5))


async def test_all_that_is_live_is_replaced(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.REPLACE)
    await run_job(any_store, "job-0", NOW + 5)
    await fire(any_store, shard, at(1))
    after = await read_shard(any_store, shard)
    assert after["job:job-0"]["live"] == "1"
    assert sorted(skipped(after)) == [(NOW, "replaced"), (NOW + 5, "replaced")]


async def test_nothing_is_replaced_while_the_newer_one_has_no_room(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await begin(store, Overlap.REPLACE)
    before = await read_shard(store, shard)
    assert await fire(store, shard, at(1)) == Fired(held=1)
    changed = changes(before, await read_shard(store, shard))
    assert "job:job-0" not in changed
    assert changed["due:@default"] == {f"{EVERY_MINUTE.id}|job-0": at(1)}


# after_success


async def test_after_a_dead_one_times_wait_until_a_run_by_hand_succeeds(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.AFTER_SUCCESS)
    await end(any_store, Outcome.DEAD)
    for minute in (1, 2):
        assert await fire(any_store, shard, at(minute)) == Fired(fired=1)
    assert await take(any_store) == []
    assert (await job(any_store, shard))["queued"] == f"{at(1)} {at(2)}"

    await run_job(any_store, "job-0", at(2) + 5)
    await end(any_store, now=at(2) + 6)
    assert await fire(any_store, shard, at(2) + 6) == Fired(fired=1)
    assert (await end(any_store, now=at(2) + 7)).nominal_at == at(1)
    assert (await job(any_store, shard))[f"x:{at(2)}"] == f"due:1:{at(2) + 7}"


async def test_a_run_by_hand_that_is_dead_too_releases_nothing(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.AFTER_SUCCESS)
    await end(any_store, Outcome.DEAD)
    await fire(any_store, shard, at(1))
    await run_job(any_store, "job-0", at(1) + 5)
    await end(any_store, Outcome.DEAD)
    assert (await job(any_store, shard))["queued"] == str(at(1))


@pytest.mark.parametrize(("first", "starts"), [(Outcome.SUCCEEDED, True), (Outcome.DEAD, False)])
async def test_one_that_was_never_started_leaves_the_last_word_to_the_one_before(
    any_store: Store, first: Outcome, starts: bool
) -> None:
    shard = await begin(any_store, Overlap.AFTER_SUCCESS)
    await end(any_store, first)
    await run_job(any_store, "job-0", NOW + 5)
    await fire(any_store, shard, at(1))
    await end(any_store, Outcome.SKIPPED, now=at(1))
    assert ("queued" in await job(any_store, shard)) is not starts


async def test_after_a_success_the_next_time_fires_at_once(any_store: Store) -> None:
    shard = await begin(any_store, Overlap.AFTER_SUCCESS)
    await end(any_store)
    await fire(any_store, shard, at(1))
    assert (await end(any_store)).nominal_at == at(1)
