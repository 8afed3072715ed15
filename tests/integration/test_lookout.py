"""How the fire loop looks: no due job is seen later than with a whole look each time, and a shard
in which nothing is due costs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from fleet import fired, keep
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    QUEUE,
    job_ids,
    registration,
    small,
)

from engine.clock import ManualClock
from engine.lookout import WHOLE_MS, Lookout
from engine.model import Overlap
from engine.scripts import Call, Scripts
from engine.shards import Lease
from engine.store import Store
from engine.store.due import Peek
from engine.store.jobs import create_jobs, run_job

LIMIT = 100
HALF = NOW + MINUTE // 2
"""Far from the ends of a minute."""


class Counting(Scripts):
    """Remembers the scripts that were run together."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trips: list[list[str]] = []

    async def run_many(self, calls: Sequence[Call]) -> list[Any]:
        self.trips.append([name for name, _, _ in calls])
        return await super().run_many(calls)


@pytest.fixture
def counting(store: Store) -> Counting:
    return Counting(store.client)


@pytest.fixture
def counted(store: Store, counting: Counting) -> Store:
    return replace(store, scripts=counting)


def home(store: Store, token: str = "1") -> list[Lease]:
    """Return a lease of the shard of job-0."""
    return [Lease(store.layout.shard_of("job-0"), token, 2 * NOW)]


async def look(lookout: Lookout, leases: Sequence[Lease]) -> Peek:
    [peek] = await lookout.look(leases, LIMIT)
    assert isinstance(peek, Peek)
    return peek


async def test_a_shard_in_which_nothing_is_due_costs_no_script(
    counted: Store, counting: Counting
) -> None:
    lookout, clock = Lookout(counted, clock := ManualClock(HALF)), clock
    await create_jobs(counted, [registration("job-0", next_run_at=HALF + 900)])
    assert await look(lookout, home(counted)) == Peek(HALF + 900, [])
    counting.trips.clear()
    for _ in range(8):
        clock.advance(50)
        assert await look(lookout, home(counted)) == Peek(HALF + 900, [])
    assert counting.trips == []


async def test_what_comes_into_this_minute_after_a_look_is_seen_before_it_is_due(
    store: Store,
) -> None:
    lookout, clock = Lookout(store, clock := ManualClock(HALF)), clock
    await create_jobs(store, [registration("job-0", next_run_at=HALF + 900)])
    await look(lookout, home(store))
    [_, other] = job_ids(store, 2)
    await create_jobs(store, [registration(other, next_run_at=HALF + 20)])
    assert await look(lookout, home(store)) == Peek(HALF + 20, [])
    clock.advance(20)
    found = await look(lookout, home(store))
    assert [name for part in found.slices for name, _ in part.members] == [
        f"{EVERY_MINUTE.id}|{other}".encode()
    ]


async def test_it_looks_again_when_the_minute_ends(store: Store) -> None:
    clock = ManualClock(NOW + MINUTE - 20)
    lookout = Lookout(store, clock)
    assert await look(lookout, home(store)) == Peek(None, [])
    await create_jobs(store, [registration("job-0", next_run_at=NOW + MINUTE + 5)])
    assert await look(lookout, home(store)) == Peek(NOW + MINUTE, [])
    clock.advance(20)
    assert await look(lookout, home(store)) == Peek(NOW + MINUTE + 5, [])


async def test_what_is_of_an_earlier_minute_waits_for_a_whole_look(store: Store) -> None:
    lookout, clock = Lookout(store, clock := ManualClock(HALF)), clock
    await look(lookout, home(store))
    await create_jobs(store, [registration("job-0", next_run_at=NOW - MINUTE)])
    assert (await look(lookout, home(store))).slices == []
    clock.advance(WHOLE_MS)
    assert [part.bucket for part in (await look(lookout, home(store))).slices] == [
        str(int(BUCKET) - 1)
    ]


async def test_what_waits_for_room_is_looked_for_at_once(store: Store) -> None:
    store = small(store, max_ready=1)
    lookout = Lookout(store, ManualClock(HALF))
    await create_jobs(store, [registration("job-0", next_run_at=None, overlap=Overlap.ALLOW)])
    await look(lookout, home(store))
    for _ in range(2):
        await run_job(store, "job-0", HALF)
    shard = store.layout.shard_of("job-0")
    await store.client.xtrim(shard.ready(QUEUE), maxlen=0)
    found = await look(lookout, home(store))
    assert [part.bucket for part in found.slices] == [f"@{QUEUE}"]
    # What was taken out of the stream behind the engine's back leaves its record.
    await store.client.flushdb()


async def test_a_new_lease_begins_with_a_whole_look(counted: Store, counting: Counting) -> None:
    lookout = Lookout(counted, ManualClock(HALF))
    await look(lookout, home(counted))
    await look(lookout, home(counted, token="2"))
    assert counting.trips == [["peek_due"]] * 2


async def test_what_little_is_due_in_several_shards_is_committed_in_one_round_trip(
    counted: Store, counting: Counting
) -> None:
    shards = len(counted.layout.shards)
    await create_jobs(counted, [registration(f"job-{n}") for n in range(40)])
    keeper, scheduler = keep(counted, ManualClock(NOW))
    await keeper.step()
    counting.trips.clear()
    await scheduler.step()
    trips = [trip for trip in counting.trips if "peek_starts" not in trip]
    assert trips == [["peek_due"] * shards, ["fire_due"] * shards]
    assert len(await fired(counted)) == 40
