"""A job's hash as `create_jobs` writes it, for tests that need no server; and how to spoil one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine import codec
from engine.model import Job
from engine.store import Store

DEFINED = ["queue", "overlap", "target", "payload", "retry", "definition", "rules", "runs_left"]
DEFINED += ["expires_after_ms", "pause_after_failures", "delete_after_completion", "concurrency"]
DEFINED += ["group", "upstreams", "join", "match", "gate_ms", "tags"]
"""The names that lua/lib/job.lua gives to the values of `dump_defined`."""


def _bytes(value: str | bytes | int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def hash_of(job: Job) -> dict[bytes, bytes]:
    """Return the fields that a job's hash has when it is new."""
    values = dict(zip(DEFINED, map(_bytes, codec.dump_defined(job)), strict=True))
    stream, overlap, retry, rules = (values.pop(n) for n in ("queue", "overlap", "retry", "rules"))
    head = codec.Head(
        has_rules=rules != b"",
        state=job.state,
        plan_id=job.plan_id,
        next_run_at=job.next_run_at,
        live=0,
        stream=stream.decode(),
        overlap=overlap.decode(),
        retry=retry,
    )
    fields = {name.encode(): value for name, value in values.items() if value}
    return {b"head": codec.dump_head(head), **fields}


async def change_head(store: Store, job_id: str, **words: Any) -> None:
    """Write other words into a job's head, behind the engine's back."""
    key = store.layout.shard_of(job_id).job(job_id)
    head = codec.load_head(await store.client.hget(key, "head"))
    await store.client.hset(key, "head", codec.dump_head(replace(head, **words)))
