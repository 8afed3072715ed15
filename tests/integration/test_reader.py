"""What a worker reads next, on a real server: weights, priorities, pauses, and never too much."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from seeding import AT_ONCE, NOW, registration

from engine import reading
from engine.execution import Delivery
from engine.names import Priority, split_stream
from engine.reading import Reader
from engine.store import Store
from engine.store.executions import complete_executions, hand_back_executions, read_ready
from engine.store.jobs import create_jobs
from engine.store.limits import QueueSettings, write_queue
from engine.store.outcomes import expired
from engine.store.queues import count_unread, find_stale

HIGH, NORMAL, LOW = Priority


async def offer(
    store: Store, count: int, queue: str = "a", priority: Priority = NORMAL, prefix: str = ""
) -> None:
    """Put executions of that many jobs into a queue."""
    made = [
        registration(f"{prefix}{queue}-{priority}-{n}", AT_ONCE, next_run_at=None, run_at=NOW)
        for n in range(count)
    ]
    await create_jobs(
        store, [replace(r, job=replace(r.job, queue=queue, priority=priority)) for r in made]
    )


def reader(store: Store, **weights: int) -> Reader:
    return Reader(store, weights or {"a": 1}, "w1")


async def read(reader: Reader, free: int) -> Counter[tuple[str, Priority]]:
    """Return how much was read of which queue and priority."""
    found = await reader.read(free, block=False)
    return Counter(split_stream(delivery.queue) for delivery in found)


async def test_the_most_urgent_of_a_queue_is_read_first_and_the_rest_follows(store: Store) -> None:
    for priority in (LOW, NORMAL, HIGH):
        await offer(store, 30, priority=priority)
    reads = reader(store)
    assert await read(reads, 20) == {("a", HIGH): 20}
    assert await read(reads, 20) == {("a", HIGH): 10, ("a", NORMAL): 10}
    assert await read(reads, 50) == {("a", NORMAL): 20, ("a", LOW): 30}
    assert await read(reads, 50) == {}


async def test_what_becomes_urgent_overtakes_a_backlog(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LOOK_MS", -1)
    await offer(store, 100)
    reads = reader(store)
    assert await read(reads, 10) == {("a", NORMAL): 10}
    await offer(store, 3, priority=HIGH)
    assert await read(reads, 10) == {("a", HIGH): 3, ("a", NORMAL): 7}


@pytest.mark.parametrize("free", [1, 3, 8, 100])
async def test_a_busy_queue_leaves_the_others_their_share(store: Store, free: int) -> None:
    await offer(store, 400, "busy")
    await offer(store, 100, "mail", LOW)
    reads = reader(store, busy=1, mail=3)
    got: Counter[tuple[str, Priority]] = Counter()
    while got.total() < 100:
        got += await read(reads, min(free, 100 - got.total()))
    assert abs(got["mail", LOW] - 75) <= 2


async def test_the_share_of_an_idle_queue_goes_to_the_others(store: Store) -> None:
    await offer(store, 50, "busy")
    reads = reader(store, busy=1, mail=9)
    assert await read(reads, 40) == {("busy", NORMAL): 40}


@pytest.mark.parametrize("free", [1, 2, 7, 8, 11, 30])
async def test_a_backlog_never_gives_more_than_there_are_slots(store: Store, free: int) -> None:
    for queue in "ab":
        for priority in Priority:
            await offer(store, 9, queue, priority)
    reads = reader(store, a=1, b=1)
    left = 54
    while left:
        found = await read(reads, free)
        assert found.total() == min(free, left)
        left -= found.total()


@pytest.mark.parametrize("free", [12, 20, 40])
async def test_a_burst_after_a_quiet_time_gives_no_more_than_there_are_slots(
    store: Store, free: int
) -> None:
    reads = reader(store)
    await read(reads, free)
    for priority in Priority:
        await offer(store, 100, priority=priority)
    assert (await read(reads, free)).total() <= free
    assert await read(reads, free) == {("a", HIGH): free}, "and then it goes in order"


async def test_all_of_a_lonely_shard_is_read_at_once(store: Store) -> None:
    await offer(store, 40)
    per_shard = Counter(d.shard for d in await reader(store).read(100, block=False))
    assert per_shard.total() == 40
    assert set(per_shard) == {0, 1, 2, 3}


async def test_a_paused_queue_is_not_read_until_it_is_resumed(store: Store) -> None:
    await offer(store, 5, "a")
    await offer(store, 5, "b")
    reads = reader(store, a=1, b=1)
    await write_queue(store, "a", QueueSettings(paused=True))
    assert await read(reads, 100) == {("b", NORMAL): 5}
    await write_queue(store, "b", QueueSettings(paused=True))
    store.limits = None  # what was known of them is old by now
    assert await read(reads, 100) == {}
    await write_queue(store, "a", QueueSettings())
    store.limits = None
    assert await read(reads, 100) == {("a", NORMAL): 5}


async def test_a_pause_that_others_set_is_known_after_a_second(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([10.0, 10.9, 11.0])
    reads = reader(store)
    watch = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("engine.store.limits.time", watch)
    assert await read(reads, 100) == {}
    await write_queue(store, "a", QueueSettings(paused=True))
    await offer(store, 1, prefix="x-")
    assert await read(reads, 100) == {("a", NORMAL): 1}
    await offer(store, 1, prefix="y-")
    assert await read(reads, 100) == {}


@pytest.mark.parametrize(("free", "reads_most"), [(100, 1), (1, 2)])
async def test_an_idle_queue_costs_few_round_trips(
    store: Store, monkeypatch: pytest.MonkeyPatch, free: int, reads_most: int
) -> None:
    reads = reader(store, a=1, b=1, c=1)
    await read(reads, free)
    calls: Counter[str] = Counter()

    async def counted(store: Store, *args: object, **options: object) -> list[Delivery]:
        calls["read"] += 1
        return await read_ready(store, *args, **options)  # type: ignore[arg-type]

    async def looked(store: Store, streams: object) -> dict[object, int]:
        calls["look"] += 1
        return await count_unread(store, streams)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(reading, "read_ready", counted)
    monkeypatch.setattr(reading, "count_unread", looked)
    assert await read(reads, free) == {}
    assert calls["read"] == 1
    assert calls.total() <= reads_most


# What the looks themselves find


async def test_what_nobody_has_read_is_counted_whatever_was_deleted_around_it(
    store: Store,
) -> None:
    await offer(store, 12)
    shard = store.layout.shards[0]
    streams = [("a", shard) for shard in store.layout.shards]
    before = await count_unread(store, streams)
    assert sum(before.values()) == 12
    taken = await read_ready(store, streams, "w1", 1, block=False)
    await complete_executions(store, [expired(d) for d in taken if d.shard == 1], NOW)
    await hand_back_executions(store, [d for d in taken if d.shard == 2])
    last = (await store.client.xrevrange(shard.ready("a"), count=1))[0][0]
    await store.client.xdel(shard.ready("a"), last)  # one that nobody has read
    try:
        gone = {0: 2, 1: 1, 2: 0, 3: 1}
        after = await count_unread(store, streams)
        assert after == {(q, s): before[q, s] - gone[s.index] for q, s in streams}
    finally:
        await store.client.flushdb()  # an entry without its job's knowledge breaks the invariants


async def test_a_stream_that_nobody_has_read_yet_gets_its_group_with_the_first_look(
    store: Store,
) -> None:
    await offer(store, 8)
    streams = [("a", shard) for shard in store.layout.shards]
    assert sum((await count_unread(store, streams)).values()) == 8
    for _, shard in streams:
        assert await store.client.xinfo_groups(shard.ready("a"))
    assert await find_stale(store, [*streams, ("never", store.layout.shards[0])]) == []
