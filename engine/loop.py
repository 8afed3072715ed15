"""How every loop runs: step after step until told to stop, and through a server that is away.

A loop is a `step` that makes one pass and returns how long to sleep. Tests call steps;
`keep_stepping` calls them for ever. Lost connections and full servers pass by themselves: the step
is made again, after a wait that grows and is jittered, so that a fleet does not come back in one
instant. That is safe because a step sends nothing but reads and compare-and-set scripts.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from engine.errors import Frozen, Unusable
from engine.store.connection import TRANSIENT

LONGEST_WAIT_MS = 2_000
LOG_EVERY = 8
"""One line for the first failed step in a row, then one for each so many."""


async def sleep_unless(stop: asyncio.Event, ms: float) -> None:
    """Return after `ms`, or at once when `stop` is set."""
    try:
        # wait_for of Python 3.11 loses a cancellation that comes together with the event.
        async with asyncio.timeout(ms / 1000):
            await stop.wait()
    except TimeoutError:
        pass


async def keep_stepping(
    name: str, step: Callable[[], Awaitable[float]], stop: asyncio.Event
) -> None:
    """Call `step` until `stop` is set, sleeping as many ms between two as the first one returns.

    Raises Unusable, which waiting does not cure; logs and survives everything else.
    """
    log = logging.getLogger(f"waterclock.{name}")
    task = asyncio.current_task()
    assert task is not None
    cancels = task.cancelling()
    failures = 0
    while not stop.is_set():
        try:
            pause_ms = await step()
            if failures:
                log.info("working again after %d failed tries", failures)
                failures = 0
        except Unusable:
            raise
        except Exception as error:
            if failures % LOG_EVERY == 0:
                known = isinstance(error, (*TRANSIENT, Frozen))
                log.warning("%s: %s; trying again", type(error).__name__, error, exc_info=not known)
            failures += 1
            pause_ms = random.uniform(0.5, 1) * min(LONGEST_WAIT_MS, 50 * 2 ** min(failures, 10))
        if task.cancelling() > cancels:
            # The driver takes a cancellation for a timeout of its own now and then (Python 3.11).
            raise asyncio.CancelledError
        if pause_ms > 0:
            await sleep_unless(stop, pause_ms)
        else:
            await asyncio.sleep(0)
