"""Random graphs of jobs over eight shards, whose workers, schedulers and relays die between any two
commands, and whose old relays wake up too late: what ran is what a plain model says, and once.

A thousand graphs, mostly small, a few of 200 jobs. A failure names its seed; `SEED=n` plays that
one alone.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from breaking import Cut, Wire, over
from fleet import BUSY, OK, REFUSED, settle
from graph_model import (
    UPSTREAM_FAILED,
    Graph,
    Played,
    can_revive,
    play,
    random_graph,
    random_ways,
    revive,
)
from invariants import check_invariants
from seeding import NOW, ONE_OFF, registration, run_at_exactly

from engine.backoff import Retry
from engine.clock import ManualClock
from engine.config import Config
from engine.depends import Depends
from engine.embedded import EmbeddedServer
from engine.execution import Delivery
from engine.keys import SCHEDULERS
from engine.model import Overlap
from engine.plan import Immediate, Plan
from engine.reclaimer import Reclaimer
from engine.registration import Registration
from engine.relay import Relay
from engine.scheduler import Scheduler
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.connection import connect
from engine.store.jobs import create_jobs
from engine.store.letters import Redriven, redrive_letters
from engine.targets import Attempted
from engine.worker import Worker

SHARDS = 8
RUNS = 1_000
PARTS = 10
RETRY = Retry(max_attempts=2)
WAITING = Plan.of(Immediate())
ENOUGH = 400
"""Rounds after which a graph that is not at its end never will be."""
ANSWERS: dict[str, list[Attempted]] = {
    "ok": [],
    "retried": [BUSY],
    "exhausted": [BUSY, BUSY],
    "final": [REFUSED],
}


@pytest.fixture
async def wide(server: EmbeddedServer) -> AsyncIterator[Store]:
    # Leases and deliveries of processes that die are taken over at once: their time is not played.
    config = Config(redis_url=server.url, shards=SHARDS, lease_ttl_ms=300_000)
    config = config.model_copy(update={"execution_lease_ms": 0, "max_deliveries": 1_000})
    async with connect(server.url) as client:
        await client.flushall()
    async with await Store.open(config) as store:
        yield store


def seeds(part: int) -> list[int]:
    only = os.environ.get("SEED")
    if only is not None:
        return [int(only)] if int(only) % PARTS == part else []
    return [seed for seed in range(RUNS) if seed % PARTS == part]


@pytest.mark.parametrize("part", range(PARTS))
async def test_what_runs_is_what_the_model_says(wide: Store, part: int) -> None:
    for seed in seeds(part):
        try:
            await Run(wide, seed).play()
        except Exception as failure:
            raise AssertionError(f"SEED={seed}: {failure}") from failure


def size_of(rng: Random) -> int:
    return 200 if rng.random() < 0.01 else rng.choice([2, 3, 4, 5, 6, 8, 10, 15, 25])


@dataclass
class Runner:
    """Answers as each execution's way says, and notes what it was given."""

    ways: dict[str, dict[str, str]]
    """Time → job → way."""
    effects: Counter[str] = field(default_factory=Counter)

    async def run(self, delivery: Delivery) -> Attempted:
        self.effects[delivery.execution_id] += 1
        job_id, _, at = delivery.execution_id.partition("@")
        answers = ANSWERS[self.ways[at][job_id]]
        return answers[delivery.attempt - 1] if delivery.attempt <= len(answers) else OK

    async def close(self) -> None:
        pass


