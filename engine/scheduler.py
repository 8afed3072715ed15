"""The fire loop: look at what is due, propose, commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.clock import Clock
from engine.errors import Fenced
from engine.lookout import Lookout
from engine.loop import keep_stepping
from engine.pace import Pace
from engine.plan import Plan, Proposer, propose_start
from engine.scripts import Call
from engine.shards import Lease, ShardKeeper
from engine.store import Store, due, zones
from engine.store.due import Fired, Group, Member, Peek, Slice
from engine.store.snapshot import read_calendars

ROUNDS = 20
"""Commits of one shard before the others get their turn."""
GATHER_MS = 3
"""From the begin of a step to that of the next while jobs come due all the time: a look, and a
script a shard, cost the same for one job and for ten."""

SETTLED_MS = 60_000
"""For so long after a start of the deployment a job may turn up that was registered before it."""
STARTS_MS = 1_000
"""How often such jobs are looked for."""

log = logging.getLogger("waterclock.scheduler")


@dataclass(frozen=True, slots=True)
class Commit:
    """A script to run under a lease, and how many members it is given."""

    lease: Lease
    call: Call
    members: int


class Scheduler:
    """Fires what is due in the shards whose leases its keeper holds.

    1. Looks at all its shards in one round trip.
    2. Proposes in Python, and commits in one script a bucket: where little is due, those of all
       shards together; else for several shards at a time, so that Python and Redis work at the same
       time. No more goes out at once than the server does in a few milliseconds, so that nobody
       else waits for long.
    3. After a start of the deployment fires what waits for that, a batch a shard and step.
    4. Sleeps until the earliest due time it knows, at most one tick.
    """

    name = "scheduler"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self._pace = Pace(store.config.batch)
        self._lookout = Lookout(store, clock)
        self._proposer = Proposer()
        self._little: dict[int, Peek] = {}
        """By shard what little was due when it was last looked at."""
        self._has_backlog = False
        """Whether more was due somewhere than one script fires."""
        self._carried_out: dict[int, int] = {}
        """By shard the newest start of the deployment for which nothing waits any more."""
        self._starts_at = 0
        """When to look next for what does (monotonic)."""
        self._told: set[bytes] = set()
        """Unknown plans that the log has named."""
        self.totals = Fired()
        """What this process has fired since it started."""

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self._gather, stop)

    async def _gather(self) -> float:
        """Step; return the ms until the next step, in which some jobs come due together."""
        began_at = self._clock.monotonic_ms()
        pause_ms = await self.step()
        if self._has_backlog:
            return pause_ms
        return max(pause_ms, GATHER_MS - (self._clock.monotonic_ms() - began_at))

    async def step(self) -> float:
        """Fire what is due now in all shards; return the ms until something may be due again.

        Raises what a shard failed with, after the others had their turn.
        """
        leases = self._keeper.trusted()
        peeks = await self._lookout.look(leases, self._pace.size)
        little: list[tuple[Lease, Peek]] = []
        much: list[tuple[Lease, Peek | Exception]] = []
        for lease, peek in zip(leases, peeks, strict=True):
            if isinstance(peek, Exception) or self._is_much(peek):
                much.append((lease, peek))
            else:
                little.append((lease, peek))
        self._has_backlog = bool(much)
        outcomes = await asyncio.gather(
            self._fire_little(little),
            *(self._fire_much(*pair) for pair in much),
            self._fire_starts(leases),
            return_exceptions=True,
        )
        pauses: list[float] = [self._store.config.tick_ms]
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            pauses.append(outcome)
        return max(0, min(pauses))

    def _is_much(self, peek: Peek) -> bool:
        """Return whether there may be more than was found."""
        return any(len(found.members) >= self._pace.size for found in peek.slices)

    async def _fire_little(self, peeks: Sequence[tuple[Lease, Peek]]) -> float:
        """Fire all that is due in some shards, in few round trips; return the ms to sleep."""
        tick_ms = self._store.config.tick_ms
        pauses: list[float] = [tick_ms]
        commits: list[Commit] = []
        for lease, peek in peeks:
            if not peek.slices and peek.earliest_at is not None:
                pauses.append(peek.earliest_at - self._clock.now_ms())
            elif peek.slices and self._little.get(lease.shard.index) != peek:
                # What could not be committed is there again: not again at once.
                pauses.append(0)
            self._little[lease.shard.index] = peek
            for found in peek.slices:
                commits += await self._commits(lease, found)
        sent = await asyncio.gather(
            *(self._send(batch) for batch in _batches(commits, self._pace.size)),
            return_exceptions=True,
        )
        for outcome in sent:
            if isinstance(outcome, BaseException):
                raise outcome
        return min(pauses)

    async def _fire_much(self, lease: Lease, peek: Peek | Exception) -> float:
        """Fire what is due in one shard, a bounded number of rounds; return the ms to sleep."""
        tick_ms = self._store.config.tick_ms
        for _ in range(ROUNDS):
            if isinstance(peek, Exception):
                raise peek
            if not peek.slices:
                return 0
            for found in peek.slices:
                if None in await self._send(await self._commits(lease, found)):
                    return 0
            [following] = await self._lookout.look([lease], self._pace.size)
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
        commits = [one for lease, part in firing for one in await self._commits(lease, part)]
        fired = [
            part for batch in _batches(commits, self._pace.size) for part in await self._send(batch)
        ]
        return 0 if any(part and part != Fired() for part in fired) else tick_ms

    async def _commits(self, lease: Lease, found: Slice) -> list[Commit]:
        """Return what is to be committed of a slice."""
        attempts = [member for member in found.members if b"@" in member[0]]
        jobs = found.members
        if attempts:
            jobs = [member for member in jobs if b"@" not in member[0]]
        where = (self._store, lease.shard, lease.token, self._keeper.holder, found.bucket)
        commits = []
        if jobs:
            call = due.firing(*where, await self._propose(lease, jobs))
            commits.append(Commit(lease, call, len(jobs)))
        if attempts:
            commits.append(Commit(lease, due.offering(*where, attempts), len(attempts)))
        return commits

    async def _send(self, commits: Sequence[Commit]) -> list[Fired | None]:
        """Commit in one round trip; return what became of each, None where the lease is gone.

        Raises what one failed with, when the others are counted.
        """
        done: list[Fired | None] = [None] * len(commits)
        async with self._pace.turn([commit.members for commit in commits]):
            places = [n for n, one in enumerate(commits) if self._keeper.is_trusted(one.lease)]
            calls = [commits[n].call for n in places]
            replies = await due.fire_many(self._store, calls) if calls else []
        failures: list[Exception] = []
        for n, reply in zip(places, replies, strict=True):
            if isinstance(reply, Fenced):
                lease = commits[n].lease
                log.warning("shard %d has a newer holder", lease.shard.index)
                self._keeper.drop(lease)
            elif isinstance(reply, Exception):
                failures.append(reply)
            else:
                done[n] = reply
                self.totals += reply
        if failures:
            raise failures[0]
        return done

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


def _batches(commits: Sequence[Commit], most: int) -> Iterator[list[Commit]]:
    """Yield what goes out together: members enough for one script, one commit at the least."""
    batch: list[Commit] = []
    members = 0
    for commit in commits:
        if batch and members + commit.members > most:
            yield batch
            batch, members = [], 0
        batch.append(commit)
        members += commit.members
    if batch:
        yield batch


def _by_offset(plan: Plan, members: list[bytes]) -> dict[int, list[bytes]]:
    """Return due jobs of a plan by how much later than its nominal times each is due."""
    if not plan.window_ms:
        return {0: members}
    offsets: dict[int, list[bytes]] = {}
    for member in members:
        job_id = member.partition(b"|")[2].decode()
        offsets.setdefault(plan.offset_of(job_id), []).append(member)
    return offsets
