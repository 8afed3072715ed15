"""The relay: carries ends of executions from outboxes to the jobs that depend on them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from engine.clock import Clock
from engine.keys import Shard
from engine.loop import keep_stepping
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.outbox import (
    Ending,
    deliver_upstreams,
    drop_endings,
    read_dependents,
    read_outboxes,
)

log = logging.getLogger("waterclock.relay")

MOST_TELLINGS = 20_000
"""What one step tells of one shard, unless a single ending has more dependents."""


class Relay:
    """Empties the outboxes of the shards whose leases its keeper holds.

    1. Reads them in order, and waits in Redis for something to come.
    2. Tells all dependents of each job, in their own shards; each of them hears of a source
       shard's endings in the order in which they were written.
    3. Takes an entry out when all have heard of it. If it dies before that, the next holder tells
       them again, and they know that they have heard it.
    """

    name = "relay"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self.relayed = 0

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self, *, block: bool = True) -> float:
        """Relay what the outboxes hold, a bounded part of each; return the ms until the next
        step. With `block` it waits for something to come, half a second at the most.

        Raises what a shard failed with, after the others had their turn.
        """
        shards = [lease.shard for lease in self._keeper.trusted()]
        if not shards:
            return self._store.config.tick_ms
        found = await read_outboxes(self._store, shards, block=block)
        outcomes = await asyncio.gather(
            *(self._relay(shard, endings) for shard, endings in found), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return 0

    async def _relay(self, source: Shard, endings: Sequence[Ending]) -> None:
        dependents = await read_dependents(self._store, list({e.job_id for e in endings}))
        counts = accumulate(len(dependents[ending.job_id]) for ending in endings)
        endings = endings[: max(1, sum(count <= MOST_TELLINGS for count in counts))]
        # A script tells each dependent once: the second ending of interest to one goes into the
        # second round, and so on, which also keeps their order.
        rounds: list[list[tuple[Shard, str, Ending]]] = []
        told: Counter[str] = Counter()
        for ending in endings:
            for dependent in dependents[ending.job_id]:
                if told[dependent] == len(rounds):
                    rounds.append([])
                shard = self._store.layout.shard_of(dependent)
                rounds[told[dependent]].append((shard, dependent, ending))
                told[dependent] += 1
        for tellings in rounds:
            await deliver_upstreams(self._store, source, tellings, self._clock.now_ms())
        await drop_endings(self._store, source, endings)
        self.relayed += len(endings)
