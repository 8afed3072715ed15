"""Leases of what a worker holds: extended from a thread of their own, whatever its event loop does.

A handler that blocks the event loop, or works without a pause, must not cost the worker its leases:
so the beat has its own thread, event loop and connection. It shares only `Holding`, and tells the
worker's loop what was lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from engine import codec
from engine.clock import Clock
from engine.config import Config
from engine.execution import Delivery
from engine.holding import Held, Holding
from engine.loop import keep_stepping
from engine.store import Store
from engine.store.executions import heartbeat_executions
from engine.targets import time_allowed

GRACE_MS = 30_000
"""How long after its time an attempt may take to come to its end: one that hangs for ever is not to
keep its lease for ever."""
FOREVER_MS = 1 << 53
CLOSE_S = 1.0

log = logging.getLogger("waterclock.worker")


async def extend(store: Store, clock: Clock, held: Iterable[Held]) -> list[Held]:
    """Extend leases; return those that were lost, now marked so."""
    # The proof that is sent is what an answer is about: it may move on meanwhile.
    sent = [(one, one.delivery) for one in held]
    at = clock.monotonic_ms()
    answers = await heartbeat_executions(store, [delivery for _, delivery in sent])
    lost = []
    for (one, delivery), is_held in zip(sent, answers, strict=True):
        if is_held:
            one.beaten_at = at
        elif one.lose(delivery):
            lost.append(one)
    return lost


def is_overdue(held: Held, clock: Clock) -> bool:
    """Return whether an attempt should have been over long ago."""
    if held.has_ended:
        return False
    now = clock.monotonic_ms()
    if held.ends_at is None:
        allowed_ms = _allowed_ms(held.delivery, clock.now_ms() - (now - held.taken_at))
        held.ends_at = held.taken_at + allowed_ms + GRACE_MS
    return now >= held.ends_at


def _allowed_ms(delivery: Delivery, started_at: int) -> int:
    timeout_ms = codec.load_target(delivery.target).timeout_ms
    allowed_ms, _ = time_allowed(delivery, timeout_ms or FOREVER_MS, started_at)
    return allowed_ms


class Beats:
    """Extends each lease when a third of its time is over.

    `on_lost` is called in the event loop of `run` for each delivery that was lost.
    """

    def __init__(
        self, config: Config, clock: Clock, holding: Holding, on_lost: Callable[[Held], None]
    ) -> None:
        self._config = config
        self._clock = clock
        self._holding = holding
        self._on_lost = on_lost
        self._pause_ms = config.execution_lease_ms / 12
        self._store: Store | None = None
        self._beaten_at: int | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether all leases were whole a moment ago: nobody can have found one that ran out."""
        if self._beaten_at is None:
            return False
        return self._clock.monotonic_ms() - self._beaten_at < self._config.execution_lease_ms / 3

    async def run(self, stop: asyncio.Event) -> None:
        """Beat in a thread until `stop`. Raises what it cannot go on with: Unusable."""
        own, theirs = asyncio.new_event_loop(), asyncio.get_running_loop()
        ended: asyncio.Future[None] = theirs.create_future()
        stopping = asyncio.Event()
        thread = threading.Thread(
            target=self._live, args=(own, stopping, theirs, ended), name="beats", daemon=True
        )
        thread.start()
        stopped = asyncio.create_task(stop.wait())
        either: list[asyncio.Future[Any]] = [stopped, ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            with suppress(RuntimeError):  # it is closed already
                own.call_soon_threadsafe(stopping.set)
            await asyncio.wait([ended], timeout=CLOSE_S)
        if ended.done():
            ended.result()

    def _live(
        self,
        own: asyncio.AbstractEventLoop,
        stopping: asyncio.Event,
        theirs: asyncio.AbstractEventLoop,
        ended: asyncio.Future[None],
    ) -> None:
        """The thread's life."""

        def lose(held: Held) -> None:
            with suppress(RuntimeError):  # the worker is gone
                theirs.call_soon_threadsafe(self._on_lost, held)

        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: own) as runner:
                runner.run(self._keep_beating(stopping, lose))
        except Exception as error:
            failure = error

        def tell() -> None:
            if not ended.done():
                ended.set_exception(failure) if failure else ended.set_result(None)

        with suppress(RuntimeError):
            theirs.call_soon_threadsafe(tell)

    async def _keep_beating(self, stopping: asyncio.Event, lose: Callable[[Held], None]) -> None:
        async def step() -> float:
            for held in await self._beat():
                lose(held)
            return self._pause_ms

        try:
            await keep_stepping("worker.leases", step, stopping)
        finally:
            if self._store is not None:
                await self._store.close()

    async def _beat(self) -> list[Held]:
        """Extend what is due; return what was lost, or is given up because it hangs."""
        if self._store is None:
            self._store = await Store.open(self._config)
        started = self._clock.monotonic_ms()
        due_ms = self._config.execution_lease_ms / 3 - self._pause_ms
        held = [one for one in self._holding.all() if not one.is_lost]
        due = [one for one in held if started - one.beaten_at >= due_ms]
        hanging = [one for one in due if is_overdue(one, self._clock) and one.lose(one.delivery)]
        for one in hanging:
            log.warning("execution %s: it hangs, giving it up", one.delivery.execution_id)
        due = [one for one in due if not one.is_lost]
        lost = await extend(self._store, self._clock, due) if due else []
        self._beaten_at = started
        return hanging + lost
