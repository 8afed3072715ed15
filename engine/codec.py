"""How values become bytes in Redis, and back: the one door to orjson below the API.

Job hash fields, and the scripts that change them after `create_jobs`:

    state         a JobState                                        fire_due, pause_job, resume_job
    plan          plan id
    next_run_at   ms, or '' when no time is to come                 fire_due, resume_job
    queue         queue name
    overlap       an Overlap
    target        JSON of the target, for the consumer
    payload       the payload as it came, never decoded in Lua
    retry         JSON of what differs from the default policy
    definition    JSON [created_at, anchor_at, schedule_expr, timezone, more asked for]
    live          number of live executions                         all that start or end one
    ran_at        nominal time of the last run by hand              run_job
    version       grows with every replacement                      replace_job
    pause_note    JSON {by, at, note}                               pause_job, complete_executions
    resume_note   JSON {by, at, note}                               resume_job
    rules, …      what a job may ask for beyond the usual           (lua/lib/rules.lua)
    x:<nominal>   one live execution (lua/lib/execution.lua)        all that start or end one
    backfill…     the newest backfill (store/backfill_fields.py)    create_…, advance_backfill, …
    b:<nominal>   1: this live execution is of the backfill         advance_backfill

Records in a job's history are JSON arrays. Of an attempt, with trailing nulls left out:
`[nominal_at, outcome, attempt, deliveries, worker, started_after_ms, duration_ms, status_code,
error]`, where the start is counted from the nominal time. Of times that were not fired:
`[first_at, "skipped", last_at, count, exact, reason]`, where the reason may be `calendar: NAME`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from engine.backoff import Retry
from engine.errors import BadInput
from engine.keys import LAYOUT_VERSION, Layout
from engine.model import (
    Delivery,
    HttpTarget,
    Job,
    JobState,
    LiveExecution,
    Outcome,
    Overlap,
    Record,
    Rules,
    SkipReason,
    SkipRecord,
    Target,
    WorkerTarget,
)
from engine.plan import Calendar, Skipped

Event = tuple[str, ...]
MAX_ERROR_CHARS = 2_048


def dump_target(target: Target) -> bytes:
    if isinstance(target, WorkerTarget):
        return b'{"type":"worker"}'
    fields = asdict(target)
    if not target.headers:
        del fields["headers"]
    return orjson.dumps(fields)


def load_target(data: bytes) -> Target:
    fields = orjson.loads(data)
    return HttpTarget(**fields) if fields["type"] == "http" else WorkerTarget()


def dump_retry(retry: Retry) -> bytes:
    fields = retry.to_dict()
    return orjson.dumps(fields) if fields else b""


def load_retry(data: bytes) -> Retry:
    return Retry.from_dict(orjson.loads(data)) if data else Retry()


def dump_definition(job: Job) -> bytes:
    asked = {"dialect": job.dialect, "max_runs": job.rules.max_runs}
    more = {name: value for name, value in asked.items() if value is not None}
    row = [job.created_at, job.anchor_at, job.schedule_expr, job.timezone]
    return orjson.dumps([*row, more] if more else row)


def dump_defined(job: Job) -> list[str | bytes | int]:
    """Return the values that lua/lib/job.lua writes, in its order; '' for what is not asked for."""
    rules = job.rules
    waits = job.overlap not in (Overlap.SKIP, Overlap.ALLOW)
    return [
        job.queue,
        job.overlap,
        dump_target(job.target),
        job.payload,
        dump_retry(job.retry),
        dump_definition(job),
        1 if waits or rules != Rules() else "",
        "" if (left := job.runs_left or rules.max_runs) is None else left,
        "" if rules.expires_after_ms is None else rules.expires_after_ms,
        "" if rules.pause_after_failures is None else rules.pause_after_failures,
        1 if rules.delete_after_completion else "",
    ]


def _load_rules(fields: Mapping[bytes, bytes], max_runs: int | None) -> Rules:
    return Rules(
        max_runs=max_runs,
        expires_after_ms=_load_int(fields.get(b"expires_after_ms")),
        pause_after_failures=_load_int(fields.get(b"pause_after_failures")),
        delete_after_completion=b"delete_after_completion" in fields,
    )


def _load_int(data: bytes | None) -> int | None:
    return int(data) if data else None


def _load_note(data: bytes | None) -> dict[str, Any] | None:
    note: dict[str, Any] | None = orjson.loads(data) if data else None
    return note


def dump_note(by: str, at: int, note: str) -> bytes:
    """Return who paused a job, when and why, as the job's hash holds it."""
    return orjson.dumps({"by": by, "at": at, "note": note})


