"""Executions: live ones, records, deliveries, leases, dead letters, events.

Records in a job's history are JSON arrays. Of an attempt, with trailing nulls left out:
`[nominal_at, outcome, attempt, deliveries, worker, started_after_ms, duration_ms, status_code,
error, exit_status, output]`, where the start is counted from the nominal time. Of times that were
not fired: `[first_at, "skipped", last_at, count, exact, reason]`, where the reason may be
`calendar: NAME`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from engine.backoff import Retry
from engine.codec.jobs import dump_retry, load_int
from engine.errors import BadInput
from engine.execution import (
    DeadLetter,
    DeadReason,
    Delivery,
    LiveExecution,
    Outcome,
    Record,
    SkipReason,
    SkipRecord,
)
from engine.plan import Skipped

MAX_ERROR_CHARS = 2_048


def load_live(fields: Mapping[bytes, bytes]) -> list[LiveExecution]:
    """Return the live executions that a job's hash holds, oldest nominal time first."""
    live = []
    for name, value in fields.items():
        if name.startswith(b"x:"):
            where, attempt, at = value.decode().partition(";")[0].split(":")[:3]
            live.append(
                LiveExecution(
                    nominal_at=int(name[2:]),
                    attempt=int(attempt),
                    entry_id=at if where == "ready" else None,
                    due_at=None if where == "ready" else int(at),
                    is_accepted=where == "async",
                    is_gated=where == "gated",
                )
            )
    return sorted(live, key=lambda execution: execution.nominal_at)


def load_since(place: bytes) -> tuple[int | None, int]:
    """Return when the first attempt began, None for unknown, and how many attempts do not count for
    the retry policy: what the third colon of a live execution's field leads to."""
    parts = place.partition(b";")[0].split(b":")
    began_at, _, base = (parts[3] if len(parts) > 3 else b"").partition(b".")
    return load_int(began_at), int(base or 0)


@lru_cache(maxsize=64)
def _quoted(text: str) -> str:
    """Return a worker's name as JSON."""
    return orjson.dumps(text).decode()


def _dump_plain(record: Record) -> bytes:
    """Return the record of an attempt of which there is no more to say than its status.

    By hand, and the same to the byte: orjson takes a kilobyte for each and gives most of it back,
    which costs a worker three times as much.
    """
    head = f'[{record.nominal_at},"{record.outcome}",{record.attempt},{record.deliveries}'
    times = f"{record.started_at - record.nominal_at},{record.duration_ms}"
    status = "" if record.status_code is None else f",{record.status_code}"
    return f"{head},{_quoted(record.worker)},{times}{status}]".encode()


def dump_record(record: Record | SkipRecord) -> bytes:
    if isinstance(record, SkipRecord):
        return orjson.dumps(
            [
                record.first_at,
                "skipped",
                record.last_at,
                record.count,
                int(record.exact),
                record.told,
            ]
        )
    if record.error is None and record.exit_status is None and record.output is None:
        return _dump_plain(record)
    row = [
        record.nominal_at,
        record.outcome,
        record.attempt,
        record.deliveries,
        record.worker,
        record.started_at - record.nominal_at,
        record.duration_ms,
        record.status_code,
        record.error[:MAX_ERROR_CHARS] if record.error else None,
        record.exit_status,
        record.output,
    ]
    while row[-1] is None:
        row.pop()
    return orjson.dumps(row)


def dump_skipped(skipped: Skipped, reason: SkipReason | None = None) -> bytes:
    """Return the record of times that a plan's proposal does not fire; `reason` overrules its
    own."""
    reason = reason or SkipReason(skipped.reason)
    detail = skipped.detail if reason is SkipReason.CALENDAR else None
    span = (skipped.first_at, skipped.last_at, skipped.count)
    return dump_record(SkipRecord(*span, reason, skipped.exact, detail))


