"""forget_consumers: names that hold nothing go, and names that hold something never."""

from __future__ import annotations

from seeding import NOW, result, start, take

from engine.store import Store
from engine.store.executions import complete_executions, forget_consumers


async def names(store: Store, shard: int) -> set[str]:
    ready = store.layout.shards[shard].ready("default")
    return {row["name"].decode() for row in await store.client.xinfo_consumers(ready, "workers")}


async def test_a_consumer_that_holds_a_delivery_stays(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await forget_consumers(any_store, "default", idle_ms=0)
    assert await names(any_store, delivery.shard) == {"w1"}


async def test_an_idle_consumer_goes(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery)], NOW)
    assert await forget_consumers(any_store, "default", idle_ms=0) >= 1
    assert await names(any_store, delivery.shard) == set()


async def test_a_consumer_that_asked_just_now_stays(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    await complete_executions(any_store, [result(delivery)], NOW)
    assert await forget_consumers(any_store, "default", idle_ms=60_000) == 0
    assert await names(any_store, delivery.shard) == {"w1"}


async def test_the_named_consumer_goes_alone(any_store: Store) -> None:
    first, second = await start(any_store, "job-0", "w1"), await start(any_store, "job-1", "w2")
    await complete_executions(any_store, [result(first), result(second)], NOW)
    await take(any_store, "w1")
    before = await names(any_store, second.shard)
    await forget_consumers(any_store, "default", idle_ms=0, consumer="w1")
    assert await names(any_store, second.shard) == before - {"w1"}
    assert "w2" in before


async def test_a_queue_without_readers_has_nobody_to_forget(any_store: Store) -> None:
    assert await forget_consumers(any_store, "unheard", idle_ms=0) == 0
