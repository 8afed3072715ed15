"""Backfills over HTTP: order one (or look at what it would do), watch it, cancel it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.access import check_job
from api.backend import backend_of
from api.jobs import job_id_of
from api.operations import contract
from api.rules import Instant
from api.taken import Taken
from api.wire import JsonResponse, read_body, rfc_3339
from engine.backfill import MOST_CONCURRENT, Backfill, Order, Reprocess
from engine.store.backfills import (
    Preview,
    cancel_backfill,
    create_backfill,
    get_backfill,
    preview_backfill,
)


class OrderBackfill(Taken):
    """The body of `POST /v1/jobs/{job_id}/backfills`: the nominal times from `from` to `to`."""

    from_: Instant = Field(alias="from")
    to: Instant
    reprocess: Literal["none", "failed", "all"] = "none"
    concurrency: int = Field(1, ge=1, le=MOST_CONCURRENT)
    direction: Literal["forwards", "backwards"] = "forwards"
    dry_run: bool = False

    def to_order(self) -> Order:
        return Order(
            self.from_,
            self.to,
            Reprocess(self.reprocess),
            self.concurrency,
            self.direction == "backwards",
        )


# `from` is no name in Python, so these are written as calls.
BackfillOut = TypedDict(
    "BackfillOut",
    {
        "job_id": str,
        "number": int,
        "state": str,
        "from": str,
        "to": str,
        "reprocess": str,
        "concurrency": int,
        "direction": str,
        "created_at": str,
        "times": int,
        "passed": int,
        "started": int,
        "live": int,
        "succeeded": int,
        "dead": int,
        "next": str | None,
    },
)

BackfillPreviewOut = TypedDict(
    "BackfillPreviewOut",
    {
        "job_id": str,
        "dry_run": Literal[True],
        "from": str,
        "to": str,
        "times": int,
        "run": int,
        "first": list[str],
        "passed": dict[str, int],
    },
)


@contract(
    body=OrderBackfill,
    gives=BackfillOut | BackfillPreviewOut,
    status=201,
    also=(200,),
    refuses=("conflict",),
)
async def create(request: Request) -> Response:
    """Order a backfill: 201 with it; for a dry run 200 with what it would do. Refuses with Conflict
    while the job has one that is not at its end."""
    backend, job_id = backend_of(request), job_id_of(request)
    body = await read_body(request, OrderBackfill)
    await check_job(request, job_id)
    order, now = body.to_order(), backend.clock.now_ms()
    if body.dry_run:
        preview = await preview_backfill(backend.store, job_id, order, now)
        return JsonResponse(_previewed(job_id, order, preview))
    backfill = await create_backfill(backend.store, job_id, order, now)
    return JsonResponse(_shown(backfill), 201, {"Location": f"/v1/jobs/{job_id}/backfill"})


@contract(gives=BackfillOut)
async def show(request: Request) -> Response:
    """Answer how far the job's newest backfill is."""
    return await _backfill_response(request)


@contract(gives=BackfillOut, refuses=("wrong_state",))
async def cancel(request: Request) -> Response:
    """Have a backfill start nothing more; what is live of it goes on. Refuses with WrongState
    unless it is running."""
    await check_job(request, job_id_of(request))
    await cancel_backfill(backend_of(request).store, job_id_of(request))
    return await _backfill_response(request)


async def _backfill_response(request: Request) -> Response:
    job_id = job_id_of(request)
    await check_job(request, job_id)
    return JsonResponse(_shown(await get_backfill(backend_of(request).store, job_id)))


def _shown(backfill: Backfill) -> BackfillOut:
    order = backfill.order
    return {
        "job_id": backfill.job_id,
        "number": backfill.number,
        "state": backfill.state,
        "from": rfc_3339(order.from_at),
        "to": rfc_3339(order.to_at),
        "reprocess": order.reprocess,
        "concurrency": order.concurrency,
        "direction": _direction(order),
        "created_at": rfc_3339(backfill.created_at),
        "times": backfill.times,
        "passed": backfill.passed,
        "started": backfill.started,
        "live": backfill.live,
        "succeeded": backfill.succeeded,
        "dead": backfill.dead,
        "next": None if backfill.next_at is None else rfc_3339(backfill.next_at),
    }


def _previewed(job_id: str, order: Order, preview: Preview) -> BackfillPreviewOut:
    return {
        "job_id": job_id,
        "dry_run": True,
        "from": rfc_3339(order.from_at),
        "to": rfc_3339(order.to_at),
        "times": preview.times,
        "run": preview.run,
        "first": [rfc_3339(at) for at in preview.first],
        "passed": {reason.value: count for reason, count in preview.passed.items()},
    }


def _direction(order: Order) -> str:
    return "backwards" if order.backwards else "forwards"
