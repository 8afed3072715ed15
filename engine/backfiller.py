"""Backfills, stepped: what they may start now is started, a few executions at a time."""

from __future__ import annotations

import asyncio
import logging

from engine.backfill import Backfill, Batch, propose_batch
from engine.clock import Clock
from engine.errors import Fenced, NotFound
from engine.loop import keep_stepping
from engine.shards import Lease, ShardKeeper
from engine.store import Store, backfills
from engine.store.jobs import get_job

STARTS = 20
"""Executions of one backfill that one step starts at the most: on-time work waits for no more."""
IDLE_MS = 1_000
"""The time between two looks while no backfill is open."""

log = logging.getLogger("waterclock.backfiller")


class Backfiller:
    """Goes on with the backfills of the shards whose leases its keeper holds.

    1. Looks which are open; of each with a free place it reads what is known of the job's times.
    2. Judges the next times in Python, and starts them in one script, up to the concurrency asked
       for and not past the room in the queue.
    3. Ends a backfill when all its times are passed and nothing of it is live.

    It remembers nothing: whoever holds the shard next goes on from what is stored.
    """

    name = "backfiller"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Go on once with each open backfill; return the ms until the next look.

        Raises what one failed with, after the others had their turn.
        """
        leases = {lease.shard: lease for lease in self._keeper.trusted()}
        found = await backfills.read_open(self._store, list(leases))
        failures: list[Exception] = []
        for shard, job_id, backfill in found:
            lease = leases[shard]
            if not self._keeper.is_trusted(lease):
                continue
            try:
                await self._advance(lease, job_id, backfill)
            except NotFound:
                continue  # deleted since the look, and the next one tidies up
            except Fenced:
                log.warning("shard %d has a newer holder", shard.index)
                self._keeper.drop(lease)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return self._store.config.tick_ms if found else IDLE_MS

    async def _advance(self, lease: Lease, job_id: str, backfill: Backfill | None) -> None:
        batch = Batch([], backfill.next_at if backfill else None)
        if backfill and backfill.free:
            batch = await self._propose(backfill)
        if batch.times or backfill is None or backfill.may_end:
            where = (self._store, lease.shard, lease.token, self._keeper.holder)
            now = self._clock.now_ms()
            await backfills.advance_backfill(*where, job_id, backfill, batch, now)

    async def _propose(self, backfill: Backfill) -> Batch:
        plan = await backfills.plan_of(self._store, backfill)
        stored = await get_job(self._store, backfill.job_id)
        known = await backfills.read_known(self._store, stored, plan, backfill.covered)
        rule = plan.rule_under(self._store.calendars)
        return propose_batch(rule, backfill, known, min(STARTS, backfill.free))
