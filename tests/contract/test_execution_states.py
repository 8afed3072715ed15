"""Every operation against every place of an execution: what each answers, and that a refusal
changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product
from random import Random

import pytest
from invariants import read_shard
from seeding import LAPSES_AT, MINUTE, NOW, at_once, fire, grant, result, seed, take

from engine.codec import Promise
from engine.errors import StaleDelivery
from engine.execution import Delivery, Outcome
from engine.keys import Shard
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.effects import record_effect
from engine.store.executions import (
    Answer,
    complete_executions,
    hand_back_executions,
    heartbeat_executions,
)
from engine.store.letters import Redriven, redrive_letters
from engine.store.reports import report_end, report_running

EXECUTION = f"job-0@{NOW}"
PROMISE = Promise(EXECUTION, 1, NOW + 500, NOW + 9 * MINUTE)
FORGED = Delivery(0, "default", "1-1", "w1", 1, EXECUTION, 1, NOW, b"", b"", b"")


async def _begin(store: Store) -> Delivery:
    await seed(store, at_once("job-0"))
    [delivery] = await take(store)
    return delivery


async def _ended(store: Store, outcome: Outcome) -> Delivery:
    delivery = await _begin(store)
    retry_at = NOW + 900 if outcome is Outcome.FAILED else None
    await complete_executions(store, [result(delivery, outcome, retry_at)], NOW)
    return delivery


async def _waiting(store: Store) -> Delivery:
    await seed(store, at_once("job-0"))
    return FORGED


async def _held(store: Store) -> Delivery:
    await grant(store, store.layout.shard_of("job-0"), {"slots:q/default": "0"})
    return await _waiting(store)


async def _lapsed(store: Store) -> Delivery:
    delivery = await _ended(store, Outcome.ACCEPTED)
    await fire(store, store.layout.shards[delivery.shard], LAPSES_AT)
    return delivery


async def _cancelled(store: Store) -> Delivery:
    delivery = await _begin(store)
    await cancel_executions(store, "job-0", NOW)
    return delivery


PLACES: dict[str, Callable[[Store], Awaitable[Delivery]]] = {
    "held": _held,
    "waiting": _waiting,
    "running": _begin,
    "retrying": lambda store: _ended(store, Outcome.FAILED),
    "accepted": lambda store: _ended(store, Outcome.ACCEPTED),
    "lapsed": _lapsed,
    "succeeded": lambda store: _ended(store, Outcome.SUCCEEDED),
    "dead": lambda store: _ended(store, Outcome.DEAD),
    "cancelled": _cancelled,
}
"""How an execution comes to a place; what its consumer still believes to hold then."""


async def _complete(store: Store, delivery: Delivery, outcome: Outcome) -> bool:
    [answer] = await complete_executions(store, [result(delivery, outcome)], NOW)
    return answer is Answer.DONE


async def _heartbeat(store: Store, delivery: Delivery) -> bool:
    [is_held] = await heartbeat_executions(store, [delivery])
    return is_held


async def _hand_back(store: Store, delivery: Delivery) -> bool:
    [is_back] = await hand_back_executions(store, [delivery])
    return is_back


async def _record(store: Store, delivery: Delivery) -> bool:
    try:
        await record_effect(store, delivery, "pay", b"receipt")
    except StaleDelivery:
        return False
    return True


async def _report(store: Store, _: Delivery) -> bool:
    answer = await report_end(store, PROMISE, NOW + 900, succeeded=True, rng=Random(1))
    return answer is Answer.DONE


async def _report_running(store: Store, _: Delivery) -> bool:
    return await report_running(store, PROMISE, NOW + 900, LAPSES_AT + 5)


async def _cancel(store: Store, _: Delivery) -> bool:
    return await cancel_executions(store, "job-0", NOW) == [NOW]


async def _redrive(store: Store, _: Delivery) -> bool:
    return (await redrive_letters(store, [EXECUTION], NOW))[EXECUTION] is Redriven.REDRIVEN


LIVE = {"held", "waiting", "running", "retrying", "accepted", "lapsed"}
OFFERED = {"waiting", "running", "accepted", "lapsed"}

OPERATIONS: dict[str, tuple[Callable[[Store, Delivery], Awaitable[bool]], set[str]]] = {
    "complete": (lambda s, d: _complete(s, d, Outcome.DEAD), {"running"}),
    "accept": (lambda s, d: _complete(s, d, Outcome.ACCEPTED), {"running"}),
    "heartbeat": (_heartbeat, {"running"}),
    "hand back": (_hand_back, {"running"}),
    "record an effect": (_record, {"running"}),
    "report the end": (_report, OFFERED),
    "report a sign of life": (_report_running, OFFERED),
    "cancel": (_cancel, LIVE),
    "redrive": (_redrive, {"dead"}),
}
"""Operation → what it does, and the places in which it does something."""

UNCHANGED = {
    ("heartbeat", "running"),
    *(("report a sign of life", place) for place in ("waiting", "running")),
}
"""What is answered with yes, and leaves the keyspace as it is."""


@pytest.mark.parametrize(("operation", "place"), list(product(OPERATIONS, PLACES)))
async def test_an_operation_does_something_exactly_in_its_places(
    any_store: Store, operation: str, place: str
) -> None:
    shard: Shard = any_store.layout.shard_of("job-0")
    delivery = await PLACES[place](any_store)
    act, places = OPERATIONS[operation]
    before = await read_shard(any_store, shard)
    does = place in places
    assert await act(any_store, delivery) is does
    is_changed = does and (operation, place) not in UNCHANGED
    assert (await read_shard(any_store, shard) != before) is is_changed
