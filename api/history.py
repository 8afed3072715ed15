"""Executions and their attempts, as the API shows them."""

from __future__ import annotations

from api.answers import AttemptOut, ExecutionOut, SkippedOut
from api.wire import rfc_3339
from engine.execution import ExecutionState, Record
from engine.store.history import Execution, id_of


def execution_out(execution: Execution) -> ExecutionOut | SkippedOut:
    if skipped := execution.skipped:
        return {
            "job_id": execution.job_id,
            "status": "skipped",
            "reason": skipped.told,
            "scheduled_for": rfc_3339(skipped.first_at),
            "last_scheduled_for": rfc_3339(skipped.last_at),
            "count": skipped.count,
            "count_is_exact": skipped.exact,
        }
    state = execution.state
    has_begun = state not in (ExecutionState.WAITING, ExecutionState.RETRYING)
    shown: ExecutionOut = {
        "execution_id": id_of(execution),
        "job_id": execution.job_id,
        "scheduled_for": rfc_3339(execution.nominal_at),
        "status": state,
        "attempt_count": execution.attempt if has_begun else execution.attempt - 1,
        "attempts": [attempt_out(record) for record in execution.attempts],
    }
    if state is ExecutionState.RETRYING and execution.retry_at is not None:
        shown["retry_at"] = rfc_3339(execution.retry_at)
    if execution.worker is not None:
        shown["worker"] = execution.worker
    return shown


def attempt_out(record: Record) -> AttemptOut:
    shown: AttemptOut = {
        "attempt": record.attempt,
        "outcome": record.outcome,
        "started_at": rfc_3339(record.started_at),
        "ended_at": rfc_3339(record.started_at + record.duration_ms),
        "duration_ms": record.duration_ms,
        "lag_ms": record.started_at - record.nominal_at,
        "worker": record.worker,
        "status_code": record.status_code,
        "error": record.error,
    }
    if record.exit_status is not None:
        shown["exit_status"] = record.exit_status
    if record.output is not None:
        shown["output"] = record.output
    return shown
