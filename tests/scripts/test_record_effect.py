"""record_effect: what a side effect gave is recorded once, by who holds the delivery."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import changes, read_shard
from seeding import NOW, fire, result, start, take

from engine.errors import BadInput, StaleDelivery
from engine.execution import Delivery, Outcome
from engine.store import Store
from engine.store.effects import (
    KEEP_MS,
    MOST_NAME_CHARS,
    MOST_RESULT_BYTES,
    read_effects,
    record_effect,
)
from engine.store.executions import complete_executions

KEY = f"effects:job-0@{NOW}"


async def test_a_result_is_kept_for_a_while(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    assert await record_effect(any_store, delivery, "pay", b"receipt 7") == b"receipt 7"
    assert changes(before, await read_shard(any_store, shard)) == {KEY: {"pay": "receipt 7"}}
    left_ms = await any_store.client.pttl(shard.effects(f"job-0@{NOW}"))
    assert KEEP_MS - 60_000 < left_ms <= KEEP_MS


async def test_the_result_that_was_recorded_first_stands(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    await record_effect(any_store, delivery, "pay", b"")
    before = await read_shard(any_store, shard)
    assert await record_effect(any_store, delivery, "pay", b"receipt 8") == b""
    assert await read_shard(any_store, shard) == before


async def test_a_later_attempt_finds_what_earlier_ones_did(any_store: Store) -> None:
    first = await start(any_store, "job-0")
    await record_effect(any_store, first, "pay", b"receipt 7")
    await complete_executions(any_store, [result(first, Outcome.FAILED, NOW + 900)], NOW)
    await fire(any_store, any_store.layout.shards[first.shard], NOW + 900)
    [second] = await take(any_store, "w2")
    assert await read_effects(any_store, second) == {"pay": b"receipt 7"}
    assert await record_effect(any_store, second, "pay", b"receipt 8") == b"receipt 7"
    assert await record_effect(any_store, second, "mail", b"sent") == b"sent"
    assert await read_effects(any_store, second) == {"pay": b"receipt 7", "mail": b"sent"}


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param({"consumer": "w2"}, id="another consumer"),
        pytest.param({"deliveries": 2}, id="another delivery count"),
        pytest.param({"entry_id": "1-1"}, id="an entry that is not there"),
        pytest.param({"queue": "unheard"}, id="a queue that nobody has read"),
    ],
)
async def test_who_does_not_hold_the_delivery_records_nothing(
    any_store: Store, claim: dict[str, str | int]
) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    await record_effect(any_store, delivery, "pay", b"receipt 7")
    before = await read_shard(any_store, shard)
    forged: Delivery = replace(delivery, **claim)  # type: ignore[arg-type]
    for name in ("pay", "mail"):
        with pytest.raises(StaleDelivery):
            await record_effect(any_store, forged, name, b"receipt 8")
    assert await read_shard(any_store, shard) == before


async def test_what_is_too_long_is_refused(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    for name, given in [
        ("", b""),
        ("x" * (MOST_NAME_CHARS + 1), b""),
        ("x", b"x" * (MOST_RESULT_BYTES + 1)),
    ]:
        with pytest.raises(BadInput):
            await record_effect(any_store, delivery, name, given)
    assert await read_shard(any_store, shard) == before
    longest = b"x" * MOST_RESULT_BYTES
    assert await record_effect(any_store, delivery, "x" * MOST_NAME_CHARS, longest) == longest
