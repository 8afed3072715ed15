"""Watching a run: when nothing waits any more, when all is done, and what the handlers recorded."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench.peers.contract import Jobs
from bench.peers.programs import Programs
from bench.peers.records import Records, count_records
from bench.peers.servers import Server
from engine.errors import Unusable

POLL_S = 0.01
GRACE_S = 0.3
"""How long records may still come, of jobs that ran twice."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the harness saw of a run; times in seconds since 1970."""

    records: Records
    triggered_at: float | None
    """When nothing waited any more, if that can be seen."""
    ended_at: float
    """When all handlers had run, and the peer had noted that."""


async def watch(
    program: Programs,
    processes: list[asyncio.subprocess.Process],
    jobs: Jobs,
    server: Server,
    deadline: float,
) -> Seen:
    """Return what is seen of jobs until they are done. Raises Unusable if they are not done at the
    deadline, or if a process ends."""
    peer = program.peer
    waiting, unfinished = peer.waiting(jobs), peer.unfinished(jobs)
    recurred = peer.recurred(jobs) if peer.recurred and jobs.kind == "recurring" else None
    triggered_at = noted_at = None
    while time.time() < deadline:
        program.check(processes)
        now, left = time.time(), await server.total(waiting)
        if recurred is None:
            is_triggered = bool(waiting) and not left and now >= jobs.at_ms / 1000
        else:
            is_triggered = await server.total(recurred) >= jobs.count
        if is_triggered and triggered_at is None:
            triggered_at = time.time()
        if is_triggered and recurred is not None and peer.recurs_without_worker:
            return Seen(Records([]), triggered_at, time.time())
        is_noted = not left and not await server.total(unfinished)
        noted_at = (noted_at or time.time()) if is_noted else None
        if noted_at is not None and count_records(program.folder) >= jobs.count:
            await asyncio.sleep(GRACE_S)
            records = Records.read(program.folder)
            # Nothing can be noted where jobs run right from a process's memory.
            ended_at = max(records.last_s(), noted_at if waiting or unfinished else 0)
            return Seen(records, triggered_at, ended_at)
        await asyncio.sleep(POLL_S)
    ran = count_records(program.folder)
    raise Unusable(f"{ran} of {jobs.count} jobs of {peer.name} ran in time")
