"""The replanner: brings next times up to the newest edition of the time zone database."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from engine.clock import Clock
from engine.errors import Fenced
from engine.loop import keep_stepping
from engine.plan import ZONE_DATABASE
from engine.shards import Lease, ShardKeeper
from engine.store import Store, zones

LOOK_MS = 100
"""The time between two looks for new leases, which ask the server nothing: soon after the lease."""

log = logging.getLogger("waterclock.replanner")


@dataclass(slots=True)
class _Progress:
    """How far a shard has come under one lease."""

    token: str
    older: list[str] = field(default_factory=list)
    """Editions by which next times may have been worked out, the newest of them last."""
    walk: zones.Walk | None = None


class Replanner:
    """Works out anew, beside the fire loop, what a new edition of the zones moves.

    1. Of each shard whose lease its keeper has been granted, looks by which editions next times
       were worked out, and adds its own, once a lease.
    2. If all others are older: goes through the jobs whose zones have changed, a page a step, and
       then takes the older edition off.
    3. If another one is newer: changes nothing, and says so. What this process works out meanwhile
       is gone through when a process with the newer edition holds the shard again.

    It keeps no place that would have to survive: whoever takes over begins the shard anew, and
    what has been moved stays.
    """

    name = "replanner"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self._shards: dict[int, _Progress] = {}
        self._has_warned = False

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Go on by a page in each shard that is not done; return the ms until the next look.

        Raises what a shard failed with, after the others had their turn.
        """
        is_done, failures = True, []
        for lease in self._keeper.trusted():
            try:
                is_done = await self._go_on(lease) and is_done
            except Fenced:
                log.warning("shard %d has a newer holder", lease.shard.index)
                self._keeper.drop(lease)
                self._store.walks.pop(lease.shard.index, None)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return LOOK_MS if is_done else self._store.config.tick_ms

    async def _go_on(self, lease: Lease) -> bool:
        """Go on by a page in one shard; return whether it is done."""
        progress = self._shards.get(lease.shard.index)
        if progress is None or progress.token != lease.token:
            progress = self._shards[lease.shard.index] = await self._look(lease)
        if progress.older and self._keeper.is_trusted(lease):
            await self._advance(lease, progress)
        return not progress.older

    async def _look(self, lease: Lease) -> _Progress:
        where = (self._store, lease.shard, lease.token, self._keeper.holder)
        editions = await zones.adopt_zones(*where)
        await zones.keep_rules(self._store)
        newest = max(editions)
        if newest == ZONE_DATABASE:
            return _Progress(lease.token, sorted(editions - {newest}))
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "this process has edition %s of the time zones, and the deployment %s: install the"
                " newer tzdata here too; until then, times in zones that differ are wrong here",
                ZONE_DATABASE,
                newest,
            )
        return _Progress(lease.token)

    async def _advance(self, lease: Lease, progress: _Progress) -> None:
        edition, index = progress.older[-1], lease.shard.index
        walk = progress.walk
        if walk is None:
            walk = progress.walk = await zones.begin_walk(self._store, lease.shard, edition)
        if walk is None:
            log.warning("shard %d: the rules of time zones %s are not kept", index, edition)
        elif not walk.is_done:
            await zones.go_on(self._store, walk, self._clock.now_ms())
            if not walk.is_done:
                return
        where = (self._store, lease.shard, lease.token, self._keeper.holder)
        await zones.adopt_zones(*where, done=edition)
        progress.older.pop()
        progress.walk = None
        self._store.walks.pop(index, None)
        await zones.drop_rules(self._store)
        if walk and walk.moved:
            log.info(
                "shard %d: %d next times moved by time zones %s, after %s",
                index,
                walk.moved,
                ZONE_DATABASE,
                edition,
            )
