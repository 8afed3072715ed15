"""Relays that die, fail or stall between any two commands lose nothing and double nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from breaking import Cut, Wire, over
from conftest import open_real
from fleet import REFUSED
from linking import Flow, became, depends, make, outbox_of
from seeding import NOW

from engine.depends import Depends, Join
from engine.embedded import EmbeddedServer
from engine.store import Store

GRAPH: dict[str, str | Depends] = {
    "a": "",
    "x": "",
    "b": "a",
    "c": "a",
    "d": "b c",
    "e": depends("a x", Join.ANY),
    "f": "x",
    "g": "f",
    "h": "x/failed a",
    "i": "f/finished",
}
"""Jobs over four shards; x dies."""
RAN = {f"{name}@{NOW}": 1 for name in "axbcdehi"}
ENOUGH = 200
"""More commands than the relays make: a test that comes so far does not end."""

Break = Callable[[Flow, Wire], Awaitable[bool]]


async def die_and_be_replaced(flow: Flow, wire: Wire) -> bool:
    """Have a relay do all there is to do until its wire is cut; return whether it was."""
    relay = flow.new_relay(over(flow.store, wire))
    flow.relay = relay
    try:
        await flow.play()
    except Cut:
        flow.relay = flow.new_relay()
        await flow.play()
        return True
    return wire.was_cut


async def fail_once(flow: Flow, wire: Wire) -> bool:
    """Have a relay go on by itself after one call that failed."""
    wire.heals = True
    relay = flow.relay = flow.new_relay(over(flow.store, wire))
    try:
        await flow.play()
    except Cut:
        assert flow.relay is relay
        await flow.play()
    return wire.was_cut


async def stall_while_another_goes_on(flow: Flow, wire: Wire) -> bool:
    """Have a relay stall, another do all its work, and the first go on with what it has read."""
    wire.stalls = True
    await flow.scheduler.step()
    await flow.work()
    late = flow.new_relay(over(flow.store, wire))
    stalled = asyncio.create_task(late.step(block=False))
    waiting = asyncio.create_task(wire.has_stalled.wait())
    await asyncio.wait([stalled, waiting], return_when=asyncio.FIRST_COMPLETED)
    await flow.play()
    wire.goes_on.set()
    await stalled
    waiting.cancel()
    await flow.play()
    return wire.has_stalled.is_set()


@pytest.mark.parametrize("happens", [die_and_be_replaced, fail_once, stall_while_another_goes_on])
async def test_nothing_is_lost_and_nothing_doubled(server: EmbeddedServer, happens: Break) -> None:
    for after in range(ENOUGH):
        async with open_real(server) as store:
            await make(store, GRAPH)
            flow = Flow(store, {"x": [REFUSED]})
            await flow.begin()
            was_hit = await happens(flow, Wire(after))
            await check(store, flow, after)
        if not was_hit:
            assert after > 5
            return
    raise AssertionError("the relay makes more commands than expected")


async def check(store: Store, flow: Flow, after: int) -> None:
    assert flow.ran == RAN, after
    for name in "fg":
        assert await became(store, name) == ["upstream_failed"], (after, name)
    for name in GRAPH:
        assert len(await became(store, name)) == 1, (after, name)
        assert await outbox_of(store, name) == [], (after, name)


async def test_two_relays_at_once_start_each_execution_once(store: Store) -> None:
    await make(store, GRAPH)
    flow = Flow(store, {"x": [REFUSED]})
    await flow.begin()
    await flow.scheduler.step()
    relays = [flow.new_relay() for _ in range(3)]
    while await flow.work():
        await asyncio.gather(*(relay.step(block=False) for relay in relays))
    await flow.play()
    await check(store, flow, 0)
