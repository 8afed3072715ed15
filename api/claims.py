"""Claims over HTTP: hand executions to workers that speak only HTTP, at once or when some come.

What is handed over is a lease, as a worker on Redis has it: pending entry, consumer and delivery
count. It ends as api/completions.py says, or runs out and is handed to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response

from api.answers import ClaimOut
from api.backend import Backend, backend_of
from api.leases import dump_claimed
from api.operations import contract
from api.polling import Place, find_work
from api.schemas_worker import ClaimExecution
from api.wire import JsonResponse, read_body, rfc_3339, verbatim
from engine.execution import Delivery, ErrorKind
from engine.store import Store
from engine.store.executions import (
    complete_executions,
    hand_back_executions,
    read_ready,
    reclaim_executions,
)
from engine.store.outcomes import Result, ended, expired, late

FELL_SILENT = "timeout: the target fell silent"


@contract(body=ClaimExecution, gives=ClaimOut | list[ClaimOut], also=(204,))
async def claim(request: Request) -> Response:
    """Hand executions over: of each stream first those whose lease ran out. With `wait_ms` wait for
    one where there is none; 204 (with `max` an empty array) when none came."""
    backend = backend_of(request)
    body = await read_body(request, ClaimExecution)
    most = body.max or 1
    loop = asyncio.get_running_loop()
    deadline = loop.time() + body.wait_ms / 1000
    found = await _take(backend, body, most)
    while not found and (left_ms := (deadline - loop.time()) * 1000) > 0:
        if not await _wait(request, backend, body.to_queues(), left_ms):
            break
        found = await _take(backend, body, most)
        if found and await request.is_disconnected():
            await hand_back_executions(backend.store, found)
            found = []
    now = backend.clock.now_ms()
    shown = [_shown(delivery, now, backend.store) for delivery in found]
    if body.max is not None:
        return JsonResponse(shown)
    return JsonResponse(shown[0]) if shown else Response(status_code=204)


def _shown(delivery: Delivery, now: int, store: Store) -> ClaimOut:
    return {
        "execution_id": delivery.execution_id,
        "job_id": delivery.job_id,
        "scheduled_for": rfc_3339(delivery.nominal_at),
        "attempt": delivery.attempt,
        "deliveries": delivery.deliveries,
        "target": verbatim(delivery.target),
        "payload": verbatim(delivery.payload),
        "upstream": verbatim(delivery.upstream or b"{}"),
        "lease": dump_claimed(delivery, now),
        "lease_ms": store.config.execution_lease_ms,
    }


async def _wait(
    request: Request, backend: Backend, queues: Sequence[str], timeout_ms: float
) -> bool:
    """Wait until a queue may have work; return False if the time is over, the process is to end, or
    the client has gone away."""
    waiting = asyncio.ensure_future(backend.polls.wait(queues, timeout_ms))
    # The body was read, so what comes next is that the client is gone.
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        return waiting.done() and waiting.result()
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


# What there is


async def _take(backend: Backend, body: ClaimExecution, most: int) -> list[Delivery]:
    """Return at most so many deliveries that are to be run: queue by queue in turns, and of each
    queue the most urgent first."""
    store, queues = backend.store, body.to_queues()
    turn, backend.turn = backend.turn, backend.turn + 1
    taken: list[Delivery] = []
    for n in range(len(queues)):
        # Only when each queue was first once does the next shard come first.
        first = turn // len(queues) % len(store.layout.shards)
        for place in await find_work(store, queues[(turn + n) % len(queues)], first):
            while len(taken) < most:
                batch = await _take_from(backend, place, body.worker, most - len(taken))
                to_run = await _end_what_is_over(backend, batch)
                taken += to_run
                if len(to_run) == len(batch):
                    break
            if len(taken) == most:
                return taken
    return taken


async def _take_from(backend: Backend, place: Place, worker: str, most: int) -> list[Delivery]:
    """Return deliveries of one stream in one shard, by taking over or by reading."""
    store, (stream, shard) = backend.store, place.stream
    if not place.is_stale:
        return await read_ready(store, [place.stream], worker, most, block=False)
    now, cursor = backend.clock.now_ms(), None
    while True:
        found = await reclaim_executions(
            store, stream, shard, worker, now, cursor=cursor, room=most
        )
        if found.deliveries or found.cursor is None:
            return found.deliveries
        cursor = found.cursor


async def _end_what_is_over(backend: Backend, deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Return the deliveries that are to be run. Those that come too late are recorded as skipped,
    and those whose target fell silent as failed."""
    now = backend.clock.now_ms()
    over: list[Result] = []
    to_run = []
    for delivery in deliveries:
        if delivery.lapsed:
            over.append(_silent(backend, delivery, now))
        elif delivery.is_late:
            over.append(late(delivery))
        elif delivery.is_expired(now):
            over.append(expired(delivery))
        else:
            to_run.append(delivery)
    if over:
        await complete_executions(backend.store, over, now)
    return to_run


def _silent(backend: Backend, delivery: Delivery, now: int) -> Result:
    """Return that an attempt failed of which the target was to report the end."""
    return ended(
        delivery,
        succeeded=False,
        started_at=now,
        duration_ms=0,
        now=now,
        rng=backend.rng,
        error=FELL_SILENT,
        kind=ErrorKind.TIMEOUT,
    )
