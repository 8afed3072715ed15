"""A job's history: its executions as they stand, live ones and those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine import codec
from engine.errors import NotFound
from engine.execution import ExecutionState, LiveExecution, Outcome, Record, SkipRecord
from engine.keys import GROUP
from engine.model import Job
from engine.names import execution_id
from engine.store import Store
from engine.store.reports import REPORTER

_ENDS = {
    Outcome.SUCCEEDED: ExecutionState.SUCCEEDED,
    Outcome.CANCELLED: ExecutionState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution as the API shows it: its state, and its attempts that have ended, newest first.

    For `skipped` times there are no attempts and `skipped` says which times and why.
    """

    job_id: str
    nominal_at: int
    state: ExecutionState
    attempt: int
    attempts: list[Record]
    retry_at: int | None = None
    worker: str | None = None
    skipped: SkipRecord | None = None


async def list_executions(store: Store, job_id: str) -> list[Execution]:
    """Return the executions of a job that are live or in its history, newest nominal time first.
    Raises NotFound."""
    shard = store.layout.shard_of(job_id)
    pipe = store.client.pipeline(transaction=False)
    pipe.hgetall(shard.job(job_id))
    pipe.lrange(shard.runs(job_id), 0, -1)
    fields, lines = await pipe.execute()
    if not fields:
        raise NotFound(f"there is no job {job_id}")
    job, live = codec.load_job(job_id, fields), codec.load_live(fields)
    workers = await read_workers(store, shard.ready(job.stream), live)
    executions = assemble(job, live, map(codec.load_record, lines), workers)
    return sorted(executions, key=lambda e: e.nominal_at, reverse=True)


def assemble(
    job: Job,
    live_ones: Iterable[LiveExecution],
    lines: Iterable[Record | SkipRecord],
    workers: Mapping[int, str],
) -> list[Execution]:
    """Return the executions of a job, made of what is live, of its records, newest first, and of
    who holds which delivery."""
    job_id, live = job.id, {execution.nominal_at: execution for execution in live_ones}
    records: dict[int, list[Record]] = {nominal_at: [] for nominal_at in live}
    executions = [
        Execution(job_id, nominal_at, ExecutionState.WAITING, 1, []) for nominal_at in job.queued
    ]
    for record in lines:
        if isinstance(record, SkipRecord):
            state = ExecutionState.SKIPPED
            executions.append(Execution(job_id, record.first_at, state, 0, [], skipped=record))
        else:
            records.setdefault(record.nominal_at, []).append(record)
    for nominal_at, attempts in records.items():
        executions.append(
            _ended(job_id, nominal_at, attempts)
            if nominal_at not in live
            else _alive(job_id, live[nominal_at], attempts, workers.get(nominal_at))
        )
    return executions


async def read_workers(store: Store, ready: str, live: Sequence[LiveExecution]) -> dict[int, str]:
    """Return by nominal time who holds the delivery of each execution that has one."""
    offered = [execution for execution in live if execution.entry_id]
    if not offered:
        return {}
    pipe = store.client.pipeline(transaction=False)
    for execution in offered:
        pipe.xpending_range(ready, GROUP, execution.entry_id, execution.entry_id, 1)
    replies = await pipe.execute(raise_on_error=False)  # no group yet: nobody has read
    return {
        execution.nominal_at: reply[0]["consumer"].decode()
        for execution, reply in zip(offered, replies, strict=True)
        if reply and not isinstance(reply, Exception)
    }


def _alive(
    job_id: str, live: LiveExecution, attempts: list[Record], worker: str | None
) -> Execution:
    state, retry_at = ExecutionState.WAITING, live.due_at
    if live.is_accepted:
        # Its time in the index is when its silence counts, not when it is tried again.
        state, retry_at, worker = ExecutionState.RUNNING, None, REPORTER
    elif worker is not None:
        state = ExecutionState.RUNNING
    elif retry_at is not None and attempts:
        state = ExecutionState.RETRYING
    return Execution(
        job_id, live.nominal_at, state, live.attempt, attempts, retry_at=retry_at, worker=worker
    )


def _ended(job_id: str, nominal_at: int, attempts: list[Record]) -> Execution:
    # A record of `failed` with nothing live behind it: the job was changed by hand; the last word
    # stands as dead.
    newest = attempts[0]
    state = _ENDS.get(newest.outcome, ExecutionState.DEAD)
    return Execution(job_id, nominal_at, state, newest.attempt, attempts)


def id_of(execution: Execution) -> str:
    return execution_id(execution.job_id, execution.nominal_at)