def load_record(data: bytes) -> Record | SkipRecord:
    nominal_at, outcome, *rest = orjson.loads(data)
    if outcome == "skipped":
        last_at, count, exact, reason = rest
        word, _, detail = reason.partition(": ")
        return SkipRecord(nominal_at, last_at, count, SkipReason(word), bool(exact), detail or None)
    attempt, deliveries, worker, started_after_ms, duration_ms, *more = rest
    status_code, error, exit_status, output = [*more, None, None, None, None][:4]
    return Record(
        nominal_at=nominal_at,
        outcome=Outcome(outcome),
        attempt=attempt,
        deliveries=deliveries,
        worker=worker,
        started_at=nominal_at + started_after_ms,
        duration_ms=duration_ms,
        status_code=status_code,
        error=error,
        exit_status=exit_status,
        output=output,
    )


def load_events(data: bytes) -> list[list[Any]]:
    """Return the events of one ledger entry, each `[word, job or execution id, …]`."""
    return [orjson.loads(line) for line in data.split(b"\n")]


def load_delivery(
    shard: int,
    queue: str,
    entry_id: bytes,
    consumer: str,
    deliveries: int,
    fields: Mapping[bytes, bytes],
) -> Delivery:
    """Return what a ready stream's entry hands over."""
    began_at, _, base = fields.get(b"since", b"").partition(b".")
    return Delivery(
        shard=shard,
        queue=queue,
        entry_id=entry_id.decode(),
        consumer=consumer,
        deliveries=deliveries,
        execution_id=fields[b"execution_id"].decode(),
        attempt=int(fields[b"attempt"]),
        due_at=int(fields[b"due_at"]),
        target=fields[b"target"],
        payload=fields[b"payload"],
        retry=fields.get(b"retry", b""),
        expires_at=load_int(fields.get(b"expires_at")),
        began_at=load_int(began_at),
        base=int(base or 0),
        upstream=fields.get(b"upstream", b""),
        is_late=fields.get(b"lapsed") == b"gated",
        lapsed=fields.get(b"lapsed") == b"1",
    )


def dump_lease(delivery: Delivery) -> str:
    """Return the proof of a delivery as one opaque word, for workers that speak only HTTP."""
    proof = [
        delivery.shard,
        delivery.queue,
        delivery.entry_id,
        delivery.consumer,
        delivery.deliveries,
        delivery.execution_id,
        delivery.attempt,
        delivery.due_at,
        orjson.loads(delivery.retry) if delivery.retry else None,
        delivery.began_at,
        delivery.base,
    ]
    return base64.urlsafe_b64encode(orjson.dumps(proof)).decode().rstrip("=")


def load_lease(text: str) -> Delivery:
    """Return the delivery that a lease stands for, without target and payload. Refuses with
    BadInput what is no lease.

    Nothing in it is trusted: the script that completes compares it with the pending entry.
    """
    try:
        proof = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        *rest, retry, began_at, base = proof
        shard, queue, entry_id, consumer, deliveries, execution_id, attempt, due_at = rest
        kinds = (int, str, str, str, int, str, int, int, int)
        for value, kind in zip((*rest, base), kinds, strict=True):
            if type(value) is not kind:
                raise ValueError(kind)
        if began_at is not None and type(began_at) is not int:
            raise ValueError(began_at)
        retry_data = b"" if retry is None else dump_retry(Retry.from_dict(retry))
    except (ValueError, TypeError, AttributeError, binascii.Error, BadInput):
        raise BadInput(
            "this is no lease; send the `lease` of the claim's answer as it came", field="lease"
        ) from None
    return Delivery(
        shard,
        queue,
        entry_id,
        consumer,
        deliveries,
        execution_id,
        attempt,
        due_at,
        b"",
        b"",
        retry_data,
        began_at=began_at,
        base=base,
    )


def load_letter(execution_id: str, died_at: int, fields: Mapping[bytes, bytes]) -> DeadLetter:
    """Return the dead letter that a hash holds (lua/lib/letters.lua)."""
    records = [load_record(line) for line in fields[b"attempts"].split(b"\n")]
    return DeadLetter(
        execution_id=execution_id,
        died_at=died_at,
        reason=DeadReason(fields[b"reason"].decode()),
        attempt=int(fields[b"attempt"]),
        queue=fields[b"queue"].decode(),
        target=fields[b"target"],
        payload=fields[b"payload"],
        attempts=tuple(r for r in records if isinstance(r, Record)),
    )
