"""Cancel executions: end what is live of a job, wherever it is."""

from __future__ import annotations

from collections.abc import Sequence

from engine import codec
from engine.store import Store

CANCEL_LIMIT = 100
"""Live executions that one script cancels."""


async def cancel_executions(
    store: Store,
    job_id: str,
    now: int,
    nominal_times: Sequence[int] | None = None,
    *,
    by: str = "api",
    note: str = "",
) -> list[int]:
    """End live executions of a job; return the nominal times of those that were live.

    Without `nominal_times` it ends all of them, and what waits for an older one. A consumer that
    runs one has lost it, and learns so at its next heartbeat; what it did until then is done.
    Raises NotFound.
    """
    if nominal_times is not None and not nominal_times:
        return []  # to the script, none named are all
    shard = store.layout.shard_of(job_id)
    keys = [
        shard.job(job_id),
        shard.jobs,
        shard.runs(job_id),
        shard.buckets,
        shard.inputs(job_id),
        shard.gates,
        shard.outbox,
        shard.ledger,
    ]
    args: list[str | bytes | int] = [
        job_id,
        now,
        shard.due_prefix,
        shard.ready_prefix,
        store.config.history_limit,
        store.config.ledger_limit,
        codec.dump_json(f"cancelled by {by}" + (f": {note}" if note else "")),
        CANCEL_LIMIT,
    ]
    if nominal_times is not None:
        args += nominal_times[:CANCEL_LIMIT]
    cancelled: list[int] = []
    left = None if nominal_times is None else list(nominal_times[CANCEL_LIMIT:])
    while True:
        reply = await store.scripts.run("cancel_executions", keys, args)
        cancelled += [int(nominal_at) for nominal_at in reply]
        if (left is None and len(reply) < CANCEL_LIMIT) or (left is not None and not left):
            return cancelled
        if left is not None:
            args = [*args[:8], *left[:CANCEL_LIMIT]]
            del left[:CANCEL_LIMIT]
