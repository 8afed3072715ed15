"""Ends over HTTP: extend a lease, and say how an attempt went. Only who holds the lease may, and
only once: a repeat of the same outcome is told so, anything else is `stale_delivery`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from api.answers import CompletedOut, LeaseOut, NotCompletedOut
from api.backend import Backend, backend_of
from api.leases import LOST, held_delivery
from api.operations import contract
from api.schemas_worker import (
    MOST_CLAIMED,
    CompleteExecution,
    CompleteOne,
    FailExecution,
    HeartbeatExecution,
    Outcomes,
)
from api.wire import JsonResponse, read_body, read_list, rfc_3339
from engine.errors import BadInput, StaleDelivery, WaterclockError
from engine.execution import Outcome
from engine.store.executions import Answer, complete_executions, heartbeat_executions
from engine.store.outcomes import Result, ended
from engine.store.reports import recorded_failure

_STATUS = {Outcome.SUCCEEDED: "succeeded", Outcome.FAILED: "retrying", Outcome.DEAD: "dead"}


@contract(body=HeartbeatExecution, gives=LeaseOut, refuses=("stale_delivery",))
async def heartbeat(request: Request) -> Response:
    """Extend a lease to its full length from now on. Refuses with StaleDelivery who has lost it:
    the execution went to another worker, was cancelled, or has ended."""
    store = backend_of(request).store
    body = await read_body(request, HeartbeatExecution)
    delivery, _ = held_delivery(store, request.path_params["execution_id"], body.lease)
    [is_held] = await heartbeat_executions(store, [delivery])
    if not is_held:
        raise StaleDelivery(LOST)
    return JsonResponse({"lease_ms": store.config.execution_lease_ms})


@contract(body=CompleteExecution, gives=CompletedOut, refuses=("stale_delivery",))
async def complete(request: Request) -> Response:
    """Record how an attempt ended. A repeat of the same outcome is answered with `already`. Refuses
    with StaleDelivery, changing nothing, whoever does not hold the lease any more."""
    return await _end(request, await read_body(request, CompleteExecution))


@contract(body=FailExecution, gives=CompletedOut, refuses=("stale_delivery",))
async def fail(request: Request) -> Response:
    """Record that an attempt failed: as `complete` with status `failed`."""
    return await _end(request, await read_body(request, FailExecution))


@contract(body=Outcomes, gives=list[CompletedOut | NotCompletedOut])
async def complete_many(request: Request) -> Response:
    """Record how many attempts ended, each by itself; answer for each as `complete` does, or with
    the code and detail of its refusal. What cannot be read refuses all of it."""
    backend = backend_of(request)
    bodies = await read_list(request, CompleteOne, MOST_CLAIMED)
    if len({body.lease for body in bodies}) < len(bodies):
        raise BadInput("a lease stands here twice: an attempt ends once")
    results: dict[int, Result] = {}
    refusals: dict[int, StaleDelivery] = {}
    for n, body in enumerate(bodies):
        try:
            results[n] = _result(backend, body.execution_id, body)
        except StaleDelivery as refusal:
            refusals[n] = refusal
        except BadInput as refusal:
            raise BadInput(refusal.message, field=f"{n}.{refusal.field}") from None
    ends = await _record(backend, list(results.values()))
    answers = dict(zip(results, ends, strict=True)) | refusals
    shown: list[CompletedOut | NotCompletedOut] = []
    for n, body in enumerate(bodies):
        answer = answers[n]
        if isinstance(answer, WaterclockError):
            shown.append(
                {
                    "execution_id": body.execution_id,
                    "code": answer.code,
                    "detail": answer.message,
                }
            )
        else:
            shown.append(answer)
    return JsonResponse(shown)


async def _end(request: Request, body: FailExecution) -> Response:
    backend = backend_of(request)
    result = _result(backend, request.path_params["execution_id"], body)
    [answer] = await _record(backend, [result])
    if isinstance(answer, StaleDelivery):
        raise answer
    return JsonResponse(answer)


def _result(backend: Backend, execution_id: str, body: FailExecution) -> Result:
    """Return the outcome that a worker reports. Refuses as `held_delivery` does."""
    now = backend.clock.now_ms()
    delivery, claimed_at = held_delivery(backend.store, execution_id, body.lease)
    started_at = min(claimed_at, now)
    result = ended(
        delivery,
        succeeded=body.has_succeeded,
        started_at=started_at,
        duration_ms=now - started_at if body.duration_ms is None else body.duration_ms,
        now=now,
        rng=backend.rng,
        is_final=body.final,
        status_code=body.status_code,
        error=body.error,
        retry_after_ms=body.retry_after_ms,
    )
    return replace(result, gave=body.result) if isinstance(body, CompleteExecution) else result


async def _record(
    backend: Backend, results: Sequence[Result]
) -> list[CompletedOut | StaleDelivery]:
    """Record outcomes; return for each what is known of it now, or the refusal."""
    store, shown = backend.store, list[CompletedOut | StaleDelivery]()
    answers = await complete_executions(store, results, backend.clock.now_ms())
    for result, answer in zip(results, answers, strict=True):
        outcome: Outcome | None = result.outcome
        if answer is Answer.STALE:
            is_failure = outcome is not Outcome.SUCCEEDED
            outcome = await recorded_failure(store, result.delivery) if is_failure else None
        if outcome is None:
            shown.append(StaleDelivery(LOST))
            continue
        done: CompletedOut = {
            "execution_id": result.delivery.execution_id,
            "status": _STATUS[outcome],
            "already": answer is not Answer.DONE,
        }
        # The wait was drawn anew for a repeat: when the retry is due was said the first time.
        if result.retry_at is not None and answer is Answer.DONE:
            done["retry_at"] = rfc_3339(result.retry_at)
        shown.append(done)
    return shown
