"""Which shards this scheduler may fire for: the leases it holds, and its fair share of them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.clock import SampledClock
from engine.keys import Shard
from engine.loop import keep_stepping
from engine.store import Store, leases
from engine.store.connection import TRANSIENT
from engine.store.server import time_ms

LOOK_MS = 500
"""The longest time between two looks at who holds what."""

log = logging.getLogger("waterclock.shards")


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease held. It is trusted until `trusted_until` on the monotonic clock, counted from before
    it was asked for: the server may have granted it that early."""

    shard: Shard
    token: str
    trusted_until: int


def choose(holder: str, live: Sequence[str], holders: Sequence[str | None]) -> list[int]:
    """Return the shards that `holder` should keep or take for an even spread.

    `holders` names each shard's holder. Every scheduler gets the same number, or one more; those
    that hold the most have the one more, so joining and leaving move only what must move. Kept
    shards come first. A scheduler that is not in `live` gets nothing.
    """
    held = Counter(name for name in holders if name)
    ranked = sorted(live, key=lambda name: (-held[name], name))
    if holder not in ranked:
        return []
    share, extra = divmod(len(holders), len(ranked))
    quota = share + (ranked.index(holder) < extra)
    mine = [index for index, name in enumerate(holders) if name == holder][:quota]
    free = [index for index, name in enumerate(holders) if name is None]
    # Two that look at the same time reach for different free shards first.
    turn = ranked.index(holder) * len(free) // len(ranked)
    wanted = (free[turn:] + free[:turn])[: quota - len(mine)]
    return mine + wanted


class ShardKeeper:
    """Keeps this scheduler's leases.

    1. Says that it is alive, once a look. If nobody else is when it begins, that starts the
       deployment.
    2. Extends the leases it holds, each third of their time; gives back those above its share,
       takes free ones below it.
    3. Looks again early when somebody's lease is about to run out.
    4. On stop gives all of them back, so that others take over at once.
    """

    name = "shards"

    def __init__(self, store: Store, clock: SampledClock, holder: str) -> None:
        self._store = store
        self._clock = clock
        self.holder = holder
        self._leases: dict[int, Lease] = {}
        self._begins = True
        """Until its first word has arrived."""

    def trusted(self) -> list[Lease]:
        """Return the leases that can be acted on now."""
        now = self._clock.monotonic_ms()
        return [lease for lease in self._leases.values() if now < lease.trusted_until]

    def is_trusted(self, lease: Lease) -> bool:
        current = self._leases.get(lease.shard.index)
        return (
            current is not None
            and current.token == lease.token
            and self._clock.monotonic_ms() < current.trusted_until
        )

    def drop(self, lease: Lease) -> None:
        """Forget a lease that turned out to be somebody else's, but no newer one of the shard."""
        current = self._leases.get(lease.shard.index)
        if current is not None and current.token == lease.token:
            del self._leases[lease.shard.index]

    async def step(self) -> float:
        """Look once at who holds what, and act; return the ms until the next look."""
        self._clock.sample(await time_ms(self._store.client))
        live = await leases.announce_scheduler(
            self._store, self.holder, self._clock.now_ms(), begins=self._begins
        )
        self._begins = False
        held = await leases.read_holders(self._store)
        chosen = choose(self.holder, live, [name for name, _ in held])
        await self._give_back(index for index in self._leases if index not in chosen)
        before = set(self._leases)
        sent_at = self._clock.monotonic_ms()
        shards = [
            self._store.layout.shards[index]
            for index in chosen
            if not self._is_fresh(index, held[index][0], sent_at)
        ]
        for shard, grant in zip(
            shards, await leases.acquire_lease(self._store, shards, self.holder), strict=True
        ):
            if grant.token:
                trusted_until = sent_at + self._store.config.lease_ttl_ms
                self._leases[shard.index] = Lease(shard, grant.token, trusted_until)
            else:
                self._leases.pop(shard.index, None)
        if taken := sorted(self._leases.keys() - before):
            log.info("took shards %s", taken)
        # A lease that nobody extends runs out in less than a look: be there when it does.
        others = [left for name, left in held if name != self.holder and left > 0]
        return min([LOOK_MS, self._store.config.lease_ttl_ms / 3, *(left + 1 for left in others)])

    def _is_fresh(self, index: int, holder: str | None, now: int) -> bool:
        """Return whether a lease need not be extended yet: a third of its time has not passed."""
        lease = self._leases.get(index)
        if lease is None or holder != self.holder:
            return False
        return lease.trusted_until - now > self._store.config.lease_ttl_ms * 2 / 3

    async def run(self, stop: asyncio.Event) -> None:
        """Keep leases until `stop`, then give them back."""
        await keep_stepping(self.name, self.step, stop)
        try:
            await self._give_back(self._leases)
            await leases.forget_scheduler(self._store, self.holder)
        except TRANSIENT as error:
            log.warning("could not give leases back, they run out by themselves: %s", error)

    async def _give_back(self, indexes: Iterable[int]) -> None:
        leaving = sorted(indexes)
        for index in leaving:
            # Out of use first: nothing is fired under a lease that is on its way out.
            lease = self._leases.pop(index)
            await leases.release_lease(self._store, lease.shard, self.holder)
        if leaving:
            log.info("gave shards %s back", leaving)
