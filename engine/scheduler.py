"""The fire loop: look at what is due, propose, commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from engine.clock import Clock
from engine.errors import Fenced
from engine.keys import Shard
from engine.loop import keep_stepping
from engine.pace import Pace
from engine.plan import Plan, Proposer, propose_start
from engine.shards import Lease, ShardKeeper
from engine.store import Store, due, zones
from engine.store.due import Fired, Group, Member, Peek, Slice
from engine.store.snapshot import read_calendars

ROUNDS = 20
"""Commits of one shard before the others get their turn."""

SETTLED_MS = 60_000
"""For so long after a start of the deployment a job may turn up that was registered before it."""
STARTS_MS = 1_000
"""How often such jobs are looked for."""

log = logging.getLogger("waterclock.scheduler")


class Scheduler:
    """Fires what is due in the shards whose leases its keeper holds.

    1. Peeks all its shards in one round trip.
    2. Proposes in Python, and commits in one script a bucket, for several shards at a time, so
       that Python and Redis work at the same time; and of no more than the server does in a few
       milliseconds, so that nobody else waits for long.
    3. After a start of the deployment fires what waits for that, a batch a shard and step.
    4. Sleeps until the earliest due time it knows, at most one tick.
    """

    name = "scheduler"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self._pace = Pace(store.config.batch)
        self._proposer = Proposer()
        self._carried_out: dict[int, int] = {}
        """By shard the newest start of the deployment for which nothing waits any more."""
        self._starts_at = 0
        """When to look next for what does (monotonic)."""
        self._told: set[bytes] = set()
        """Unknown plans that the log has named."""
        self.totals = Fired()
        """What this process has fired since it started."""

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Fire what is due now in all shards; return the ms until something may be due again.

        Raises what a shard failed with, after the others had their turn.
        """
        leases = self._keeper.trusted()
        peeks = await self._peek([lease.shard for lease in leases])
        outcomes = await asyncio.gather(
            *(self._fire_shard(*pair) for pair in zip(leases, peeks, strict=True)),
            self._fire_starts(leases),
            return_exceptions=True,
        )
        pauses: list[float] = [self._store.config.tick_ms]
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            pauses.append(outcome)
        return max(0, min(pauses))

    async def _peek(self, shards: Sequence[Shard]) -> list[due.Peek | Exception]:
        return await due.peek_due(self._store, shards, self._clock.now_ms(), self._pace.size)

    async def _fire_shard(self, lease: Lease, peek: Peek | Exception) -> float:
        """Fire what is due in one shard, a bounded number of rounds; return the ms to sleep."""
        tick_ms = self._store.config.tick_ms
        for _ in range(ROUNDS):
            if isinstance(peek, Exception):
                raise peek
            if not peek.slices:
                if peek.earliest_at is None:
                    return tick_ms
                return min(tick_ms, peek.earliest_at - self._clock.now_ms())
            for found in peek.slices:
                if await self._fire_slice(lease, found) is None:
                    return 0
            [following] = await self._peek([lease.shard])
            if following == peek:
                return tick_ms  # nothing of it could be committed: not again at once
            peek = following
        return 0

    async def _fire_starts(self, leases: Sequence[Lease]) -> float:
        """Fire a batch of what waits for the newest start of the deployment, in each shard that has
        not carried it out; return the ms to sleep."""
        tick_ms, start_at = self._store.config.tick_ms, max(self._store.starts, default=0)
        owing = [one for one in leases if self._carried_out.get(one.shard.index, 0) < start_at]
        if not owing or self._clock.monotonic_ms() < self._starts_at:
            return tick_ms
        is_settled = self._clock.now_ms() - start_at > SETTLED_MS
        found = await due.peek_starts(
            self._store, [lease.shard for lease in owing], start_at, self._pace.size
        )
        firing = []
        for lease, part in zip(owing, found, strict=True):
            if isinstance(part, Exception):
                raise part
            if part is not None:
                firing.append((lease, part))
            elif is_settled:
                self._carried_out[lease.shard.index] = start_at
        if not firing:
            self._starts_at = self._clock.monotonic_ms() + STARTS_MS
        fired = await asyncio.gather(*(self._fire_slice(*pair) for pair in firing))
        return 0 if any(part and part != Fired() for part in fired) else tick_ms

    async def _fire_slice(self, lease: Lease, found: Slice) -> Fired | None:
        """Commit one slice; return what became of it, None if the lease is gone."""
        if not self._keeper.is_trusted(lease):
            return None
        try:
            fired = await self._commit(lease, found)
        except Fenced:
            log.warning("shard %d has a newer holder", lease.shard.index)
            self._keeper.drop(lease)
            return None
        # Not `+= await`: that reads the total before other shards have added theirs.
        self.totals += fired
        return fired

    async def _commit(self, lease: Lease, found: Slice) -> Fired:
        jobs = [member for member in found.members if b"@" not in member[0]]
        attempts = [member for member in found.members if b"@" in member[0]]
        where = (self._store, lease.shard, lease.token, self._keeper.holder, found.bucket)
        total = Fired()
        if jobs:
            groups = await self._propose(lease, jobs)
            async with self._pace.turn(len(jobs)):
                total += await due.fire_due(*where, groups)
        if attempts:
            async with self._pace.turn(len(attempts)):
                total += await due.fire_attempts(*where, attempts)
        return total

    async def _propose(self, lease: Lease, members: list[Member]) -> list[Group]:
        """Return the proposals for due jobs, grouped by plan and due time."""
        grouped: dict[tuple[bytes, int], list[bytes]] = {}
        for member, due_at in members:
            grouped.setdefault((member.partition(b"|")[0], due_at), []).append(member)
        await due.read_plans(self._store, lease.shard, {plan.decode() for plan, _ in grouped})
        await self._see_calendars(plan_id.decode() for plan_id, _ in grouped)
        now = self._clock.now_ms()
        groups = []
        for (plan_id, due_at), names in grouped.items():
            plan = self._store.plans.get(plan_id.decode())
            if plan is None:
                if plan_id not in self._told:
                    self._told.add(plan_id)
                    log.error(
                        "shard %d: plan %s of %d due jobs is not stored or of a newer version",
                        lease.shard.index,
                        plan_id.decode(),
                        len(names),
                    )
                continue
            if plan.kind == "reboot":
                if start := propose_start(due_at, self._store.starts):
                    groups.append(Group(due_at, 0, start, names))
                continue
            for offset_ms, part in _by_offset(plan, names).items():
                # The server's clock may have been sampled anew, a little behind, since the peek.
                nominal_now = max(now, due_at) - offset_ms
                nominal_at = due_at - offset_ms
                proposal = zones.put_off(self._store, lease.shard, plan, nominal_at, nominal_now)
                if proposal is None:
                    proposal = self._proposer.propose(
                        plan, nominal_at, nominal_now, self._store.calendars
                    )
                groups.append(Group(due_at, offset_ms, proposal, part))
        return groups

    async def _see_calendars(self, plan_ids: Iterable[str]) -> None:
        """Look for calendars that are younger than the snapshot: a job may be as young."""
        plans = [plan for plan_id in plan_ids if (plan := self._store.plans.get(plan_id))]
        if any(self._store.calendars.unknown(plan.calendars) for plan in plans):
            await read_calendars(self._store)


def _by_offset(plan: Plan, members: list[bytes]) -> dict[int, list[bytes]]:
    """Return due jobs of a plan by how much later than its nominal times each is due."""
    if not plan.window_ms:
        return {0: members}
    offsets: dict[int, list[bytes]] = {}
    for member in members:
        job_id = member.partition(b"|")[2].decode()
        offsets.setdefault(plan.offset_of(job_id), []).append(member)
    return offsets
