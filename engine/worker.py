"""The worker: takes deliveries from ready streams, runs them, keeps their leases, reports how they
ended."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence

from engine.clock import Clock
from engine.loop import keep_stepping, sleep_unless
from engine.model import Delivery
from engine.store import BLOCK_MS, Store, executions
from engine.store.connection import TRANSIENT
from engine.store.executions import Answer, Result, Stream
from engine.targets import Attempted, Runner

REPORT_MOST = 500
"""Outcomes that go out in one report."""

Place = tuple[int, str, str]
"""Where a delivery's entry is: shard, queue, entry id."""

log = logging.getLogger("waterclock.worker")


def new_consumer_name() -> str:
    """Return a name that no other process has had: host, process id, and a random part."""
    host = "".join(c if c.isalnum() or c in "-." else "-" for c in socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(2)}"


class Worker:
    """Runs executions of some queues, many at a time.

    1. Reads new deliveries while it has free slots; blocks in Redis while there are none.
    2. Makes each attempt in a task of its own, through the runner of its target's type.
    3. Extends the leases of all it holds, each third of the lease; drops what it has lost.
    4. Reports outcomes in batches, and again until the server has answered.
    5. On stop reads nothing new, and gives what runs a deadline; what is cut off then is taken
       over by another worker when its lease runs out.
    """

    name = "worker"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        queues: Sequence[str],
        runner_factory: Callable[[], Runner],
        *,
        concurrency: int,
        consumer: str | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self.queues = tuple(queues)
        self._streams = [(queue, shard) for queue in queues for shard in store.layout.shards]
        self._new_runner = runner_factory
        self._concurrency = concurrency
        self.consumer = consumer or new_consumer_name()
        self._rng = rng or random.Random()
        self._running: dict[Place, tuple[Delivery, asyncio.Task[None]]] = {}
        self._results: list[Result] = []
        self._has_results = asyncio.Event()
        self._has_slot = asyncio.Event()
        self._turn = 0
        self._runner: Runner | None = None

    @property
    def free(self) -> int:
        """How many more executions it would take now."""
        return max(0, self._concurrency - len(self._running))

    @property
    def running(self) -> int:
        """How many executions run now."""
        return len(self._running)

    async def wait_for_slot(self) -> bool:
        """Return whether there is a free slot; wait for one before, half a second at the most."""
        if not self.free:
            self._has_slot.clear()
            # A stop does not wake this, so it looks up from time to time.
            await sleep_unless(self._has_slot, BLOCK_MS)
        return self.free > 0

    # Reading

    async def fetch(self, *, block: bool = True) -> int:
        """Read new deliveries into free slots, and start them; return how many.

        With many free slots one read covers all streams. With few, it goes from stream to stream,
        so that one worker does not sit on deliveries that another could start.
        """
        found = 0
        if self.free < len(self._streams):
            self._turn += 1
            for n in range(len(self._streams)):
                if not self.free:
                    return found
                stream = self._streams[(self._turn + n) % len(self._streams)]
                found += await self._read([stream], self.free, block=False)
            if found:
                return found
        if self.free:
            each = max(1, self.free // len(self._streams))
            found += await self._read(self._streams, each, block=block)
        return found

    async def _read(self, streams: Sequence[Stream], count: int, *, block: bool) -> int:
        deliveries = await executions.read_ready(
            self._store, streams, self.consumer, count, block=block
        )
        for delivery in deliveries:
            self.take(delivery)
        return len(deliveries)

    # Running

    def take(self, delivery: Delivery) -> None:
        """Start a delivery. One that runs already goes on under its new proof."""
        place = (delivery.shard, delivery.queue, delivery.entry_id)
        running = self._running.get(place)
        if running is not None:
            self._running[place] = (delivery, running[1])
            return
        task = asyncio.create_task(self._run(place, delivery))
        self._running[place] = (delivery, task)

    async def _run(self, place: Place, delivery: Delivery) -> None:
        started_at, started = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            if delivery.is_expired(started_at):
                self._results.append(executions.expired(self._running[place][0]))
                self._has_results.set()
                return
            try:
                if self._runner is None:
                    self._runner = self._new_runner()
                attempted = await self._runner.run(delivery)
            except Exception as error:
                log.exception("execution %s: the runner failed", delivery.execution_id)
                attempted = Attempted(False, error=f"internal: {type(error).__name__}")
            result = executions.ended(
                self._running[place][0],
                succeeded=attempted.succeeded,
                started_at=started_at,
                duration_ms=self._clock.monotonic_ms() - started,
                now=self._clock.now_ms(),
                rng=self._rng,
                is_final=attempted.is_final,
                status_code=attempted.status_code,
                error=attempted.error,
            )
            self._results.append(result)
            self._has_results.set()
        finally:
            del self._running[place]
            self._has_slot.set()

    # Reporting

    async def report(self) -> int:
        """Send the outcomes that are there; return how many. They stay if the server is away."""
        batch = self._results[:REPORT_MOST]
        if not batch:
            self._has_results.clear()
            return 0
        answers = await executions.complete_executions(self._store, batch, self._clock.now_ms())
        del self._results[: len(batch)]
        for result, answer in zip(batch, answers, strict=True):
            if answer is Answer.STALE:
                log.warning(
                    "execution %s: its lease was lost before its end was recorded",
                    result.delivery.execution_id,
                )
        return len(batch)

    # Leases

    async def beat(self) -> int:
        """Extend the leases of all that is held; abort what was lost. Return how many were lost."""
        places = list(self._running)
        deliveries = [self._running[place][0] for place in places]
        waiting = [result.delivery for result in self._results]
        held = await executions.heartbeat_executions(self._store, deliveries + waiting)
        lost = 0
        for place, delivery, is_held in zip(places, deliveries, held, strict=False):
            current = self._running.get(place)
            if not is_held and current is not None and current[0] is delivery:
                log.warning("execution %s: its lease was lost, aborting", delivery.execution_id)
                current[1].cancel()
                lost += 1
        return lost

    # Running for ever

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, then wait for what runs, at most `shutdown_ms`. Raises Unusable."""
        drained = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(keep_stepping("worker.leases", self._beat_step, drained))
                group.create_task(keep_stepping("worker.report", self._report_step, drained))
                await keep_stepping("worker.read", self._read_step, stop)
                await self._drain()
                drained.set()
                self._has_results.set()
            await self._leave()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            await self._close()

    async def _read_step(self) -> float:
        if await self.wait_for_slot():
            await self.fetch()
        return 0

    async def _report_step(self) -> float:
        await self._has_results.wait()
        await self.report()
        return 0

    async def _beat_step(self) -> float:
        await self.beat()
        return self._store.config.execution_lease_ms / 3

    async def _drain(self) -> None:
        """Wait for what runs; cut it off at the deadline."""
        deadline_s = self._store.config.shutdown_ms / 1000
        tasks = [task for _, task in self._running.values()]
        if tasks:
            log.info("waiting for %d executions", len(tasks))
            _, late = await asyncio.wait(tasks, timeout=deadline_s)
            await _cut_off(late)
            if late:
                log.warning("%d executions cut off; another worker takes them over", len(late))

    async def _leave(self) -> None:
        """Report what is left, and take the consumer's name off the groups."""
        try:
            while await self.report():
                pass
            for queue in self.queues:
                await executions.forget_consumers(
                    self._store, queue, idle_ms=0, consumer=self.consumer
                )
        except TRANSIENT as error:
            log.warning("%d outcomes could not be reported: %s", len(self._results), error)

    async def _close(self) -> None:
        """Leave nothing behind in this process, however `run` ends."""
        await _cut_off(task for _, task in self._running.values())
        if self._runner is not None:
            await self._runner.close()


async def _cut_off(tasks: Iterable[asyncio.Task[None]]) -> None:
    leaving = list(tasks)
    for task in leaving:
        task.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
