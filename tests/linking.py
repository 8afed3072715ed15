"""What tests of jobs that depend on jobs begin with: graphs in a line, and a fleet that plays them.

`"a b/failed"` are two upstream jobs, and the condition on the second one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from fleet import ScriptedRunner, hire, history, keep, settle
from seeding import AT_ONCE, NOW, ONE_OFF, registration

from engine.clock import ManualClock
from engine.depends import Condition, Depends, Join, Match, Upstream
from engine.execution import Record
from engine.model import Overlap
from engine.registration import Registration
from engine.relay import Relay
from engine.store import Store
from engine.store.dependencies import link_job
from engine.store.jobs import create_jobs
from engine.store.outbox import Ending, deliver_upstreams
from engine.targets import Attempted


def upstreams(text: str) -> tuple[Upstream, ...]:
    parts = [part.partition("/") for part in text.split()]
    return tuple(
        Upstream(name, Condition(condition or "succeeded")) for name, _, condition in parts
    )


def depends(
    text: str,
    join: Join = Join.ALL,
    match: Match = Match.SAME_TIME,
    gate_ms: int | None = None,
) -> Depends:
    return Depends(upstreams(text), join, match, gate_ms)


def dependent(job_id: str, on: Depends, **more: Any) -> Registration:
    """Return a job that runs when others have."""
    more = {"overlap": Overlap.ALLOW, "next_run_at": None, **more}
    made = registration(job_id, AT_ONCE, **more)
    return replace(made, job=replace(made.job, depends=on))


def root(job_id: str, **more: Any) -> Registration:
    """Return a job that is due once, at NOW."""
    return registration(job_id, ONE_OFF, overlap=Overlap.ALLOW, **more)


async def make(store: Store, graph: Mapping[str, str | Depends]) -> None:
    """Register jobs, in this order; '' for a root."""
    for job_id, on in graph.items():
        if not on:
            await create_jobs(store, [root(job_id)])
            continue
        on = depends(on) if isinstance(on, str) else on
        await link_job(store, job_id, on)
        await create_jobs(store, [dependent(job_id, on)])


class Flow:
    """A scheduler, a worker and a relay, to be stepped."""

    def __init__(
        self, store: Store, answers: dict[str, list[Attempted | Exception]] | None = None
    ) -> None:
        self.store = store
        self.clock = ManualClock(NOW)
        self.runner = ScriptedRunner(answers or {})
        self.worker, _ = hire(store, self.clock, self.runner, concurrency=20_000)
        self.keeper, self.scheduler = keep(store, self.clock)
        self.relay = Relay(store, self.clock, self.keeper)

    async def begin(self) -> None:
        await self.keeper.step()

    def new_relay(self, store: Store | None = None) -> Relay:
        """Return one more relay, which believes that it holds the shards."""
        return Relay(store or self.store, self.clock, self.keeper)

    async def work(self) -> int:
        """Run all that is ready; return how many that was."""
        taken = total = await self.worker.fetch(block=False)
        # The first read of a queue that nobody has read only makes its groups.
        taken = taken or await self.worker.fetch(block=False)
        while taken:
            await settle(self.worker)
            while await self.worker.report():
                pass
            total += taken
            taken = await self.worker.fetch(block=False)
        return total

    async def play(self) -> None:
        """Step all until nothing happens any more."""
        while True:
            before = self.relay.relayed, len(self.runner.seen)
            await self.scheduler.step()
            await self.work()
            await self.relay.step(block=False)
            if before == (self.relay.relayed, len(self.runner.seen)):
                return

    @property
    def ran(self) -> Counter[str]:
        """How often each execution was run."""
        return Counter(delivery.execution_id for delivery in self.runner.seen)


async def became(store: Store, job_id: str) -> list[str]:
    """Return what a job's records say, oldest first: outcomes, and reasons for what did not run."""
    return [
        str(record.outcome) if isinstance(record, Record) else str(record.reason)
        for record in await history(store, job_id)
    ]


class Teller:
    """Tells one dependent how executions ended, as a relay does."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._entries = count(1)

    def ending(
        self,
        job_id: str,
        outcome: str = "succeeded",
        *,
        time: int = NOW,
        cause: str | None = None,
        result: bytes = b"",
        again: bool = False,
    ) -> Ending:
        usual = "" if outcome == "succeeded" else f"{job_id}@{time}"
        return Ending(
            f"{next(self._entries)}-0",
            job_id,
            str(time),
            outcome,
            usual if cause is None else cause,
            result,
            b"1" if again else b"",
        )

    async def send(self, dependent: str, ending: Ending, now: int = NOW) -> str:
        """Send one ending; return the script's word for it."""
        layout = self.store.layout
        source, shard = layout.shard_of(ending.job_id), layout.shard_of(dependent)
        [word] = await deliver_upstreams(self.store, source, [(shard, dependent, ending)], now)
        return word

    async def tell(
        self, dependent: str, job_id: str, outcome: str = "succeeded", **more: Any
    ) -> str:
        now = more.pop("now", NOW)
        return await self.send(dependent, self.ending(job_id, outcome, **more), now)


async def outbox_of(store: Store, job_id: str) -> list[tuple[str, str, str]]:
    """Return (job, outcome, cause) of what the outbox of a job's shard holds."""
    entries = await store.client.xrange(store.layout.shard_of(job_id).outbox)
    return [(f[b"job"].decode(), f[b"outcome"].decode(), f[b"cause"].decode()) for _, f in entries]
