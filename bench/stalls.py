"""What another client of the same server feels: a PING each ms, in open loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from engine.store.connection import connect

EVERY_S = 0.001

Waits = list[tuple[float, float]]
"""When each PING was sent, in ms by this machine's clock, and the ms until its reply."""


async def live_as_probe(stop: asyncio.Event, url: str) -> Waits:
    """PING the server each ms until `stop`, however long the replies take; return the waits.

    Asks for the first turn on the CPU, where it may: else, on a machine whose cores are all in use,
    it would measure how long it waits for one itself.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    waits: Waits = []
    client: Any = connect(url)
    async with client:
        connection = await client.connection_pool.get_connection()
        sent: deque[float] = deque()
        arrivals = asyncio.create_task(_read(connection, sent, waits))
        next_at = time.perf_counter()
        while not stop.is_set():
            sent.append(time.time())
            await connection.send_command("PING")
            next_at += EVERY_S
            await asyncio.sleep(next_at - time.perf_counter())
        while sent and not arrivals.done():  # noqa: ASYNC110
            await asyncio.sleep(EVERY_S)
        arrivals.cancel()
        await connection.disconnect()
    return waits


async def _read(connection: Any, sent: deque[float], waits: Waits) -> None:
    while True:
        await connection.read_response()
        now, at = time.time(), sent.popleft()
        waits.append((at * 1000, (now - at) * 1000))


def between(waits: Waits, begin_at: float, end_at: float) -> list[float]:
    """Return the waits of what was sent in a time, the shortest first."""
    return sorted(ms for at, ms in waits if begin_at <= at < end_at)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of them do not exceed; nan if there is none."""
    if not ordered:
        return float("nan")
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]
