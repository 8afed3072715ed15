"""Shards: who holds which, how they move as schedulers come and go, how long a lease is trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from fleet import Wire, already_set, expire_leases, keep
from seeding import NOW

from engine.clock import ManualClock
from engine.errors import Fenced
from engine.keys import SCHEDULERS
from engine.scripts import Call, Scripts
from engine.shards import LOOK_MS, ShardKeeper, choose
from engine.store import Store, leases
from engine.store.due import fire_due

Holders = list[str | None]
SHARDS = 16


def look(holder: str, live: Sequence[str], seen: Holders, holders: Holders) -> None:
    """Do as a keeper does that saw `seen`: give back, then take what is still free."""
    chosen = choose(holder, live, seen)
    for index, name in enumerate(holders):
        if name == holder and index not in chosen:
            holders[index] = None
        elif name is None and index in chosen:
            holders[index] = holder


def settle(live: Sequence[str], holders: Holders, *, at_once: bool = False) -> Holders:
    """Return who holds what once looking changes nothing. `at_once`: all look, then all act."""
    now = holders.copy()
    for _ in range(20):
        before = now.copy()
        for holder in live:
            look(holder, live, before if at_once else now, now)
        if now == before:
            return now
    raise AssertionError(f"{live} still move shards: {now}")


def moved(before: Holders, after: Holders) -> int:
    return sum(a is not None and a != b for a, b in zip(before, after, strict=True))


def names(count: int) -> list[str]:
    return [f"s{n}" for n in range(count)]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 20])
def test_shards_spread_evenly(count: int, at_once: bool) -> None:
    held = Counter(settle(names(count), [None] * SHARDS, at_once=at_once))
    shares = [held[name] for name in names(count)]
    assert sum(shares) == SHARDS
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("few", "many"), list(pairwise([1, 2, 3, 4, 5])))
def test_a_scheduler_that_joins_gets_its_share_and_nothing_else_moves(
    few: int, many: int, at_once: bool
) -> None:
    before = settle(names(few), [None] * SHARDS)
    after = settle(names(many), before, at_once=at_once)
    newcomers = [index for index, name in enumerate(after) if name not in names(few)]
    assert len(newcomers) == SHARDS // many == moved(before, after)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_scheduler_that_leaves_moves_its_own_shards_only(count: int, at_once: bool) -> None:
    before = settle(names(count), [None] * SHARDS)
    for leaver in names(count):
        live = [name for name in names(count) if name != leaver]
        orphaned = [None if name == leaver else name for name in before]
        after = settle(live, orphaned, at_once=at_once)
        assert None not in after
        assert moved(orphaned, after) == 0


def test_whoever_holds_one_more_than_the_others_keeps_it() -> None:
    holders: Holders = [*["s0"] * 5, *["s1"] * 5, *["s2"] * 6]
    assert settle(names(3), holders) == holders


def test_a_scheduler_that_is_not_live_gets_nothing() -> None:
    assert choose("s9", ["s0"], [None, "s0"]) == []


async def test_two_keepers_share_the_shards_and_none_is_held_twice(store: Store) -> None:
    clock = ManualClock(NOW)
    one, two = (keep(store, clock, holder)[0] for holder in ("s1", "s2"))
    for _ in range(3):
        await one.step()
        await two.step()
    held = [[lease.shard.index for lease in keeper.trusted()] for keeper in (one, two)]
    assert [len(shards) for shards in held] == [2, 2]
    assert sorted(held[0] + held[1]) == [0, 1, 2, 3]


async def test_a_lease_is_trusted_for_its_ttl_on_the_monotonic_clock(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(store, clock)
    await keeper.step()
    [first, *_] = keeper.trusted()
    clock.advance(store.config.lease_ttl_ms - 1)
    assert keeper.is_trusted(first)
    clock.advance(1)
    assert not keeper.is_trusted(first)
    assert keeper.trusted() == []


async def test_trust_counts_from_before_the_lease_was_asked_for(store: Store) -> None:
    clock = ManualClock(NOW)

    class Slow(Scripts):
        async def run_many(self, calls: Sequence[Call]) -> list[Any]:
            clock.advance(400)
            return await super().run_many(calls)

    keeper, _ = keep(replace(store, scripts=Slow(store.client)), clock)
    await keeper.step()
    clock.advance(store.config.lease_ttl_ms - 401)
    assert len(keeper.trusted()) == 4
    clock.advance(1)
    assert keeper.trusted() == []


async def test_extending_keeps_the_token_and_moves_the_trust_on(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(store, clock)
    await keeper.step()
    before = keeper.trusted()
    clock.advance(store.config.lease_ttl_ms - 1)
    await keeper.step()
    after = keeper.trusted()
    assert [lease.token for lease in after] == [lease.token for lease in before]
    assert all(
        late.trusted_until - early.trusted_until == store.config.lease_ttl_ms - 1
        for early, late in zip(before, after, strict=True)
    )


async def test_a_lease_lost_and_granted_again_has_a_greater_token(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(store, clock)
    await keeper.step()
    [old, *_] = keeper.trusted()
    await expire_leases(store, "s1")
    await keeper.step()
    [new, *_] = keeper.trusted()
    assert int(new.token) > int(old.token)
    assert not keeper.is_trusted(old)
    with pytest.raises(Fenced):
        await fire_due(store, old.shard, old.token, "s1", "0", [])


async def test_dropping_an_old_lease_leaves_the_newer_one_of_its_shard(store: Store) -> None:
    keeper, _ = keep(store, ManualClock(NOW))
    await keeper.step()
    [old, *_] = keeper.trusted()
    await expire_leases(store, "s1")
    await keeper.step()
    keeper.drop(old)
    assert len(keeper.trusted()) == 4
    keeper.drop(keeper.trusted()[0])
    assert len(keeper.trusted()) == 3


async def test_a_silent_scheduler_is_replaced_once_its_leases_are_gone(store: Store) -> None:
    silent, _ = keep(store, ManualClock(NOW), "s1")
    await silent.step()
    later = ManualClock(NOW + store.config.lease_ttl_ms)
    heir, _ = keep(store, later, "s2")
    await heir.step()
    assert heir.trusted() == []
    await expire_leases(store, "s1")
    await heir.step()
    assert len(heir.trusted()) == 4
    assert await store.client.zrange(SCHEDULERS, 0, -1) == [b"s2"]


async def test_the_next_look_comes_when_the_first_foreign_lease_may_run_out(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(store, clock, "s1")
    assert await keeper.step() == LOOK_MS
    await store.client.pexpire(store.layout.shards[2].lease, 200)
    other, _ = keep(store, clock, "s2")
    assert 0 < await other.step() <= 201


async def test_a_keeper_that_stops_gives_its_leases_and_its_name_back(store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(store, clock)
    await keeper.step()
    await keeper.run(already_set())
    assert keeper.trusted() == []
    assert await leases.read_holders(store) == [(None, -2)] * 4
    assert not await store.client.exists(SCHEDULERS)


async def test_a_keeper_that_stops_leaves_alone_what_another_holds_by_now(store: Store) -> None:
    keeper, _ = keep(store, ManualClock(NOW), "s1")
    await keeper.step()
    await expire_leases(store, "s1")
    heir = ShardKeeper(store, ManualClock(NOW + store.config.lease_ttl_ms), "s2")
    await heir.step()
    await keeper.run(already_set())
    assert [holder for holder, _ in await leases.read_holders(store)] == ["s2"] * 4


async def test_a_keeper_stops_although_the_server_is_away(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(store)
    keeper, _ = keep(replace(store, scripts=wire), ManualClock(NOW))
    await keeper.step()
    wire.down = True
    await keeper.run(already_set())
    assert "could not give leases back" in caplog.text