def load_job(job_id: str, fields: Mapping[bytes, bytes]) -> Job:
    """Return the job that a hash holds."""
    created_at, anchor_at, schedule_expr, timezone, *more = orjson.loads(fields[b"definition"])
    extra: dict[str, Any] = more[0] if more else {}
    return Job(
        id=job_id,
        plan_id=fields[b"plan"].decode(),
        target=load_target(fields[b"target"]),
        queue=fields[b"queue"].decode(),
        created_at=created_at,
        anchor_at=anchor_at,
        schedule_expr=tuple(schedule_expr) if isinstance(schedule_expr, list) else schedule_expr,
        timezone=timezone,
        dialect=extra.get("dialect"),
        payload=fields[b"payload"],
        retry=load_retry(fields[b"retry"]),
        overlap=Overlap(fields[b"overlap"].decode()),
        rules=_load_rules(fields, extra.get("max_runs")),
        state=JobState(fields[b"state"].decode()),
        next_run_at=_load_int(fields[b"next_run_at"]),
        version=int(fields.get(b"version", 1)),
        runs_left=_load_int(fields.get(b"runs_left")),
        failures=int(fields.get(b"failures", 0)),
        queued=tuple(int(at) for at in fields.get(b"queued", b"").split()),
        pause_note=_load_note(fields.get(b"pause_note")),
        resume_note=_load_note(fields.get(b"resume_note")),
    )


def load_live(fields: Mapping[bytes, bytes]) -> list[LiveExecution]:
    """Return the live executions that a job's hash holds, oldest nominal time first."""
    live = []
    for name, value in fields.items():
        if name.startswith(b"x:"):
            where, attempt, at = value.decode().split(":")
            is_due = where == "due"
            live.append(
                LiveExecution(
                    nominal_at=int(name[2:]),
                    attempt=int(attempt),
                    entry_id=None if is_due else at,
                    due_at=int(at) if is_due else None,
                )
            )
    return sorted(live, key=lambda execution: execution.nominal_at)


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
    status_code, error = [*more, None, None][:2]
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
        retry=fields[b"retry"],
        expires_at=_load_int(fields.get(b"expires_at")),
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
    ]
    return base64.urlsafe_b64encode(orjson.dumps(proof)).decode().rstrip("=")


def load_lease(text: str) -> Delivery:
    """Return the delivery that a lease stands for, without target and payload. Refuses with
    BadInput what is no lease.

    Nothing in it is trusted: the script that completes compares it with the pending entry.
    """
    try:
        proof = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        shard, queue, entry_id, consumer, deliveries, execution_id, attempt, due_at, retry = proof
        for value, kind in zip(proof, (int, str, str, str, int, str, int, int), strict=False):
            if type(value) is not kind:
                raise ValueError(kind)
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
    )


def dump_calendar(calendar: Calendar) -> bytes:
    return orjson.dumps(calendar.to_dict())


def load_calendar(name: str, data: bytes) -> Calendar:
    """Return the calendar that a field of `wc:calendars` holds: `<version> <JSON>`."""
    version, _, fields = data.partition(b" ")
    return Calendar.from_dict(name, orjson.loads(fields), int(version))


def dump_layout(layout: Layout) -> bytes:
    return orjson.dumps({"version": LAYOUT_VERSION, "hash": "crc32", "tags": layout.tags})


def load_layout(data: bytes) -> tuple[Any, Layout]:
    """Return (version, layout) of what `wc:layout` holds."""
    fields = orjson.loads(data)
    return fields["version"], Layout(tuple(fields["tags"]))


def dump_json(value: object) -> bytes:
    return orjson.dumps(value)