class Run:
    """One graph, from its registration to its end."""

    def __init__(self, store: Store, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.store = store
        self.clock = ManualClock(NOW)
        self.graph: Graph = random_graph(rng, size_of(rng))
        times = [NOW] if rng.random() < 0.7 else [NOW, NOW + 1]
        self.ways = {str(at): random_ways(rng, self.graph) for at in times}
        self.runner = Runner(self.ways)
        self.calm = rng.random() < 0.1
        self.names = 0
        self.asleep: tuple[Wire, asyncio.Task[float]] | None = None

    async def play(self) -> None:
        await self.store.client.flushdb()
        await self.register()
        await self.begin()
        await self.until_quiet()
        played = {at: play(self.graph, ways) for at, ways in self.ways.items()}
        await self.check(played, are_told_once=True)
        for at in self.ways:
            for job_id in can_revive(self.graph, played[at])[:2]:
                await self.redrive(f"{job_id}@{at}")
                await self.until_quiet()
                played[at] = revive(self.graph, self.ways[at], played[at], job_id)
                await self.check(played, are_told_once=False)
        if self.rng.random() < 0.1 and len(self.graph) < 30:
            await check_invariants(self.store)

    async def register(self) -> None:
        store = self.store
        pipe = store.client.pipeline(transaction=False)
        for job_id, depends in self.graph.items():
            for up in depends.upstreams if depends else ():
                pipe.zadd(store.layout.shard_of(up.job_id).dependents(up.job_id), {job_id: 0})
        await pipe.execute()
        await create_jobs(store, [_job(*item) for item in self.graph.items()])
        if len(self.ways) == 2:
            for job_id, depends in self.graph.items():
                if depends is None:
                    await run_at_exactly(store, job_id, NOW + 1)

    async def redrive(self, execution_id: str) -> None:
        answer = await redrive_letters(self.store, [execution_id], self.clock.now_ms())
        assert answer == {execution_id: Redriven.REDRIVEN}

    # Processes, each over a wire of its own

    def wire(self) -> Wire:
        """Return one that breaks soon, or late, or never."""
        if self.calm or self.rng.random() < 0.3:
            return Wire()
        return Wire(self.rng.choice([self.rng.randint(0, 12), self.rng.randint(0, 60)]))

    def name(self) -> str:
        self.names += 1
        return f"p{self.names}"

    async def begin(self) -> None:
        await self.begin_worker()
        await self.begin_scheduler()

    async def begin_worker(self) -> None:
        store = over(self.store, self.wire())
        self.worker = Worker(
            store,
            self.clock,
            {"default": 1},
            lambda: self.runner,
            concurrency=1_000,
            consumer=self.name(),
            rng=self.rng,
        )
        self.reclaimer = Reclaimer(store, self.clock, self.worker)
        self.is_fresh = True

    async def begin_scheduler(self) -> None:
        """Have a scheduler and its relay take all shards: the leases of the last ones are over."""
        leases = [shard.lease for shard in self.store.layout.shards]
        await self.store.client.delete(SCHEDULERS, *leases)
        wire = Wire()
        store = over(self.store, wire)
        keeper = ShardKeeper(store, self.clock, self.name())
        self.scheduler = Scheduler(store, self.clock, keeper)
        self.relay = Relay(store, self.clock, keeper)
        self.keeper = keeper
        await keeper.step()
        wire.left = self.wire().left

    # Rounds

    async def until_quiet(self) -> None:
        """Play until nothing happens any more, nor will by waiting."""
        quiet = 0
        for _ in range(ENOUGH):
            steps = [self.work, self.schedule, self.tell, self.tell_late]
            self.rng.shuffle(steps)
            done = [await step() for step in steps]
            if any(done):
                quiet = 0
                continue
            quiet += 1
            if quiet == 2:
                return
            self.clock.advance(60_000)
            await self.begin_scheduler()  # its leases ran out
        raise AssertionError("it never comes to an end")

    async def work(self) -> bool:
        try:
            if self.is_fresh:
                await self.reclaimer.step()
                self.is_fresh = False
            await self.worker.fetch(block=False)
            await settle(self.worker)
            return await self.worker.report() > 0
        except Cut:
            await settle(self.worker)
            await self.begin_worker()
            return True

    async def schedule(self) -> bool:
        before = self.scheduler.totals
        try:
            await self.scheduler.step()
        except Cut:
            await self.begin_scheduler()
            return True
        return self.scheduler.totals != before

    async def tell(self) -> bool:
        before = self.relay.relayed
        try:
            await self.relay.step(block=False)
        except Cut:
            await self.begin_scheduler()
            return True
        return self.relay.relayed != before

    async def tell_late(self) -> bool:
        """Have an old holder's relay fall asleep in the middle of a step, or wake up and go on."""
        if self.asleep:
            wire, task = self.asleep
            self.asleep = None
            wire.goes_on.set()
            await task
            return True
        if self.calm or self.rng.random() < 0.7:
            return False
        wire = Wire(self.rng.randint(1, 15), stalls=True)
        relay = Relay(over(self.store, wire), self.clock, self.keeper)
        task = asyncio.create_task(relay.step(block=False))
        stalled = asyncio.create_task(wire.has_stalled.wait())
        await asyncio.wait([task, stalled], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            stalled.cancel()
            await task
            return relay.relayed > 0
        self.asleep = wire, task
        return True

    # What came of it

    async def check(self, played: dict[str, Played], *, are_told_once: bool) -> None:
        pipe = self.store.client.pipeline(transaction=False)
        for job_id in self.graph:
            pipe.lrange(self.store.layout.shard_of(job_id).runs(job_id), 0, -1)
        for shard in self.store.layout.shards:
            pipe.xrange(shard.ledger)
        for shard in self.store.layout.shards:
            pipe.xlen(shard.outbox)
        replies = await pipe.execute()
        assert replies[-SHARDS:] == [0] * SHARDS, "something was not told"
        offered = Counter(
            event[1]
            for entries in replies[len(self.graph) : -SHARDS]
            for _, fields in entries
            for event in map(json.loads, fields[b"events"].splitlines())
            if event[0] == "fired" and event[2] == 1
        )
        for job_id, lines in zip(self.graph, replies, strict=False):
            records = [json.loads(line) for line in reversed(lines)]
            for at, model in played.items():
                own = [record for record in records if record[0] == int(at)]
                self.check_one(job_id, at, own, model, offered, are_told_once=are_told_once)

    def check_one(
        self,
        job_id: str,
        at: str,
        records: list[list[object]],
        model: Played,
        offered: Counter[str],
        *,
        are_told_once: bool,
    ) -> None:
        execution_id, wanted = f"{job_id}@{at}", model.became[job_id]
        ends = [r[1] for r in records if r[1] not in ("failed", "skipped")]
        skipped = [str(r[5]) for r in records if r[1] == "skipped"]
        ran = wanted != UPSTREAM_FAILED
        assert offered[execution_id] == ran, f"{execution_id} offered {offered[execution_id]} times"
        assert (self.runner.effects[execution_id] > 0) == ran, f"{execution_id} is {wanted}"
        assert ends[-1:] == ([wanted] if ran else []), f"{execution_id} is {wanted}: {records}"
        if are_told_once:
            assert len(ends) == ran, f"{execution_id} ended more than once: {records}"
            assert len(skipped) == (not ran), f"{execution_id} is {wanted}: {records}"
        if skipped:
            reason, _, cause = skipped[0].partition(": ")
            assert reason == "upstream_failed", skipped
            assert cause.partition("@")[0] in model.causes[job_id], (execution_id, skipped)


def _job(job_id: str, depends: Depends | None) -> Registration:
    made = registration(
        job_id,
        WAITING if depends else ONE_OFF,
        next_run_at=None if depends else NOW,
        overlap=Overlap.ALLOW,
    )
    return replace(made, job=replace(made.job, depends=depends, retry=RETRY))
