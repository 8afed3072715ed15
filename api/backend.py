"""What the API stands on: one store and one clock, also while there is no server to reach."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import Any, Self

from starlette.requests import Request

from api.door import Door
from api.gate import Gate
from api.gathering import Gathering
from api.polling import Polls
from api.tailing import Tailing
from engine.access import Scope
from engine.backoff import MOST_ATTEMPTS, Retry
from engine.clock import SampledClock, ServerClock
from engine.config import Config
from engine.errors import Frozen, Unusable
from engine.store import Store
from engine.store.connection import TRANSIENT
from engine.store.phase import REFUSALS, Phase, read_phase
from engine.store.server import time_ms

log = logging.getLogger(__name__)

SAMPLE_MS = 1_000
CANCEL_S = 0.1
REACH = Retry(MOST_ATTEMPTS, base_ms=100, max_ms=2_000, jitter="equal")


class Backend:
    """The deployment that the API serves. `async with` starts and stops it.

    1. Opens the store, unless it was given one, and keeps trying while no server can be reached,
       or the one that is reached later turns out unfit.
    2. Each second samples the server's clock, looks whether the deployment is frozen, and stores
       when keys were last used.
    3. At the end closes the store that it opened.
    """

    def __init__(self, config: Config, store: Store | None, clock: SampledClock | None) -> None:
        self.clock = clock or ServerClock()
        self.rng = Random()
        self.turn = 0
        """Where the next claim begins to look, so that no shard is served last for ever."""
        self.door = Door.of(config)
        self.gate = Gate(config)
        self.polls = Polls(lambda: self.store)
        self.gathering = Gathering(lambda: self.store)
        self.tailing = Tailing(lambda: self.store)
        self._config = config
        self._store = store
        self._owns_store = store is None
        self._unusable: Unusable | None = None
        self._frozen: Phase | None = None
        self._is_reached = True
        self._task: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store:
        """The store. Raises ConnectionError while no server was reached, Unusable for an unfit
        one."""
        if self._store is None:
            raise self._unusable or ConnectionError("no server was reached yet")
        return self._store

    def end_waiting(self) -> None:
        """Answer all who wait for work, and end all who listen: the process is to end."""
        self.polls.close()
        self.tailing.close()

    def refuse_frozen(self, scope: Scope | None) -> None:
        """Refuse with Frozen what would change a deployment that is moving to another server, or
        has moved, as of a second ago. Scripts know at once, and let work end that has begun; what
        is written without one is turned away here."""
        if self._frozen and scope in (Scope.WRITE, Scope.ADMIN):
            raise Frozen(f"this deployment {REFUSALS[self._frozen]}; nothing was changed")

    @property
    def context(self) -> dict[str, Any]:
        """What bodies that define a job are checked against."""
        return {"clock": self.clock, "door": self.door}

    async def __aenter__(self) -> Self:
        """Raises Unusable if the server answers and is unfit, or holds no key where one is asked
        for."""
        await self._step()
        try:
            if self._store is not None and self._is_reached:
                await self.gate.check_start(self._store)
        except BaseException:
            await self._close()
            raise
        self._task = asyncio.create_task(self._run(), name="api-backend")
        return self

    async def __aexit__(self, *_: object) -> None:
        # In Python 3.11 the driver loses a cancellation that meets the end of its write (wait_for).
        while self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_S)
        await self._close()

    async def _close(self) -> None:
        if self._store and self._owns_store:
            await self._store.close()

    async def _run(self) -> None:
        failed = 0
        while True:
            wait_ms: int | None = SAMPLE_MS
            if self._store is None:
                failed = min(failed + 1, MOST_ATTEMPTS - 1)
                wait_ms = REACH.delay_ms(failed, self.rng)
            await asyncio.sleep((wait_ms or 0) / 1000)
            try:
                await self._step()
            except Unusable as error:
                self._unusable = error
                log.error("%s", error)
            except Exception:
                log.exception("the API's look at its server failed; it goes on")

    async def _step(self) -> None:
        """Open the store if it is not open; then sample the clock. Raises Unusable for an unfit
        server; with none to reach it changes nothing."""
        try:
            if self._store is None:
                self._store = await Store.open(self._config)
            self.clock.sample(await time_ms(self._store.client))
            self._frozen = await read_phase(self._store.client)
            await self.gate.write_uses(self._store)
        except TRANSIENT as error:
            if self._is_reached:
                log.warning("Redis does not answer: %s: %s", type(error).__name__, error)
            self._is_reached = False
        else:
            if not self._is_reached:
                log.info("Redis answers again")
            self._is_reached = True


def backend_of(request: Request) -> Backend:
    """Return the backend of the application that a request came to."""
    backend = request.app.state.backend
    assert isinstance(backend, Backend)
    return backend
