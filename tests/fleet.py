"""What tests of the loops begin with: schedulers and workers to step, a runner, a wire to cut.

A fleet's clock is moved by hand. What the server times itself is moved by hand too: `expire_leases`
ends a silent scheduler's leases, `age` a silent worker's.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import redis.exceptions as driver
from invariants import read_shard
from seeding import registration

from engine import codec
from engine.clock import ManualClock
from engine.execution import Delivery, Outcome, Record, SkipRecord
from engine.guard import Guard
from engine.keys import GROUP
from engine.model import HttpTarget, Overlap
from engine.names import HTTP_QUEUE
from engine.plan import Plan
from engine.reclaimer import Reclaimer
from engine.registration import Registration
from engine.scheduler import Scheduler
from engine.scripts import Call, Scripts
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.jobs import get_job
from engine.targets import Attempted
from engine.worker import Worker

LOOPBACK = "127.0.0.0/8, ::1"
"""The networks that are allowed where targets are this machine's own."""
ON_LOOPBACK = Guard.of(LOOPBACK)

OK = Attempted(True, 200)
BUSY = Attempted(False, 503, "HTTP 503")
REFUSED = Attempted(False, 404, "HTTP 404", is_final=True)


async def eventually(what: Callable[[], Awaitable[bool]], within_s: float = 10) -> None:
    """Return once `what` is true; fail if it is not so in time."""
    deadline = time.monotonic() + within_s
    while not await what():
        assert time.monotonic() < deadline, f"not so within {within_s} s"
        await asyncio.sleep(0.01)


def already_set() -> asyncio.Event:
    """Return the stop of a loop that shall only tidy up."""
    stop = asyncio.Event()
    stop.set()
    return stop


def with_config(store: Store, **changes: int) -> Store:
    """Return the same store under other settings."""
    return replace(store, config=store.config.model_copy(update=changes))


class Wire(Scripts):
    """Scripts over a wire that a test cuts: `down` before a call arrives, `deaf` on the answer's
    way back."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.client)
        self.down = False
        self.deaf = False

    async def run(
        self, name: str, keys: Sequence[str | bytes], args: Sequence[str | bytes | int] = ()
    ) -> Any:
        return await self._send_over(super().run(name, keys, args))

    async def run_many(self, calls: Sequence[Call]) -> list[Any]:
        replies: list[Any] = await self._send_over(super().run_many(calls))
        return replies

    async def _send_over(self, call: Coroutine[Any, Any, Any]) -> Any:
        if self.down:
            call.close()
            raise driver.ConnectionError("cut")
        reply = await call
        if self.deaf:
            raise driver.ConnectionError("cut")
        return reply


@dataclass
class ScriptedRunner:
    """A runner that notes what it is given, and answers as told: first what `answers` holds by job,
    then OK. While `gate` is closed nothing ends."""

    answers: dict[str, list[Attempted | Exception]] = field(default_factory=dict)
    seen: list[Delivery] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)
    most: int = 0
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self._running = 0

    async def run(self, delivery: Delivery) -> Attempted:
        self.seen.append(delivery)
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cut_off.append(delivery.execution_id)
            raise
        finally:
            self._running -= 1
        answer = (self.answers.get(delivery.job_id) or [OK]).pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.is_closed = True


def keep(store: Store, clock: ManualClock, holder: str = "s1") -> tuple[ShardKeeper, Scheduler]:
    """Return a scheduler and who keeps its leases."""
    keeper = ShardKeeper(store, clock, holder)
    return keeper, Scheduler(store, clock, keeper)


def hire(
    store: Store,
    clock: ManualClock,
    runner: ScriptedRunner,
    consumer: str = "w1",
    *,
    queues: Sequence[str] = ("default",),
    concurrency: int = 100,
) -> tuple[Worker, Reclaimer]:
    """Return a worker and who takes over for it."""
    weights = dict.fromkeys(queues, 1)
    worker = Worker(
        store, clock, weights, lambda: runner, concurrency=concurrency, consumer=consumer
    )
    return worker, Reclaimer(store, clock, worker)


async def settle(worker: Worker) -> None:
    """Let what the worker runs come to its end: it waits for its turn, or for a word to the
    server."""
    for _ in range(100):
        if not worker.running:
            return
        await asyncio.sleep(0)

    async def is_idle() -> bool:
        return worker.running == 0

    await eventually(is_idle)


async def expire_leases(store: Store, holder: str) -> None:
    """End the leases of a scheduler, as the server does to one that is silent."""
    for shard in store.layout.shards:
        if await store.client.get(shard.lease) == holder.encode():
            await store.client.delete(shard.lease)


async def age(store: Store, deliveries: Sequence[Delivery], by_ms: int = 3_600_000) -> None:
    """Make deliveries look as if their worker had been silent for so long."""
    for delivery in deliveries:
        ready = store.layout.shards[delivery.shard].ready(delivery.queue)
        await store.client.xclaim(
            ready, GROUP, delivery.consumer, 0, [delivery.entry_id], idle=by_ms, justid=True
        )


async def history(store: Store, job_id: str) -> list[Record | SkipRecord]:
    """Return a job's records, oldest first."""
    lines = await store.client.lrange(store.layout.shard_of(job_id).runs(job_id), 0, -1)
    return [codec.load_record(line) for line in reversed(lines)]


async def outcomes(store: Store, job_id: str) -> list[tuple[int, Outcome]]:
    """Return (attempt, outcome) of a job's attempts, oldest first."""
    found = await history(store, job_id)
    return [(record.attempt, record.outcome) for record in found if isinstance(record, Record)]


async def fired(store: Store) -> list[str]:
    """Return the ids of the executions that were offered as a first attempt, in the ledgers'
    order."""
    spaces = [await read_shard(store, shard) for shard in store.layout.shards]
    events = [event for space in spaces for event in space.get("ledger", [])]
    return [event[1] for event in events if event[0] == "fired" and event[2] == 1]


def http_job(
    job_id: str, url: str, plan: Plan, at: int, overlap: Overlap = Overlap.ALLOW
) -> Registration:
    """Return a job that calls `url`, first at `at`. Its plan may be faster than a user's may be."""
    made = registration(job_id, plan, next_run_at=at, queue=HTTP_QUEUE, overlap=overlap)
    return replace(made, job=replace(made.job, target=HttpTarget(url), anchor_at=at))


@dataclass(frozen=True)
class Times:
    """The nominal times of an interval job up to its next one, by what became of them."""

    succeeded: list[int]
    skipped: list[int]
    live: list[int]
    missing: list[int]
    doubled: list[int]


async def times_of(store: Store, job_id: str) -> Times:
    """Return what became of each nominal time of a job that runs every so many ms."""
    stored = await get_job(store, job_id)
    first, until = stored.job.anchor_at, stored.job.next_run_at
    assert until is not None
    step = stored.plan.interval_ms
    succeeded: list[int] = []
    skipped: list[int] = []
    for record in await history(store, job_id):
        if isinstance(record, SkipRecord):
            skipped += range(record.first_at, record.last_at + 1, step)
        elif record.outcome is Outcome.SUCCEEDED:
            succeeded.append(record.nominal_at)
    live = [execution.nominal_at for execution in stored.live]
    found = Counter([*succeeded, *skipped, *live])
    return Times(
        succeeded,
        skipped,
        live,
        missing=[at for at in range(first, until, step) if at not in found],
        doubled=[at for at, count in found.items() if count > 1],
    )
