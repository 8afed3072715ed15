"""Executions over HTTP: a job's history, and claim and complete for workers that speak only HTTP.

A lease here is the proof of a delivery (codec.dump_lease) and the server time of the claim, so that
an attempt's start is known without asking the worker's clock.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from api.answers import AttemptOut, ClaimOut, CompletedOut, ExecutionOut, SkippedOut
from api.backend import backend_of
from api.jobs import job_id_of
from api.schemas import ClaimExecution, CompleteExecution, HeartbeatExecution, ListExecutions
from api.wire import JsonResponse, read_body, read_query, rfc_3339, verbatim
from engine import codec
from engine.errors import BadInput, StaleDelivery
from engine.keys import Shard
from engine.model import QUEUE, Delivery, ExecutionState, Outcome, Record, split_execution_id
from engine.store import Store
from engine.store.executions import (
    Answer,
    complete_executions,
    ended,
    ensure_groups,
    expired,
    heartbeat_executions,
    read_ready,
    reclaim_executions,
)
from engine.store.history import Execution, id_of, list_executions
from engine.store.queues import read_backlogs

_STATUS = {Outcome.SUCCEEDED: "succeeded", Outcome.FAILED: "retrying", Outcome.DEAD: "dead"}
_LOST = (
    "the lease ran out and the execution went to another worker, or it has ended otherwise;"
    " nothing was changed"
)
_NO_LEASE = "this is no lease; send the `lease` of the claim's answer as it came"


async def index(request: Request) -> Response:
    """Answer a job's executions, newest first: the live ones and what its history still holds."""
    job_id = job_id_of(request)
    query = read_query(request, ListExecutions)
    found = await list_executions(backend_of(request).store, job_id)
    return JsonResponse([_shown(execution) for execution in found[: query.limit]])


async def claim(request: Request) -> Response:
    """Hand over one execution: one whose lease ran out, else a new one; 204 when none waits."""
    backend = backend_of(request)
    store = backend.store
    body = await read_body(request, ClaimExecution)
    now = backend.clock.now_ms()
    backend.turn += 1
    first = backend.turn % len(store.layout.shards)
    delivery = await _next_delivery(store, body, now, first)
    while delivery is not None and delivery.is_expired(now):
        await complete_executions(store, [expired(delivery)], now)
        delivery = await _next_delivery(store, body, now, first)
    if delivery is None:
        return Response(status_code=204)
    answer: ClaimOut = {
        "execution_id": delivery.execution_id,
        "job_id": delivery.job_id,
        "scheduled_for": rfc_3339(delivery.nominal_at),
        "attempt": delivery.attempt,
        "deliveries": delivery.deliveries,
        "target": verbatim(delivery.target),
        "payload": verbatim(delivery.payload),
        "lease": f"{codec.dump_lease(delivery)}.{now}",
        "lease_ms": store.config.execution_lease_ms,
    }
    return JsonResponse(answer)


async def _next_delivery(
    store: Store, body: ClaimExecution, now: int, first: int
) -> Delivery | None:
    """Return one delivery, from shard number `first` on if there is a choice.

    Looks before it asks: a read of an empty stream would make a consumer there, and a claim from a
    queue that nobody fills a stream.
    """
    queue, worker = body.queue, body.worker
    backlogs = await read_backlogs(store, queue)
    if any(backlog.waiting and not backlog.has_group for backlog in backlogs):
        await ensure_groups(store, queue)
    places = list(zip(store.layout.shards, backlogs, strict=True))
    places = places[first:] + places[:first]
    for shard, backlog in places:
        if backlog.has_stale and (stale := await _take_over(store, queue, shard, worker, now)):
            return stale
    for shard, backlog in places:
        if backlog.waiting:
            found = await read_ready(store, [(queue, shard)], worker, 1, block=False)
            if found:
                return found[0]
    return None


async def _take_over(
    store: Store, queue: str, shard: Shard, worker: str, now: int
) -> Delivery | None:
    """Return one delivery of the stream whose lease ran out; who has the rest is not changed."""
    cursor: str | None = None
    while True:
        taken = await reclaim_executions(store, queue, shard, worker, now, cursor=cursor, room=1)
        if taken.deliveries:
            return taken.deliveries[0]
        cursor = taken.cursor
        if cursor is None:
            return None


