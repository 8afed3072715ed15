"""An event of the ledger, as the API shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from api.history import attempt_out
from api.wire import rfc_3339
from engine import codec
from engine.execution import Record, SkipRecord
from engine.names import split_stream

Kind = Literal[
    "created",
    "replaced",
    "replanned",
    "paused",
    "resumed",
    "deleted",
    "fired",
    "gated",
    "accepted",
    "succeeded",
    "failed",
    "dead",
    "cancelled",
    "skipped",
    "rerun",
    "redriven",
    "discarded",
    "backfill_created",
    "backfill_cancelled",
    "backfill_ended",
]
"""All that the ledger tells."""


class EventOut(TypedDict):
    """One event. What stands behind `job_id` is there where its kind has it."""

    event: str
    at: str
    job_id: str
    execution_id: NotRequired[str]
    scheduled_for: NotRequired[str]
    attempt: NotRequired[int]
    due_at: NotRequired[str]
    queue: NotRequired[str]
    priority: NotRequired[str]
    until: NotRequired[str]
    outcome: NotRequired[str]
    started_at: NotRequired[str]
    ended_at: NotRequired[str]
    duration_ms: NotRequired[int]
    lag_ms: NotRequired[int]
    worker: NotRequired[str]
    status_code: NotRequired[int | None]
    error: NotRequired[str | None]
    exit_status: NotRequired[int]
    output: NotRequired[str]
    reason: NotRequired[str]
    """Of times that were skipped; with `last_scheduled_for`, `count` and `count_is_exact`."""
    last_scheduled_for: NotRequired[str]
    count: NotRequired[int]
    count_is_exact: NotRequired[bool]
    by: NotRequired[str]
    note: NotRequired[Any]


def shown(kind: str, subject: str, at: int, rest: list[Any]) -> dict[str, Any]:
    """Return an event with the words of the API. `rest` is what its kind has to say."""
    job_id, is_execution, nominal_at = subject.partition("@")
    out: dict[str, Any] = {"event": kind, "at": rfc_3339(at), "job_id": job_id}
    if is_execution:
        out |= {"execution_id": subject, "scheduled_for": rfc_3339(int(nominal_at))}
    if rest and kind in _MORE:
        out |= _MORE[kind](rest)
    return out


def _fired(rest: list[Any]) -> dict[str, Any]:
    attempt, due_at, stream = rest
    queue, priority = split_stream(stream)
    due = rfc_3339(due_at)
    return {"attempt": attempt, "due_at": due, "queue": queue, "priority": priority}


def _recorded(rest: list[Any]) -> dict[str, Any]:
    record = codec.load_record(orjson.dumps(rest[0]))
    if isinstance(record, Record):
        return {**attempt_out(record)}
    assert isinstance(record, SkipRecord)
    return {
        "reason": record.told,
        "scheduled_for": rfc_3339(record.first_at),
        "last_scheduled_for": rfc_3339(record.last_at),
        "count": record.count,
        "count_is_exact": record.exact,
    }


_MORE: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "fired": _fired,
    "gated": lambda rest: {"until": rfc_3339(rest[0])},
    "succeeded": _recorded,
    "failed": _recorded,
    "dead": _recorded,
    "cancelled": _recorded,
    "skipped": _recorded,
    "rerun": lambda rest: {"attempt": rest[0]},
    "redriven": lambda rest: {"attempt": rest[0]},
    "discarded": lambda rest: {"by": rest[0]},
    "paused": lambda rest: {"note": rest[0]},
    "resumed": lambda rest: {"note": rest[0]},
}
"""Kind → what it adds."""
