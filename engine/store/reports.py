"""Reports of targets that run an attempt by themselves: they are alive, or how it ended."""

from __future__ import annotations

import secrets
from random import Random

from engine import codec
from engine.codec import Promise
from engine.execution import Delivery, Outcome, Record
from engine.keys import SIGNING
from engine.names import split_execution_id
from engine.store import Store
from engine.store.executions import Answer
from engine.store.outcomes import ended

REPORTER = "target"
"""Who stands as the worker in the record of an attempt that a target reported on."""
LONGEST_PROMISE_MS = 7 * 86_400_000
"""How long a target may report on an attempt, unless the execution's deadline is sooner."""


async def signing_key(store: Store) -> bytes:
    """Return the key that signs promises; the first process that asks makes it."""
    if store.signing_key is None:
        await store.client.set(SIGNING, secrets.token_bytes(32), nx=True)
        store.signing_key = await store.client.get(SIGNING)
    key = store.signing_key
    assert key is not None
    return key


async def report_running(store: Store, promise: Promise, now: int, lapses_at: int) -> bool:
    """Note that a target goes on with an attempt; it has time until `lapses_at` for its next sign
    of life. Return whether the attempt is still live."""
    reply = await _run(store, promise, now, "running", str(lapses_at), "", b"")
    return reply is not Answer.STALE


async def report_end(
    store: Store,
    promise: Promise,
    now: int,
    *,
    succeeded: bool,
    rng: Random,
    error: str | None = None,
    is_final: bool = False,
    gave: bytes = b"",
) -> Answer:
    """Record how an attempt ended that its target has promised to report on. Sending the same
    again is safe."""
    delivery = await _delivery(store, promise)
    result = ended(
        delivery,
        succeeded=succeeded,
        started_at=promise.started_at,
        duration_ms=max(0, now - promise.started_at),
        now=now,
        rng=rng,
        is_final=is_final,
        error=error,
    )
    record = codec.dump_record(result.record)
    answer = await _run(
        store, promise, now, result.outcome, result.detail, result.since, record, gave
    )
    if answer is Answer.STALE and not succeeded and await recorded_failure(store, delivery):
        return Answer.ALREADY
    return answer


async def recorded_failure(store: Store, delivery: Delivery) -> Outcome | None:
    """Return how a failure that this very delivery reported was recorded, as failed or dead; None
    if none was.

    Whether another attempt follows depends on the clock, so that a repeat may draw the other of the
    two: for the script that is another outcome.
    """
    runs = store.layout.shards[delivery.shard].runs(delivery.job_id)
    for line in await store.client.lrange(runs, 0, store.config.history_limit - 1):
        record = codec.load_record(line)
        if (
            isinstance(record, Record)
            and record.outcome in (Outcome.FAILED, Outcome.DEAD)
            and (record.nominal_at, record.attempt) == (delivery.nominal_at, delivery.attempt)
            and (record.worker, record.deliveries) == (delivery.consumer, delivery.deliveries)
        ):
            return record.outcome
    return None


async def read_target(store: Store, promise: Promise) -> bytes | None:
    """Return the target of the job that a promise is about, None if it is gone."""
    job_id, _ = split_execution_id(promise.execution_id)
    shard = store.layout.shard_of(job_id)
    target: bytes | None = await store.client.hget(shard.job(job_id), "target")
    return target


async def _delivery(store: Store, promise: Promise) -> Delivery:
    """Return what a consumer would hold of the attempt: the retry policy, and since when."""
    job_id, nominal_at = split_execution_id(promise.execution_id)
    shard = store.layout.shard_of(job_id)
    place, text = await store.client.hmget(shard.job(job_id), f"x:{nominal_at}", "head")
    head = codec.load_head(text) if text else None
    began_at, base = codec.load_since(place or b"")
    # A word on an attempt from before a redrive is stale, whatever its policy would say.
    base = min(base, promise.attempt - 1)
    return Delivery(
        shard=shard.index,
        queue=head.stream if head else "",
        entry_id="",
        consumer=REPORTER,
        deliveries=0,
        execution_id=promise.execution_id,
        attempt=promise.attempt,
        due_at=nominal_at,
        target=b"",
        payload=b"",
        retry=head.retry if head else b"",
        began_at=began_at,
        base=base,
    )


async def _run(
    store: Store,
    promise: Promise,
    now: int,
    outcome: str,
    detail: str,
    since: str,
    record: bytes,
    gave: bytes = b"",
) -> Answer:
    job_id, nominal_at = split_execution_id(promise.execution_id)
    shard = store.layout.shard_of(job_id)
    reply: bytes = await store.scripts.run(
        "report_execution",
        [
            shard.job(job_id),
            shard.jobs,
            shard.buckets,
            shard.dead,
            shard.gates,
            shard.outbox,
            shard.ledger,
        ],
        [
            job_id,
            nominal_at,
            promise.attempt,
            now,
            outcome,
            detail,
            since,
            record,
            gave,
            shard.job_prefix,
            shard.due_prefix,
            shard.ready_prefix,
            shard.runs_prefix,
            shard.letter_prefix,
            shard.inputs_prefix,
            store.config.history_limit,
            store.config.ledger_limit,
        ],
    )
    return Answer(reply.decode())
