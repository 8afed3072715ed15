"""The supervisor: starts services in order, and stops them in reverse order within a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

log = logging.getLogger("waterclock.supervisor")

GRACE_MS = 5_000
"""What a service gets on top of the deadline to close what it holds, before it is cancelled."""


class Service(Protocol):
    """Something that runs until it is told to stop, and then tidies up and returns."""

    name: str

    async def run(self, stop: asyncio.Event) -> None: ...


async def run_services(services: Sequence[Service], stop: asyncio.Event, deadline_ms: int) -> None:
    """Run services until `stop` is set or one of them ends; then stop all, the last started first.

    Each has `deadline_ms` for its work, and a grace, before it is cancelled. Raises what a service
    failed with, after all have stopped: the failure that stopped the others, if there are several.
    """
    running: list[tuple[Service, asyncio.Event, asyncio.Task[None]]] = []
    for service in services:
        stopping = asyncio.Event()
        task = asyncio.create_task(service.run(stopping), name=service.name)
        running.append((service, stopping, task))
    stopped = asyncio.create_task(stop.wait())
    ended, _ = await asyncio.wait(
        [stopped, *(task for _, _, task in running)], return_when=asyncio.FIRST_COMPLETED
    )
    stopped.cancel()
    failures: list[BaseException] = []
    for service, stopping, task in reversed(running):
        stopping.set()
        _, late = await asyncio.wait([task], timeout=(deadline_ms + GRACE_MS) / 1000)
        if late:
            log.warning("%s does not stop in time and is cut off", service.name)
            task.cancel()
            await asyncio.wait([task], timeout=GRACE_MS / 1000)
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            failures.insert(0 if task in ended else len(failures), error)
    for error in failures[1:]:
        log.error("one more failure while stopping", exc_info=error)
    if failures:
        raise failures[0]
