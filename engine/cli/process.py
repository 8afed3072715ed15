"""How a process lives: signals, one event loop, and a store that may come up later than we do."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable

from engine.backoff import Retry
from engine.config import Config
from engine.garbage import look_seldom
from engine.loop import sleep_unless
from engine.store import Store
from engine.store.connection import TRANSIENT

log = logging.getLogger("waterclock.process")

SAME_SIGNAL_MS = 500
"""A second signal within this time is the first one again: from a terminal, `make` and the shell
both pass it on."""

_RECONNECT = Retry(max_attempts=10, base_ms=100, max_ms=1_000)
_LONGEST = _RECONNECT.max_attempts - 1
"""The last attempt that has a wait after it; later ones wait as long."""


class Signals:
    """The first SIGINT or SIGTERM sets `stop`; a second one ends the process at once."""

    def __init__(
        self,
        stop: asyncio.Event,
        *,
        end: Callable[[int], object] = os._exit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._end = end
        self._monotonic = monotonic
        self._first_at: float | None = None

    def receive(self, number: int) -> None:
        """Take a signal; at a second one, end with the shell's code for it, 128 and its number."""
        now = self._monotonic()
        if self._first_at is None:
            self._first_at = now
            self._stop.set()
        elif (now - self._first_at) * 1000 > SAME_SIGNAL_MS:
            self._end(128 + number)


def run_process(main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `main` in an event loop until it returns; a signal sets the event that it gets."""
    import uvloop  # not on Windows, where the other commands still work

    look_seldom()

    async def under_signals() -> None:
        stop = asyncio.Event()
        signals = Signals(stop)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, signals.receive, number)
        await main(stop)

    uvloop.run(under_signals())


async def open_store(config: Config, stop: asyncio.Event) -> Store | None:
    """Return a store once its server can be reached, or None if `stop` is set before.

    Raises Unusable: waiting does not cure an unfit server.
    """
    attempt = 0
    while not stop.is_set():
        try:
            return await Store.open(config)
        except TRANSIENT as error:
            attempt += 1
            wait_ms = _RECONNECT.delay_ms(min(attempt, _LONGEST), random.Random()) or 0
            log.warning("no server yet (%s); trying again in %d ms", error, wait_ms)
            await sleep_unless(stop, wait_ms)
    return None
