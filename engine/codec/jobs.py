"""A job's hash, field by field, with the scripts that change a field after `create_jobs`:

head          state, plan id, next_run_at, count of live        all that fire, end, pause, …
              executions, ready stream, overlap, retry policy
              (lua/lib/head.lua, codec/heads.py)
group         who shares the queue fairly, if the job is of a group
tags          what it is found by, if it has any; a blank between two
target        JSON of the target, for the consumer
payload       the payload as it came, never decoded in Lua
definition    JSON [created_at, ms from then to anchor_at, schedule_expr, timezone, more asked for]
ran_at        nominal time of the last run by hand, or of a     run_job
              deleted job's last one
version       grows with every replacement                      replace_job
pause_note    JSON {by, at, note}                               pause_job, complete_executions
resume_note   JSON {by, at, note}                               resume_job
…             what a job may ask for beyond the usual           (lua/lib/rules.lua)
x:<nominal>   one live execution (lua/lib/execution.lua)        all that start or end one
backfill…     the newest backfill (store/backfill_fields.py)    create_…, advance_backfill, …
b:<nominal>   1: this live execution is of the backfill         advance_backfill
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import orjson

from engine.backoff import Retry
from engine.codec.heads import load_head
from engine.depends import Condition, Depends, Join, Match, Upstream
from engine.model import (
    TARGETS,
    HttpTarget,
    Job,
    Overlap,
    Rules,
    ShellTarget,
    Target,
    WorkerTarget,
)
from engine.names import split_stream

_LETTERS = {Condition.SUCCEEDED: "s", Condition.FAILED: "f", Condition.FINISHED: "e"}
_CONDITIONS = {letter: condition for condition, letter in _LETTERS.items()}

PAYLOAD = 3
"""The payload's place among the values of lua/lib/job.lua."""

_BLANKS: tuple[Target, ...] = (HttpTarget(url=""), WorkerTarget(), ShellTarget(command=""))
_USUAL = {target.type: asdict(target) for target in _BLANKS}
"""A target of each type for which nothing was asked; no real one has an empty URL or command."""


def dump_target(target: Target) -> bytes:
    """Return a target as consumers read it: its type, and what differs from the defaults."""
    usual = _USUAL[target.type]
    asked = {
        name: value
        for name, default in usual.items()
        if (value := getattr(target, name)) != default
    }
    return orjson.dumps({"type": target.type, **asked})


@lru_cache(maxsize=4_096)
def load_target(data: bytes) -> Target:
    """Return a target as it is stored. Who runs one asks for it again and again."""
    fields = orjson.loads(data)
    return TARGETS[fields["type"]](**fields)


def _signed(job: Job) -> Target:
    """Return a job's target with whose secrets sign it: who makes a call sees nothing else of the
    job. A job that takes the id of a deleted one has another `created_at`."""
    target = job.target
    if not isinstance(target, HttpTarget) or not (target.signing or target.signed_by):
        return target
    owners = {"job": f"job:{job.created_at}", "group": f"group:{job.group}", None: ""}
    return replace(target, signed_by=owners[target.signing])


def dump_retry(retry: Retry) -> bytes:
    fields = retry.to_dict()
    return orjson.dumps(fields) if fields else b""


def load_retry(data: bytes) -> Retry:
    return Retry.from_dict(orjson.loads(data)) if data else Retry()


def dump_definition(job: Job) -> bytes:
    asked = {"dialect": job.dialect, "max_runs": job.rules.max_runs}
    more = {name: value for name, value in asked.items() if value is not None}
    row = [job.created_at, job.anchor_at - job.created_at, job.schedule_expr, job.timezone]
    return orjson.dumps([*row, more] if more else row)


def dump_defined(job: Job) -> list[str | bytes | int]:
    """Return the values that lua/lib/job.lua writes, in its order; '' for what is not asked for."""
    values = dump_shape(job)
    values[PAYLOAD] = job.payload
    return values