async def heartbeat(request: Request) -> Response:
    """Extend a lease to its full length from now on. Refuses with StaleDelivery who has lost it."""
    store = backend_of(request).store
    body = await read_body(request, HeartbeatExecution)
    delivery = _held_delivery(request, body.lease, store)[0]
    [is_held] = await heartbeat_executions(store, [delivery])
    if not is_held:
        raise StaleDelivery(_LOST)
    return JsonResponse({"lease_ms": store.config.execution_lease_ms})


async def complete(request: Request) -> Response:
    """Record how an attempt ended. A repeat of the same outcome is answered with `already`. Refuses
    with StaleDelivery, changing nothing, whoever does not hold the lease any more."""
    backend = backend_of(request)
    store = backend.store
    body = await read_body(request, CompleteExecution)
    now = backend.clock.now_ms()
    delivery, claimed_at = _held_delivery(request, body.lease, store)
    started_at = min(claimed_at, now)
    result = ended(
        delivery,
        succeeded=body.status == "succeeded",
        started_at=started_at,
        duration_ms=now - started_at if body.duration_ms is None else body.duration_ms,
        now=now,
        rng=backend.rng,
        status_code=body.status_code,
        error=body.error,
    )
    [answer] = await complete_executions(store, [result], now)
    if answer is Answer.STALE:
        raise StaleDelivery(_LOST)
    already = answer is Answer.ALREADY
    done: CompletedOut = {
        "execution_id": delivery.execution_id,
        "status": _STATUS[result.outcome],
        "already": already,
    }
    # The wait was drawn anew for a repeat: when the retry is due was said the first time.
    if result.retry_at is not None and not already:
        done["retry_at"] = rfc_3339(result.retry_at)
    return JsonResponse(done)


def _held_delivery(request: Request, lease: str, store: Store) -> tuple[Delivery, int]:
    """Return the delivery of the path's execution that a lease proves, and when it was claimed."""
    delivery, claimed_at = _read_lease(lease, store)
    if delivery.execution_id != request.path_params["execution_id"]:
        raise StaleDelivery("this lease is of another execution; nothing was changed")
    return delivery, claimed_at


def _read_lease(text: str, store: Store) -> tuple[Delivery, int]:
    """Return the delivery that a lease proves, and when it was claimed. Refuses with BadInput what
    cannot be one: what it names goes into keys, and the script that compares it must not fail."""
    proof, _, claimed_at = text.rpartition(".")
    if not re.fullmatch(r"[0-9]{1,15}", claimed_at):
        raise BadInput(_NO_LEASE, field="lease")
    delivery = codec.load_lease(proof)
    try:
        job_id, _ = split_execution_id(delivery.execution_id)
    except BadInput:
        raise BadInput(_NO_LEASE, field="lease") from None
    is_sound = (
        delivery.shard == store.layout.shard_of(job_id).index
        and QUEUE.fullmatch(delivery.queue)
        and QUEUE.fullmatch(delivery.consumer)
        and re.fullmatch(r"[0-9]{1,15}-[0-9]{1,15}", delivery.entry_id)
        and 1 <= delivery.attempt < 2**31
        and 1 <= delivery.deliveries < 2**31
    )
    if not is_sound:
        raise BadInput(_NO_LEASE, field="lease")
    return delivery, int(claimed_at)


def _shown(execution: Execution) -> ExecutionOut | SkippedOut:
    if skipped := execution.skipped:
        return {
            "job_id": execution.job_id,
            "status": "skipped",
            "reason": skipped.told,
            "scheduled_for": rfc_3339(skipped.first_at),
            "last_scheduled_for": rfc_3339(skipped.last_at),
            "count": skipped.count,
            "count_is_exact": skipped.exact,
        }
    state = execution.state
    has_begun = state not in (ExecutionState.WAITING, ExecutionState.RETRYING)
    shown: ExecutionOut = {
        "execution_id": id_of(execution),
        "job_id": execution.job_id,
        "scheduled_for": rfc_3339(execution.nominal_at),
        "status": state,
        "attempt_count": execution.attempt if has_begun else execution.attempt - 1,
        "attempts": [_attempt(record) for record in execution.attempts],
    }
    if state is ExecutionState.RETRYING and execution.retry_at is not None:
        shown["retry_at"] = rfc_3339(execution.retry_at)
    if execution.worker is not None:
        shown["worker"] = execution.worker
    return shown


def _attempt(record: Record) -> AttemptOut:
    return {
        "attempt": record.attempt,
        "outcome": record.outcome,
        "started_at": rfc_3339(record.started_at),
        "duration_ms": record.duration_ms,
        "lag_ms": record.started_at - record.nominal_at,
        "worker": record.worker,
        "status_code": record.status_code,
        "error": record.error,
    }
