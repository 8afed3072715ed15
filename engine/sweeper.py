"""The sweeper: keeps the dead letters within their time and number."""

from __future__ import annotations

import asyncio
import logging

from engine.clock import Clock
from engine.loop import keep_stepping
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.letters import SWEEP_LIMIT, discard_letters, find_surplus
from engine.store.secrets import drop_rests

SWEEP_MS = 60_000
"""The time between two looks."""
BY = "retention"
"""Who discarded a letter, in the ledger."""

log = logging.getLogger("waterclock.sweeper")


class Sweeper:
    """Discards dead letters of the shards whose leases its keeper holds.

    1. Those older than `dead_retention_ms`.
    2. The oldest ones of a shard that has more than its part of `dead_limit`.
    3. Beside letters, the secrets of jobs that deleted themselves.

    A look takes a bounded number from each shard, and the next one follows soon if there are more.
    Two that sweep the same shard discard nothing that is to stay.
    """

    name = "sweeper"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Look once at each shard; return the ms until the next look."""
        discarded, is_done = 0, True
        for lease in self._keeper.trusted():
            surplus = await find_surplus(self._store, lease.shard, self._clock.now_ms())
            discarded += await discard_letters(self._store, surplus, by=BY)
            is_done = is_done and len(surplus) < SWEEP_LIMIT
        await drop_rests(self._store)
        if discarded:
            log.info("discarded %d dead letters that were too old or too many", discarded)
        return SWEEP_MS if is_done else self._store.config.tick_ms
