"""A job's history: its executions as they stand, live ones and those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine import codec
from engine.errors import NotFound
from engine.execution import ExecutionState, LiveExecution, Outcome, Record, SkipRecord
from engine.keys import GROUP
from engine.names import execution_id as join_execution_id
from engine.names import split_execution_id
from engine.store import Store
from engine.store.letters import get_letter
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


async def previous_outcome(store: Store, job_id: str, nominal_at: int) -> Outcome | None:
    """Return how the newest execution of a job before a nominal time has ended, None if its history
    holds none that has. Times that were not fired do not count."""
    runs = store.layout.shard_of(job_id).runs(job_id)
    ends: dict[int, Outcome] = {}
    for line in await store.client.lrange(runs, 0, store.config.history_limit - 1):
        record = codec.load_record(line)
        if isinstance(record, Record) and record.nominal_at < nominal_at:
            # Newest first: after a redrive it is the last word that counts.
            ends.setdefault(record.nominal_at, record.outcome)
    ended = [at for at, outcome in ends.items() if outcome is not Outcome.FAILED]
    return ends[max(ended)] if ended else None


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
    executions = assemble(job_id, job.queued, live, map(codec.load_record, lines), workers)
    return sorted(executions, key=lambda e: e.nominal_at, reverse=True)


async def find_execution(store: Store, execution_id: str) -> tuple[Execution, bool]:
    """Return an execution, or the record of its time if that was skipped, and whether it has a dead
    letter: one whose history is gone is told as its letter has it. Raises NotFound."""
    job_id, nominal_at = split_execution_id(execution_id)
    try:
        found = await list_executions(store, job_id)
    except NotFound:
        found = []
    try:
        letter = await get_letter(store, execution_id)
    except NotFound:
        letter = None
    # A time may have been skipped and then run, by a backfill.
    for execution in sorted(found, key=lambda execution: execution.skipped is not None):
        skipped = execution.skipped
        if nominal_at in (
            (skipped.first_at, skipped.last_at) if skipped else (execution.nominal_at,)
        ):
            return execution, letter is not None
    if letter is None:
        raise NotFound(
            f"no execution {execution_id} is live or in its job's history; what became of a time of"
            " its schedule is told by /explain of the job"
        )
    attempts, state = list(letter.attempts), ExecutionState.DEAD
    return Execution(job_id, nominal_at, state, letter.attempt, attempts), True


def assemble(
    job_id: str,
    queued: Iterable[int],
    live_ones: Iterable[LiveExecution],
    lines: Iterable[Record | SkipRecord],
    workers: Mapping[int, str],
) -> list[Execution]:
    """Return the executions of a job, made of the times that wait, of what is live, of its records,
    newest first, and of who holds which delivery."""
    live = {execution.nominal_at: execution for execution in live_ones}
    records: dict[int, list[Record]] = {nominal_at: [] for nominal_at in live}
    executions = [
        Execution(job_id, nominal_at, ExecutionState.WAITING, 1, []) for nominal_at in queued
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
    offered = {live_one.nominal_at: live_one.entry_id for live_one in live if live_one.entry_id}
    holders = await read_consumers(store, [(ready, entry_id) for entry_id in offered.values()])
    return {at: holder for at, holder in zip(offered, holders, strict=True) if holder}


async def read_consumers(store: Store, entries: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return who holds each entry, (ready stream's key, entry id); None where nobody does."""
    if not entries:
        return []
    pipe = store.client.pipeline(transaction=False)
    for ready, entry_id in entries:
        pipe.xpending_range(ready, GROUP, entry_id, entry_id, 1)
    replies = await pipe.execute(raise_on_error=False)  # no group yet: nobody has read
    return [
        reply[0]["consumer"].decode() if reply and not isinstance(reply, Exception) else None
        for reply in replies
    ]


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
    return join_execution_id(execution.job_id, execution.nominal_at)
