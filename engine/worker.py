"""The worker: takes deliveries from ready streams, runs them, and reports how they ended.

What it reads next is decided in reading.py, leases are kept in beats.py, outcomes go out in
reporting.py, and pushback.py knows the hosts that asked for less.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping

from engine.beats import Beats, extend
from engine.clock import Clock
from engine.execution import Delivery, ErrorKind
from engine.holding import Held, Holding
from engine.loop import keep_stepping, sleep_unless
from engine.pushback import ASKS_FOR_LESS, Hosts
from engine.reading import Reader
from engine.reporting import Reports, judge
from engine.store import BLOCK_MS, Store, executions, outcomes
from engine.store.connection import TRANSIENT
from engine.store.outcomes import Result
from engine.targets import Attempted, Runner, failed

log = logging.getLogger("waterclock.worker")


def new_consumer_name() -> str:
    """Return a name that no other process has had: host, process id, and a random part."""
    host = "".join(c if c.isalnum() or c in "-." else "-" for c in socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(2)}"


class Worker:
    """Runs executions of some queues, many at a time.

    1. Reads new deliveries while it has free slots; blocks in Redis while there are none.
    2. Makes each attempt in a task of its own, through its runner.
    3. Aborts what it has lost: another worker has it, or it was cancelled.
    4. Reports outcomes in batches, and again until the server has answered. An outcome that is not
       reported keeps its slot, so a server that is away does not let the worker run on.
    5. On stop reads nothing new, hands back what it has not started, and gives what runs a
       deadline; what is cut off then is taken over by another worker when its lease runs out.

    `queues` are queues and their weights. `lingering` says how many slots the runner still needs
    for attempts that are over. `holding` is given by who wants to look on.
    """

    name = "worker"

    def __init__(
        self,
        store: Store,
        clock: Clock,
        queues: Mapping[str, int],
        runner_factory: Callable[[], Runner],
        *,
        concurrency: int,
        consumer: str | None = None,
        rng: random.Random | None = None,
        holding: Holding | None = None,
        lingering: Callable[[], int] = lambda: 0,
    ) -> None:
        self._store = store
        self._clock = clock
        self.queues = tuple(queues)
        self._new_runner = runner_factory
        self.concurrency = concurrency
        self.consumer = consumer or new_consumer_name()
        self._rng = rng or random.Random()
        self._holding = Holding() if holding is None else holding
        self._lingering = lingering
        self._reader = Reader(store, queues, self.consumer)
        self._hosts = Hosts(store, clock)
        self._beats = Beats(store.config, clock, self._holding, self._abort)
        self._reports = Reports(store, clock, self._release)
        self._has_slot = asyncio.Event()
        self._is_leaving = False
        self._runner: Runner | None = None

    @property
    def free(self) -> int:
        """How many more executions it would take now."""
        return max(0, self.concurrency - len(self._holding) - self._lingering())

    @property
    def running(self) -> int:
        """How many executions run now."""
        return sum(not one.has_ended for one in self._holding.all())

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

        Gives back what came beyond its slots, or after the stop, and what is for a host that wants
        nothing yet. What it cannot give back, for want of a server, is taken over in time.
        """
        found = await self._reader.read(self.free, block=block) if self.free else []
        deliveries, waiting = self._hosts.split(found)
        room = 0 if self._is_leaving else self.free
        for delivery in deliveries[:room]:
            self.take(delivery)
        if deliveries[room:]:
            await executions.hand_back_executions(self._store, deliveries[room:])
        for host, theirs in waiting.items():
            await executions.hand_back_executions(self._store, theirs, lane=f"h/{host}")
        return min(room, len(deliveries))

    def take(self, delivery: Delivery) -> None:
        """Start a delivery. An entry that is held already goes on under its new proof."""
        held = self._holding.find(delivery)
        if held is not None and not held.is_lost:
            held.delivery = delivery
            return
        held = self._holding.add(delivery, self._clock.monotonic_ms())
        held.task = asyncio.create_task(self._run(held))

    # Running

    async def _run(self, held: Held) -> None:
        result = None
        try:
            result = await self._attempt(held)
        finally:
            if result is None or held.is_lost:
                self._release(held)
            else:
                self._reports.add(held, result)

    async def _attempt(self, held: Held) -> Result:
        started_at, started = self._clock.now_ms(), self._clock.monotonic_ms()
        delivery = held.delivery
        if delivery.is_expired(started_at):
            return outcomes.expired(delivery)
        if delivery.is_late:
            return outcomes.late(delivery)
        if delivery.lapsed:
            attempted = failed(ErrorKind.TIMEOUT, "the target fell silent")
        else:
            attempted = await self._make(delivery)
        duration_ms = self._clock.monotonic_ms() - started
        # The proof may have moved on during the attempt.
        return judge(
            held.delivery, attempted, started_at, duration_ms, self._clock.now_ms(), self._rng
        )

    async def _make(self, delivery: Delivery) -> Attempted:
        try:
            if self._runner is None:
                self._runner = self._new_runner()
            attempted = await self._runner.run(delivery)
        except Exception as error:
            log.exception("execution %s: the runner failed", delivery.execution_id)
            return failed(ErrorKind.INTERNAL, type(error).__name__)
        if attempted.status_code in ASKS_FOR_LESS:
            try:
                await self._hosts.note(delivery, attempted)
            except TRANSIENT as error:
                log.warning("that a host asked for less could not be noted: %s", error)
        return attempted

    def _release(self, held: Held) -> None:
        self._holding.release(held)
        self._has_slot.set()

    # Reporting

    async def report(self) -> int:
        """Send outcomes that are there, a bounded number; return how many. They stay if the server
        is away."""
        return await self._reports.send()

    # Leases

    async def beat(self) -> int:
        """Extend the leases of all that is held; abort what was lost. Return how many were lost."""
        held = [one for one in self._holding.all() if not one.is_lost]
        lost = await extend(self._store, self._clock, held)
        for one in lost:
            self._abort(one)
        return len(lost)

    async def refresh(self) -> None:
        """See that no lease of its own can be found to have run out, so that nobody takes over from
        himself: after a pause of the process it beats here, before its thread does."""
        if not self._beats.is_fresh:
            await self.beat()

    def _abort(self, held: Held) -> None:
        log.warning(
            "execution %s: its lease was lost, or it was cancelled; aborting",
            held.delivery.execution_id,
        )
        if held.task is not None:
            held.task.cancel()

    # Running for ever

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`, then wait for what runs, at most `shutdown_ms`. Raises Unusable."""
        drained = asyncio.Event()
        leaving = asyncio.create_task(self._leave_on(stop))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._beats.run(drained))
                group.create_task(keep_stepping("worker.report", self._report_step, drained))
                await keep_stepping("worker.read", self._read_step, stop)
                await self._drain()
                drained.set()
                self._reports.are_there.set()
            await self._leave()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            leaving.cancel()
            await self._close()

    async def _leave_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._is_leaving = True

    async def _read_step(self) -> float:
        if await self.wait_for_slot():
            await self.fetch()
        return 0

    async def _report_step(self) -> float:
        await self._reports.are_there.wait()
        await self.report()
        return 0

    async def _drain(self) -> None:
        """Wait for what runs; cut it off at the deadline."""
        deadline_s = self._store.config.shutdown_ms / 1000
        tasks = self._tasks()
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
            for name in self._reader.names:
                await executions.forget_consumers(
                    self._store, name, idle_ms=0, consumer=self.consumer
                )
        except TRANSIENT as error:
            log.warning("%d outcomes could not be reported: %s", len(self._reports), error)

    async def _close(self) -> None:
        """Leave nothing behind in this process, however `run` ends."""
        await _cut_off(self._tasks())
        if self._runner is not None:
            await self._runner.close()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [one.task for one in self._holding.all() if one.task and not one.task.done()]


async def _cut_off(tasks: Iterable[asyncio.Task[None]]) -> None:
    leaving = list(tasks)
    for task in leaving:
        task.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
