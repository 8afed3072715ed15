"""The four workloads, each as one run of one peer: what it is given, and what is seen of it.

| workload | jobs |
|---|---|
| spike | one-off jobs, all due at one instant |
| recurring | recurring jobs, all due at one instant for the first time |
| steady | one-off jobs, due evenly at a rate |
| immediate | jobs that are stored first, and then run by one worker process |
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.peers.contract import Jobs, Kind
from bench.peers.install import Installation
from bench.peers.peer import Peer
from bench.peers.programs import Programs, programs
from bench.peers.records import count_ready, percentile, ready_s
from bench.peers.servers import Server, server_for
from bench.peers.watching import POLL_S, Seen, watch
from engine.errors import Unusable

Figures = dict[str, float]

LIMIT_S = 60
"""How long a run may take from when its jobs are due."""
MARGIN_S = 0.5
"""How long before the jobs are due all must be stored and all processes work."""
TRIES = 3
STEADY_S = 3


class LateError(Exception):
    """A peer was not ready when its jobs were due."""


async def spike(peer: Peer, count: int, on: Installation) -> Figures:
    """Return how fast one-off jobs due at one instant are triggered and run, and what each takes of
    the server's memory."""
    return await _timed(peer, "once", count, 0, on)


async def recurring(peer: Peer, count: int, on: Installation) -> Figures:
    """Return how fast recurring jobs due at one instant are triggered, and run. Where no moment of
    triggering can be seen it is that of the handler."""
    return await _timed(peer, "recurring", count, 0, on)


async def steady(peer: Peer, rate: int, on: Installation) -> Figures:
    """Return how late handlers begin, in ms, at a rate of one-off jobs a second."""
    return await _timed(peer, "once", rate * STEADY_S, STEADY_S * 1000, on)


async def immediate(peer: Peer, count: int, on: Installation) -> Figures:
    """Return how many jobs a second are run, from the first one's handler to where the last one is
    noted as done."""
    jobs, registered_s = Jobs("immediate", count), 0.0
    async with (
        server_for(peer, on.redis) as server,
        programs(peer, server.url, on.folder) as program,
    ):
        if peer.registers(jobs):
            registered_s = await program.register(jobs)
        async with program.running(jobs) as processes:
            seen = await watch(program, processes, jobs, server, time.time() + LIMIT_S)
            # What stores its jobs itself begins with them when it says that it is ready.
            begun_s = ready_s(program.folder) if peer.registers_itself else seen.records.first_s()
    figures = seen.records.count(jobs)
    if peer.registers(jobs):
        figures["registered_per_s"] = count / registered_s
    return figures | {"executions_per_s": count / (seen.ended_at - begun_s)}


async def _timed(peer: Peer, kind: Kind, count: int, over_ms: int, on: Installation) -> Figures:
    """Run jobs that are due at a time; again, with more time before it, if that was too short."""
    lead_s = peer.startup_s + MARGIN_S + count / peer.registers_per_s
    for _ in range(TRIES):
        jobs = Jobs(kind, count, math.ceil(time.time() + lead_s) * 1000, over_ms)
        try:
            return await _run_timed(peer, jobs, on)
        except LateError:
            lead_s *= 2
    raise Unusable(f"{peer.name} was not ready {lead_s / 2:.0f} s after it was started")


async def _run_timed(peer: Peer, jobs: Jobs, on: Installation) -> Figures:
    at = jobs.at_ms / 1000
    figures: Figures = {}
    async with (
        server_for(peer, on.redis) as server,
        programs(peer, server.url, on.folder) as program,
    ):
        if peer.registers(jobs):
            empty = await server.used_bytes()
            figures["registered_per_s"] = jobs.count / await _register(program, jobs)
            figures["bytes_per_job"] = (await server.used_bytes() - empty) / jobs.count
        async with program.running(jobs) as processes:
            while count_ready(program.folder) < len(processes):
                program.check(processes)
                if time.time() > at - MARGIN_S:
                    raise LateError
                await asyncio.sleep(POLL_S)
            if time.time() > at - MARGIN_S:
                raise LateError
            await asyncio.sleep(at - MARGIN_S - time.time())
            cpu_s = await server.cpu_s()
            deadline = at + jobs.over_ms / 1000 + LIMIT_S
            seen = await watch(program, processes, jobs, server, deadline)
            figures["redis_us_per_job"] = (await server.cpu_s() - cpu_s) / jobs.count * 1e6
    return figures | _judge(jobs, seen)


async def _register(program: Programs, jobs: Jobs) -> float:
    try:
        return await program.register(jobs)
    except Unusable:
        # Some refuse jobs whose time has passed.
        if time.time() * 1000 > jobs.at_ms:
            raise LateError from None
        raise


@asynccontextmanager
async def _place(peer: Peer, on: Installation) -> AsyncIterator[tuple[Server, Programs]]:
    """Yield a server for one run, and the programs of the peer on it."""
    async with (
        server_for(peer, on.redis) as server,
        programs(peer, server.url, on.folder) as program,
    ):
        yield server, program


def _judge(jobs: Jobs, seen: Seen) -> Figures:
    """Return the figures of jobs that were due at a time."""
    at = jobs.at_ms / 1000
    figures: Figures = {}
    if seen.triggered_at is not None and not jobs.over_ms:
        figures["triggers_per_s"] = jobs.count / (seen.triggered_at - at)
    elif jobs.kind == "recurring":
        figures["triggers_per_s"] = jobs.count / (seen.records.last_s() - at)
    if not seen.records.ran:
        return figures
    lags = seen.records.lags_ms(jobs)
    return figures | {
        **seen.records.count(jobs),
        "lag_ms_p50": percentile(lags, 0.5),
        "lag_ms_p99": percentile(lags, 0.99),
        "complete_s": seen.ended_at - at,
        "completed_per_s": jobs.count / (seen.ended_at - at),
    }
