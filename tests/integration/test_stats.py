"""Rates and lateness of the last seconds, and the tail of the ledger that they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from fleet import with_config
from seeding import NOW

from engine.keys import Shard
from engine.store import Store
from engine.store.stats import WINDOW_MS, Stats, percentile, read_stats
from engine.store.tail import FIRST_LOOK, read_tails

Event = Sequence[object]


def fired(lag_ms: int, at: int, attempt: int = 1) -> Event:
    return ["fired", f"a@{NOW}", attempt, at - lag_ms, "default"]


def ended(outcome: str, error: str | None = None) -> Event:
    return [outcome, f"a@{NOW}", [NOW, outcome, 1, 1, "w1", 5, 10, 500, error]]


SKIPPED: Event = ["skipped", "a", [NOW, "skipped", NOW, 1, 1, "overlap"]]


async def tell(store: Store, shard: Shard, at: int, *events: Event) -> None:
    """Add an entry to a ledger, as it stands when a script adds it at a time."""
    text = "\n".join(json.dumps(event) for event in events)
    await store.client.xadd(shard.ledger, {"events": text}, id=f"{at}-*")


async def test_nothing_happened(store: Store) -> None:
    assert await read_stats(store, NOW) == Stats(NOW, WINDOW_MS, False, 0, 0, 0, 0, None, None, [])


async def test_rates_are_those_of_ten_seconds_over_all_shards(store: Store) -> None:
    first, second, *_ = store.layout.shards
    await tell(store, first, NOW - WINDOW_MS - 1, fired(1, NOW), ended("succeeded"))
    await tell(store, first, NOW - 9_000, fired(5, NOW - 9_000), fired(90, NOW - 9_000))
    await tell(store, second, NOW - 5, fired(7, NOW - 5), ended("succeeded"), SKIPPED)
    await tell(store, second, NOW - 4, ended("failed", "no"), ended("dead", "no more"))
    await tell(store, second, NOW - 3, fired(4_000, NOW - 3, attempt=2), ["paused", "a", {}])
    stats = await read_stats(store, NOW)
    assert (stats.window_ms, stats.is_sampled) == (WINDOW_MS, False)
    rates = (stats.fires, stats.completions, stats.failures, stats.skips)
    assert rates == pytest.approx((0.4, 0.1, 0.2, 0.1))
    # A retry has no lag: it was made to wait.
    assert (stats.lag_p50_ms, stats.lag_p99_ms) == (7, 90)


async def test_failures_are_told_newest_first(store: Store) -> None:
    shard = store.layout.shards[0]
    for n in range(12):
        await tell(store, shard, NOW - 100 + n, ended("failed", f"error {n}"))
    found = (await read_stats(store, NOW)).last_failures
    assert [failure.record.error for failure in found] == [f"error {n}" for n in range(11, 1, -1)]
    assert (found[0].at, found[0].execution_id) == (NOW - 89, f"a@{NOW}")


async def test_a_busy_shard_is_counted_over_the_time_that_was_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.stats.MOST_EVENTS", 4 * 50)
    busy, quiet, *_ = store.layout.shards
    for n in range(100):  # ten entries a ms, ten events each: 10,000 a second
        await tell(store, busy, NOW - 100 + n, *[fired(1, NOW - 100 + n)] * 10)
    await tell(store, quiet, NOW - 5_000, *[fired(1, NOW - 5_000)] * 10)
    stats = await read_stats(store, NOW)
    assert stats.is_sampled
    assert stats.window_ms == 5
    assert stats.fires == pytest.approx(10_000 + 1)


async def test_a_tail_is_read_in_growing_steps_to_its_beginning(store: Store) -> None:
    shard = store.layout.shards[0]
    count = FIRST_LOOK * 8
    for n in range(count):
        await tell(store, shard, NOW + n, fired(0, NOW + n))
    tails = await read_tails(store, NOW, most=10_000)
    assert [len(tail.events) for tail in tails] == [count, 0, 0, 0]
    assert [event.at for event in tails[0].events] == list(range(NOW + count - 1, NOW - 1, -1))
    assert {tail.since for tail in tails} == {NOW}


async def test_a_tail_begins_where_the_ledger_was_trimmed(store: Store) -> None:
    shard = store.layout.shards[0]
    for n in range(100):
        await tell(store, shard, NOW + n, fired(0, NOW + n))
    [tail, *_] = await read_tails(with_config(store, ledger_limit=100), 0, most=10_000)
    assert (tail.since, len(tail.events)) == (NOW, 100)
    [tail, *_] = await read_tails(with_config(store, ledger_limit=101), 0, most=10_000)
    assert tail.since == 0


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([4], 50, 4), ([1, 2], 50, 1), ([1, 2, 3], 50, 2), ([*range(1, 101)], 99, 99)],
)
def test_a_percentile_is_the_nearest_rank(
    values: list[int], percent: int, expected: int | None
) -> None:
    assert percentile(values, percent) == expected
