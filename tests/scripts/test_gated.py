"""Gated jobs: each time of the schedule waits for its upstream jobs, and not for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import Keyspace, changes, read_shard
from linking import Teller, became, dependent, depends, make, outbox_of
from seeding import EVERY_MINUTE, MINUTE, NOW, fire, lease, result, small, take

from engine.depends import Depends, Join
from engine.errors import BadInput
from engine.model import JobState, Overlap, Rules, WorkerTarget
from engine.registration import Timing, register
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.due import Fired, fire_attempts
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, get_job
from engine.store.outcomes import late

GATE_MS = 10 * MINUTE
UNTIL = NOW + GATE_MS


async def begin(store: Store, on: str, join: Join = Join.ALL, **more: object) -> Teller:
    gated = depends(on, join, gate_ms=GATE_MS)
    made = dependent("z", gated, next_run_at=NOW, **more)
    job = replace(made.job, plan_id=EVERY_MINUTE.id)
    await create_jobs(store, [replace(made, job=job, plan=EVERY_MINUTE)])
    return Teller(store)


async def space_of(store: Store) -> Keyspace:
    return await read_shard(store, store.layout.shard_of("z"))


async def fire_z(store: Store, now: int = NOW) -> Fired:
    return await fire(store, store.layout.shard_of("z"), now)


async def test_a_time_waits_at_the_gate_until_its_deadline(any_store: Store) -> None:
    await begin(any_store, "a")
    before = await space_of(any_store)
    assert await fire_z(any_store) == Fired(fired=1)
    changed = changes(before, await space_of(any_store))
    assert changed["job:z"] == {
        f"x:{NOW}": f"gated:1:{UNTIL}",
        "live": "1",
        "next_run_at": str(NOW + MINUTE),
    }
    assert changed[f"due:{UNTIL // MINUTE}"] == {f"z@{NOW}": UNTIL}
    assert changed["ledger"] == [["gated", f"z@{NOW}", UNTIL]]
    assert not any(key.startswith("ready:") for key in changed)


async def test_what_it_waits_for_releases_it_with_what_it_gave(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    await fire_z(any_store)
    assert await teller.tell("z", "a", result=b"1", now=NOW + 5) == "noted"
    assert await teller.tell("z", "b", now=NOW + 7) == "fired"
    [delivery] = await take(any_store)
    assert (delivery.execution_id, delivery.attempt) == (f"z@{NOW}", 1)
    assert (delivery.upstream, delivery.is_late) == (b'{"a":1}', False)
    space = await space_of(any_store)
    assert f"due:{UNTIL // MINUTE}" not in space
    assert (space["job:z"]["live"], "awaiting" in space) == ("1", False)


async def test_what_came_before_the_time_opens_the_gate_at_once(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    assert await teller.tell("z", "a", result=b"1", now=NOW - 5) == "noted"
    assert await fire_z(any_store) == Fired(fired=1)
    [delivery] = await take(any_store)
    assert (delivery.execution_id, delivery.upstream) == (f"z@{NOW}", b'{"a":1}')
    assert "awaiting" not in await space_of(any_store)


async def test_another_time_does_not_open_it(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    await fire_z(any_store)
    assert await teller.tell("z", "a", time=NOW + MINUTE) == "noted"
    assert await take(any_store) == []


async def test_after_the_deadline_it_ends_as_late_and_says_so_to_those_below(
    any_store: Store,
) -> None:
    teller = await begin(any_store, "a")
    await make(any_store, {"y": "z"})
    await fire_z(any_store)
    shard = any_store.layout.shard_of("z")
    bucket = str(UNTIL // MINUTE)
    token = await lease(any_store, shard)
    members = [(f"z@{NOW}".encode(), UNTIL)]
    assert await fire_attempts(any_store, shard, token, "s1", bucket, members) == Fired(fired=1)
    # What comes now comes too late.
    assert await teller.tell("z", "a", now=UNTIL + 1) == "noted"
    [delivery] = await take(any_store)
    assert delivery.is_late
    await complete_executions(any_store, [late(delivery)], UNTIL + 2)
    assert await became(any_store, "z") == ["upstream_late"]
    assert await outbox_of(any_store, "z") == [("z", "skipped", f"z@{NOW}")]
    assert (await get_job(any_store, "z")).live == []


async def test_any_opens_at_the_first_and_the_second_starts_nothing(any_store: Store) -> None:
    teller = await begin(any_store, "a b", Join.ANY)
    await fire_z(any_store)
    assert await teller.tell("z", "a") == "fired"
    assert await teller.tell("z", "b") == "noted"
    assert len(await take(any_store)) == 1
    assert "awaiting" not in await space_of(any_store)


async def test_any_that_was_open_before_its_time_starts_once_too(any_store: Store) -> None:
    teller = await begin(any_store, "a b", Join.ANY)
    await teller.tell("z", "a")
    await fire_z(any_store)
    assert await teller.tell("z", "b") == "noted"
    assert len(await take(any_store)) == 1
    assert "awaiting" not in await space_of(any_store)


async def test_a_death_is_told_at_once_and_a_redriven_success_in_time_opens_it(
    any_store: Store,
) -> None:
    teller = await begin(any_store, "a")
    await make(any_store, {"y": "z"})
    await fire_z(any_store)
    assert await teller.tell("z", "a", "dead") == "blocked"
    assert await became(any_store, "z") == ["upstream_failed"]
    assert await outbox_of(any_store, "z") == []  # it may still run
    assert await teller.tell("z", "a", again=True) == "fired"
    assert len(await take(any_store)) == 1


async def test_released_it_waits_for_room_and_is_not_gated_again(any_store: Store) -> None:
    store = small(any_store, 1)
    teller = await begin(store, "a")
    await fire_z(store)
    await fire_z(store, NOW + MINUTE)
    assert await teller.tell("z", "a") == "fired"
    assert await teller.tell("z", "a", time=NOW + MINUTE, result=b"2") == "fired"
    [first] = await take(store)
    await complete_executions(store, [result(first)], NOW + MINUTE)
    await fire_z(store, NOW + MINUTE)
    [second] = [d for d in await take(store) if d.execution_id == f"z@{NOW + MINUTE}"]
    assert second.upstream == b'{"a":2}'


async def test_it_spends_its_executions_at_the_gate_once(any_store: Store) -> None:
    teller = await begin(any_store, "a", rules=Rules(max_runs=1))
    await fire_z(any_store)
    assert (await get_job(any_store, "z")).job.state is JobState.COMPLETED
    assert await teller.tell("z", "a") == "fired"
    space = await space_of(any_store)
    assert (space["job:z"]["runs_left"], len(space["ready:default"])) == ("0", 1)


async def test_overlap_skip_counts_what_waits_at_the_gate(any_store: Store) -> None:
    await begin(any_store, "a", overlap=Overlap.SKIP)
    await fire_z(any_store)
    assert await fire_z(any_store, NOW + MINUTE) == Fired(overlap=1)
    assert await became(any_store, "z") == ["overlap"]


async def test_what_waits_at_the_gate_can_be_cancelled(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    await make(any_store, {"y": "z"})
    await fire_z(any_store)
    assert await cancel_executions(any_store, "z", NOW + 1) == [NOW]
    assert await outbox_of(any_store, "z") == [("z", "cancelled", f"z@{NOW}")]
    assert await teller.tell("z", "a") == "noted"
    assert await take(any_store) == []


@pytest.mark.parametrize(
    "overlap", [Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.REPLACE, Overlap.AFTER_SUCCESS]
)
def test_a_gate_with_an_overlap_that_waits_or_ends_is_refused(overlap: Overlap) -> None:
    with pytest.raises(BadInput, match="a gate goes with overlap skip or allow"):
        gated(depends("a", gate_ms=5), overlap)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.ALLOW])
def test_a_gate_goes_with_skip_and_allow(overlap: Overlap) -> None:
    gated(depends("a", gate_ms=5), overlap)


def gated(on: Depends, overlap: Overlap) -> None:
    timing = Timing("* * * * *")
    register(now=NOW, target=WorkerTarget(), timing=timing, depends=on, overlap=overlap)
