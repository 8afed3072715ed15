"""What tests of dead letters begin with: executions that failed for good."""

from __future__ import annotations

from dataclasses import replace

from seeding import AT_ONCE, NOW, registration

from engine.execution import DeadReason, Delivery, Outcome, Record
from engine.names import Priority, execution_id
from engine.store import Store
from engine.store.executions import Answer, complete_executions, ensure_groups, read_ready
from engine.store.jobs import create_jobs
from engine.store.outcomes import Result


async def offered(
    store: Store, job_id: str, *, queue: str = "default", priority: Priority = Priority.NORMAL
) -> Delivery:
    """Return the delivery of a job that is registered to run at once, at NOW."""
    made = registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW)
    job = replace(made.job, queue=queue, priority=priority)
    assert await create_jobs(store, [replace(made, job=job)]) == [True]
    return await delivered(store, job_id, job.stream)


async def delivered(store: Store, job_id: str, stream: str = "default") -> Delivery:
    """Return the one delivery that waits in the job's shard."""
    await ensure_groups(store, stream)
    where = [(stream, store.layout.shard_of(job_id))]
    [delivery] = await read_ready(store, where, "w1", 10, block=False)
    return delivery


def ended(
    delivery: Delivery,
    *,
    reason: DeadReason | None = DeadReason.EXHAUSTED,
    retry_at: int | None = None,
    error: str = "HTTP 503: busy",
    status_code: int | None = 503,
) -> Result:
    """Return that an attempt failed: for good, or until `retry_at`."""
    record = Record(
        nominal_at=delivery.nominal_at,
        outcome=Outcome.DEAD if retry_at is None else Outcome.FAILED,
        attempt=delivery.attempt,
        deliveries=delivery.deliveries,
        worker=delivery.consumer,
        started_at=delivery.nominal_at + 500,
        duration_ms=40,
        status_code=status_code,
        error=error,
    )
    return Result(delivery, record, retry_at, reason if retry_at is None else None)


async def die(
    store: Store,
    delivery: Delivery,
    died_at: int = NOW,
    *,
    reason: DeadReason = DeadReason.EXHAUSTED,
    error: str = "HTTP 503: busy",
) -> str:
    """Have an attempt fail for good; return its execution's id."""
    result = ended(delivery, reason=reason, error=error)
    assert await complete_executions(store, [result], died_at) == [Answer.DONE]
    return delivery.execution_id


async def bury(
    store: Store,
    job_id: str,
    died_at: int = NOW,
    *,
    queue: str = "default",
    priority: Priority = Priority.NORMAL,
    reason: DeadReason = DeadReason.EXHAUSTED,
    error: str = "HTTP 503: busy",
) -> str:
    """Register a job whose only execution dies at its first attempt; return the execution's id."""
    delivery = await offered(store, job_id, queue=queue, priority=priority)
    assert await die(store, delivery, died_at, reason=reason, error=error) == execution_id(
        job_id, NOW
    )
    return delivery.execution_id
