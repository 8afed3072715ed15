"""Whatever order operations come in: the invariants hold after each, and permits neither grow nor
get lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

import pytest
from invariants import faults, read_shard
from seeding import MINUTE, NOW, fire, grant, http, job_ids, registration, result, take

from engine.codec import Promise
from engine.errors import WaterclockError
from engine.execution import DeadReason, Delivery, Outcome
from engine.model import Overlap, Rules
from engine.names import Priority, streams_of
from engine.registration import Registration
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.changes import pause_job, replace_job, resume_job
from engine.store.executions import (
    complete_executions,
    hand_back_executions,
    reclaim_executions,
)
from engine.store.jobs import create_jobs, delete_job, get_job, run_job
from engine.store.letters import discard_letters, redrive_letters
from engine.store.reports import report_end, report_running

STEPS = 100
SLOTS = 3


class Walk:
    """A few jobs of one shard, and a clock that only goes forward; each step is one operation,
    drawn by chance."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.rng = Random(seed)
        self.ids = job_ids(store, 4)
        self.shard = store.layout.shard_of(self.ids[0])
        self.now = NOW
        self.held: list[Delivery] = []
        """What consumers believe to hold, long after they have lost it."""
        self.granted = SLOTS

    async def step(self) -> str:
        """Do one thing; return its name."""
        self.now += self.rng.choice([0, 5, 900, MINUTE])
        acts: list[Callable[[], Awaitable[object]]] = [
            *[self.fire, self.take, self.complete] * 4,
            *[self.report, self.run, self.hand_back] * 2,
            *(self.cancel, self.poison, self.redrive, self.discard, self.grant),
            *(self.create, self.edit, self.delete, self.pause, self.resume),
        ]
        act = self.rng.choice(acts)
        try:
            await act()
        except WaterclockError as refusal:
            return f"{act.__name__}: {refusal}"
        return act.__name__

    def job(self) -> str:
        return self.rng.choice(self.ids)

    def registration(self, job_id: str) -> Registration:
        rules = Rules(
            concurrency=self.rng.choice([1, 2]),
            pause_after_failures=self.rng.choice([None, 2]),
            expires_after_ms=self.rng.choice([None, 900]),
        )
        made = registration(
            job_id,
            next_run_at=self.now,
            overlap=self.rng.choice([*Overlap]),
            rules=rules,
            target=self.rng.choice([None, http("a.test")]),
            priority=self.rng.choice([*Priority]),
            group=self.rng.choice([None, "blue"]),
        )
        return replace(made, job=replace(made.job, created_at=self.now))

    async def create(self) -> None:
        await create_jobs(self.store, [self.registration(job_id) for job_id in self.ids])

    async def fire(self) -> None:
        await fire(self.store, self.shard, self.now)

    async def take(self) -> None:
        stream = self.rng.choice(streams_of("default"))
        self.held += await take(self.store, count=2, stream=stream)

    async def run(self) -> None:
        await run_job(self.store, self.job(), self.now)

    async def complete(self) -> None:
        some = self.rng.sample(self.held, min(2, len(self.held)))
        ends = []
        for delivery in some:
            retry_at = self.now + self.rng.choice([1, 2 * MINUTE])
            outcome = self.rng.choice([*Outcome])
            if outcome is Outcome.CANCELLED:  # that one has a verb of its own
                outcome = Outcome.ACCEPTED
            end = result(
                delivery,
                outcome,
                retry_at if outcome is Outcome.FAILED else None,
                reason=self.rng.choice([DeadReason.EXHAUSTED, DeadReason.FINAL]),
                lapses_at=self.now + self.rng.choice([5, MINUTE]),
            )
            ends += [end] * self.rng.choice([1, 2])
        await complete_executions(self.store, ends, self.now)

    async def report(self) -> None:
        if self.held:
            delivery = self.rng.choice(self.held)
            promise = Promise(delivery.execution_id, delivery.attempt, self.now, self.now + MINUTE)
            if self.rng.random() < 0.5:
                await report_running(self.store, promise, self.now, self.now + MINUTE)
            else:
                how = self.rng.random() < 0.5
                await report_end(self.store, promise, self.now, succeeded=how, rng=self.rng)

    async def hand_back(self) -> None:
        if self.held:
            lane = self.rng.choice(["", "q/default", "h/a.test"])
            await hand_back_executions(self.store, [self.rng.choice(self.held)], lane=lane)

    async def poison(self) -> None:
        if self.held:
            delivery = self.rng.choice(self.held)
            ready, entries = self.shard.ready(delivery.queue), [delivery.entry_id]
            await self.store.client.xclaim(
                ready, "workers", "w2", 0, entries, idle=3_600_000, retrycount=9
            )
            await reclaim_executions(self.store, delivery.queue, self.shard, "w3", self.now)

    async def cancel(self) -> None:
        job_id = self.job()
        live = (await get_job(self.store, job_id)).live
        times = [execution.nominal_at for execution in live[:1]]
        await cancel_executions(self.store, job_id, self.now, self.rng.choice([None, times]))

    async def letters(self) -> list[tuple[int, str]]:
        rows = await self.store.client.zrange(self.shard.dead, 0, 2, withscores=True)
        return [(int(died_at), execution_id.decode()) for execution_id, died_at in rows]

    async def redrive(self) -> None:
        found = [execution_id for _, execution_id in await self.letters()]
        await redrive_letters(self.store, found, self.now)

    async def discard(self) -> None:
        await discard_letters(self.store, (await self.letters())[:1], by="chance")

    async def grant(self) -> None:
        change = self.rng.choice([-2, -1, 1, 2])
        if 0 <= self.granted + change <= 2 * SLOTS:
            self.granted += change
            await grant(self.store, self.shard, {"slots:q/default": f"{change:+}"})
        await grant(self.store, self.shard, {"tokens:h/a.test": "+1", "fair:default": "2"})

    async def edit(self) -> None:
        job_id = self.job()
        stored = await get_job(self.store, job_id)
        await replace_job(self.store, stored, self.registration(job_id), self.now)

    async def delete(self) -> None:
        await delete_job(self.store, self.job())

    async def pause(self) -> None:
        await pause_job(self.store, self.job(), self.now)

    async def resume(self) -> None:
        await resume_job(self.store, self.job(), self.now, self.rng.choice([None, "fire_all"]))


@pytest.mark.parametrize("seed", range(3))
async def test_the_invariants_hold_after_every_step_of_a_random_walk(
    any_store: Store, seed: int
) -> None:
    walk = Walk(any_store, seed)
    await grant(any_store, walk.shard, {"slots:q/default": str(SLOTS), "tokens:h/a.test": "5"})
    await walk.create()
    done = []
    for _ in range(STEPS):
        done.append(await walk.step())
        space = await read_shard(any_store, walk.shard)
        assert list(faults(space)) == [], done[-3:]
        gates = space["gates"]
        spread = int(gates["slots:q/default"]) + int(gates.get("live:q/default", 0))
        assert spread == walk.granted, done[-3:]
    assert {"fire", "take", "complete"} <= {*done}
