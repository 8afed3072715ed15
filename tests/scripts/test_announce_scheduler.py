"""announce_scheduler: who is alive, and when the deployment starts."""

from __future__ import annotations

import asyncio

from seeding import NOW

from engine.keys import SCHEDULERS, STARTS, slot_of
from engine.store import Store
from engine.store.leases import announce_scheduler, forget_scheduler, read_starts

TTL = 10_000


async def begin(store: Store, name: str, now: int = NOW) -> list[str]:
    return await announce_scheduler(store, name, now, begins=True)


async def test_the_first_to_begin_starts_the_deployment(any_store: Store) -> None:
    assert await begin(any_store, "s1") == ["s1"]
    assert any_store.starts == [NOW] == await read_starts(any_store)


async def test_who_joins_or_goes_on_starts_nothing(any_store: Store) -> None:
    await begin(any_store, "s1")
    assert await begin(any_store, "s2", NOW + 1) == ["s1", "s2"]
    await announce_scheduler(any_store, "s1", NOW + TTL - 1)
    assert await begin(any_store, "s3", NOW + TTL) == ["s1", "s2", "s3"]
    assert any_store.starts == [NOW]


async def test_one_that_takes_over_starts_nothing_while_the_dead_one_may_live(
    any_store: Store,
) -> None:
    await begin(any_store, "s1")
    assert await begin(any_store, "s2", NOW + TTL - 1) == ["s1", "s2"]
    assert await announce_scheduler(any_store, "s2", NOW + TTL) == ["s2"]
    assert any_store.starts == [NOW]


async def test_once_all_are_gone_or_have_left_the_next_one_starts_it_again(
    any_store: Store,
) -> None:
    await begin(any_store, "s1")
    assert await begin(any_store, "s2", NOW + TTL) == ["s2"]
    await forget_scheduler(any_store, "s2")
    await begin(any_store, "s3", NOW + TTL + 1)
    assert any_store.starts == [NOW, NOW + TTL, NOW + TTL + 1]


async def test_of_several_that_begin_at_once_one_starts_it(store: Store) -> None:
    await asyncio.gather(*(begin(store, f"s{n}", NOW + n) for n in range(20)))
    assert len(await read_starts(store)) == 1


async def test_one_that_was_away_for_long_starts_nothing(any_store: Store) -> None:
    await begin(any_store, "s1")
    await announce_scheduler(any_store, "s1", NOW + 10 * TTL)
    await any_store.client.delete(SCHEDULERS)
    await announce_scheduler(any_store, "s1", NOW + 20 * TTL)
    assert any_store.starts == [NOW]


async def test_one_whose_answer_was_lost_starts_nothing_more(any_store: Store) -> None:
    await begin(any_store, "s1")
    await begin(any_store, "s1", NOW + 700)
    assert any_store.starts == [NOW]


async def test_a_start_comes_after_those_before_it_whatever_the_clock_says(
    any_store: Store,
) -> None:
    for at in (NOW, NOW - 5_000):
        await begin(any_store, "s1", at)
        await forget_scheduler(any_store, "s1")
    assert any_store.starts == [NOW, NOW + 1]


async def test_a_hundred_starts_are_kept(any_store: Store) -> None:
    for n in range(103):
        await begin(any_store, "s1", NOW + n)
        await forget_scheduler(any_store, "s1")
    assert any_store.starts == [NOW + n for n in range(3, 103)]


def test_both_keys_lie_in_one_slot() -> None:
    tag = STARTS.partition("{")[2].partition("}")[0]
    assert tag == SCHEDULERS
    assert slot_of(tag) == slot_of(SCHEDULERS)
