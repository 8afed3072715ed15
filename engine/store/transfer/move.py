"""The two ends of a move: a deployment that is stopped and read, and one that is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.config import Config
from engine.errors import Unusable
from engine.store import Store
from engine.store.connection import connect
from engine.store.freezing import count_held, freeze
from engine.store.phase import Phase, read_phase
from engine.store.transfer.reading import has_deployment

SETTLE_MS = 2_500
"""How long a deployment drains at the least: each API has seen by then that it does, and ended what
it had begun."""
POLL_S = 0.1


@asynccontextmanager
async def open_source(config: Config) -> AsyncIterator[Store]:
    """Open a deployment to export it. Raises Unusable if there is none, or half of one."""
    client = connect(config.redis_url)
    try:
        if not await has_deployment(client):
            raise Unusable("there is no deployment on the server to export")
        phase = await read_phase(client)
    finally:
        await client.aclose()
    if phase in (Phase.IMPORTING, Phase.OPENING):
        raise Unusable(
            "what is there is half an import: end that import, or empty the server (FLUSHDB)"
        )
    async with await Store.open(config, even_frozen=True) as store:
        yield store


@asynccontextmanager
async def open_target(config: Config) -> AsyncIterator[Store]:
    """Open a deployment to import into; its layout is made if there is none. Raises Unusable if it
    has one with another number of shards than the caller asks for."""
    async with await Store.open(config, even_frozen=True) as store:
        there = len(store.layout.shards)
        if "shards" in config.model_fields_set and there != config.shards:
            raise Unusable(
                f"the target is cut into {there} shards already, and not into {config.shards}:"
                " leave the number out, or empty the target first (FLUSHDB)"
            )
        yield store


async def stop(store: Store, drain_ms: int, tell: Callable[[int], None] = lambda held: None) -> int:
    """Stop a deployment, and let workers end what they run, for `drain_ms` at the most; return how
    many executions they still hold. Calls `tell` with their number as it falls."""
    phase = await read_phase(store.client)
    if phase is not Phase.FROZEN:
        began = time.monotonic()
        while True:
            # Again and again: a stream that is new is stopped too.
            await freeze(store, Phase.DRAINING)
            held = await count_held(store)
            tell(held)
            passed_ms = (time.monotonic() - began) * 1000
            if passed_ms >= SETTLE_MS and (held == 0 or passed_ms >= drain_ms):
                break
            await asyncio.sleep(POLL_S)
        await freeze(store, Phase.FROZEN)
    return await count_held(store)
