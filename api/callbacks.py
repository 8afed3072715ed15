"""Callbacks: a target that answered 202 reports here that it goes on, or how its attempt ended.

It was sent the URL with the request. The word in it names one attempt of one execution, is signed,
and expires; who has it may report on that attempt, so it is a secret and is never logged.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from api.answers import ReportedOut
from api.backend import Backend, backend_of
from api.operations import contract
from api.schemas_worker import ReportExecution
from api.wire import JsonResponse, read_body, rfc_3339
from engine import codec
from engine.codec import Promise
from engine.errors import StaleDelivery
from engine.model import HttpTarget
from engine.store.executions import Answer
from engine.store.reports import read_target, report_end, report_running, signing_key

_OVER = "this attempt has ended, was cancelled, or counts as failed by now; nothing was changed"


@contract(
    body=ReportExecution, gives=ReportedOut, refuses=("bad_input", "expired", "stale_delivery")
)
async def report(request: Request) -> Response:
    """Take a target's word on an attempt. A repeat of the same end is answered with `already`.

    Refuses with BadInput a URL that we did not make, Expired one whose time is over, and
    StaleDelivery, changing nothing, a word on an attempt that is not live any more.
    """
    backend = backend_of(request)
    key = await signing_key(backend.store)
    promise = codec.load_promise(request.path_params["token"], key, backend.clock.now_ms())
    body = await read_body(request, ReportExecution)
    answer: ReportedOut = {
        "execution_id": promise.execution_id,
        "attempt": promise.attempt,
        "status": body.status,
    }
    if body.status == "running":
        answer["lapses_at"] = rfc_3339(await _keep_waiting(backend, promise))
    else:
        answer["already"] = await _end(backend, promise, body)
    return JsonResponse(answer)


async def _keep_waiting(backend: Backend, promise: Promise) -> int:
    """Return until when the target has time for its next word."""
    data = await read_target(backend.store, promise)
    target = codec.load_target(data) if data else None
    if not isinstance(target, HttpTarget):
        raise StaleDelivery(_OVER)
    now = backend.clock.now_ms()
    lapses_at = min(now + target.heartbeat_ms, promise.expires_at)
    if not await report_running(backend.store, promise, now, lapses_at):
        raise StaleDelivery(_OVER)
    return lapses_at


async def _end(backend: Backend, promise: Promise, body: ReportExecution) -> bool:
    """Record the end of an attempt; return whether that was done before."""
    answer = await report_end(
        backend.store,
        promise,
        backend.clock.now_ms(),
        succeeded=body.status == "succeeded",
        rng=backend.rng,
        error=body.error,
        is_final=body.final,
        gave=body.result,
    )
    if answer is Answer.STALE:
        raise StaleDelivery(_OVER)
    return answer is Answer.ALREADY
