"""Values of any size in parts, from a server on which nothing changes meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from engine.store import Store

PAGE = 200


def flatten(fields: dict[bytes, bytes]) -> list[bytes]:
    return [part for pair in fields.items() for part in pair]


async def read_hashes(store: Store, keys: list[str]) -> list[dict[bytes, bytes]]:
    pipe = store.client.pipeline(transaction=False)
    for key in keys:
        pipe.hgetall(key)
    return list(await pipe.execute())


async def pages(store: Store, key: str) -> AsyncIterator[list[tuple[bytes, float]]]:
    """Yield a sorted set in parts, in its order. Nothing changes meanwhile, so ranks stay."""
    first = 0
    while page := await store.client.zrange(key, first, first + PAGE - 1, withscores=True):
        yield page
        first += PAGE


async def pages_of_hash(store: Store, key: str) -> AsyncIterator[list[bytes]]:
    cursor: int | None = None
    while cursor != 0:
        cursor, fields = await store.client.hscan(key, cursor or 0, count=PAGE)
        if fields:
            yield flatten(fields)


async def pages_of_stream(
    store: Store, key: str, count: int
) -> AsyncIterator[list[tuple[bytes, Any]]]:
    after = "-"
    while page := await store.client.xrange(key, after, "+", count=count):
        yield page
        after = f"({page[-1][0].decode()}"