def dump_shape(job: Job) -> list[str | bytes | int]:
    """Return the same without the payload, which jobs do not share."""
    rules = job.rules
    waits = job.overlap not in (Overlap.SKIP, Overlap.ALLOW)
    return [
        job.stream,
        job.overlap,
        dump_target(_signed(job)),
        b"",
        dump_retry(job.retry),
        dump_definition(job),
        1 if waits or rules != Rules() or job.depends or job.group else "",
        "" if (left := job.runs_left or rules.max_runs) is None else left,
        "" if rules.expires_after_ms is None else rules.expires_after_ms,
        "" if rules.pause_after_failures is None else rules.pause_after_failures,
        1 if rules.delete_after_completion else "",
        "" if rules.concurrency == 1 else rules.concurrency,
        job.group or "",
        *_dump_depends(job.depends),
        " ".join(job.tags),
    ]


def _dump_depends(depends: Depends | None) -> list[str | bytes | int]:
    """Return the fields `upstreams` (each id behind the letter of its condition), `join`, `match`
    and `gate_ms`, each '' where it is not asked for."""
    if depends is None:
        return ["", "", "", ""]
    return [
        " ".join(_LETTERS[up.condition] + up.job_id for up in depends.upstreams),
        "" if depends.join is Join.ALL else depends.join,
        depends.match,
        "" if depends.gate_ms is None else depends.gate_ms,
    ]


def _load_depends(fields: Mapping[bytes, bytes]) -> Depends | None:
    if b"upstreams" not in fields:
        return None
    return Depends(
        tuple(
            Upstream(text[1:], _CONDITIONS[text[0]])
            for text in fields[b"upstreams"].decode().split()
        ),
        Join(fields.get(b"join", b"all").decode()),
        Match(fields[b"match"].decode()),
        load_int(fields.get(b"gate_ms")),
    )


def _load_rules(fields: Mapping[bytes, bytes], max_runs: int | None) -> Rules:
    return Rules(
        max_runs=max_runs,
        expires_after_ms=load_int(fields.get(b"expires_after_ms")),
        pause_after_failures=load_int(fields.get(b"pause_after_failures")),
        delete_after_completion=b"delete_after_completion" in fields,
        concurrency=int(fields.get(b"concurrency", 1)),
    )


def load_int(data: bytes | None) -> int | None:
    return int(data) if data else None


def _load_note(data: bytes | None) -> dict[str, Any] | None:
    note: dict[str, Any] | None = orjson.loads(data) if data else None
    return note


def dump_note(by: str, at: int, note: str) -> bytes:
    """Return who paused a job, when and why, as the job's hash holds it."""
    return orjson.dumps({"by": by, "at": at, "note": note})


def load_job(job_id: str, fields: Mapping[bytes, bytes]) -> Job:
    """Return the job that a hash holds."""
    created_at, anchored_ms, schedule_expr, timezone, *more = orjson.loads(fields[b"definition"])
    extra: dict[str, Any] = more[0] if more else {}
    head = load_head(fields[b"head"])
    queue, priority = split_stream(head.stream)
    return Job(
        id=job_id,
        plan_id=head.plan_id,
        target=load_target(fields[b"target"]),
        queue=queue,
        priority=priority,
        group=fields[b"group"].decode() if b"group" in fields else None,
        tags=tuple(fields.get(b"tags", b"").decode().split()),
        depends=_load_depends(fields),
        created_at=created_at,
        anchor_at=created_at + anchored_ms,
        schedule_expr=tuple(schedule_expr) if isinstance(schedule_expr, list) else schedule_expr,
        timezone=timezone,
        dialect=extra.get("dialect"),
        payload=fields[b"payload"],
        retry=load_retry(head.retry),
        overlap=Overlap(head.overlap),
        rules=_load_rules(fields, extra.get("max_runs")),
        state=head.state,
        next_run_at=head.next_run_at,
        version=int(fields.get(b"version", 1)),
        runs_left=load_int(fields.get(b"runs_left")),
        failures=int(fields.get(b"failures", 0)),
        queued=tuple(int(at) for at in fields.get(b"queued", b"").split()),
        pause_note=_load_note(fields.get(b"pause_note")),
        resume_note=_load_note(fields.get(b"resume_note")),
    )
