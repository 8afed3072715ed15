"""What the API gives, field by field: instants are RFC 3339 UTC with milliseconds, durations are
milliseconds and say so."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class NoteOut(TypedDict):
    by: str
    at: str
    note: str


class WarningOut(TypedDict):
    code: str
    message: str


class SkippedTimesOut(TypedDict):
    scheduled_for: str
    last_scheduled_for: str
    count: int
    count_is_exact: bool


class CatchUpOut(TypedDict):
    run: list[str]
    skipped: SkippedTimesOut | None


class UpstreamOut(TypedDict):
    job: str
    condition: str


class JobOut(TypedDict):
    job_id: str
    version: int
    state: str
    schedule_expr: str | tuple[str, ...] | None
    dialect: str | None
    timezone: str
    dst_gap: str
    dst_overlap: str
    start_at: str | None
    end_at: str | None
    window_ms: int
    calendars: list[str]
    roll: str
    misfire: dict[str, Any]
    target: dict[str, Any]
    payload: Any
    queue: str
    retry: dict[str, Any]
    priority: str
    group: str | None
    tags: list[str]
    overlap: str
    concurrency: int
    max_runs: int | None
    expires_after_ms: int | None
    pause_after_failures: int | None
    delete_after_completion: bool
    depends_on: list[UpstreamOut]
    join: str
    match: str | None
    gate: bool
    gate_deadline_ms: int | None
    created_at: str
    next_run_at: str | None
    runs_left: int | None
    failures: int
    queued: list[str]
    """Nominal times that wait for an older execution to end."""
    live_executions: int
    pause_note: NoteOut | None
    resume_note: NoteOut | None
    description: NotRequired[str | None]
    """With `warnings`, where one job is shown: lists go without."""
    warnings: NotRequired[list[WarningOut]]
    execution_id: NotRequired[str]
    """In the answer to the creation of a job that runs at once."""
    catch_up: NotRequired[CatchUpOut]
    """In the answer to a resume."""


class JobPageOut(TypedDict):
    jobs: list[JobOut]
    next: str | None
    """The `after` of the next page; null at the end."""


class StartedOut(TypedDict):
    """What was set going."""

    execution_id: str


class CancelledOut(TypedDict):
    cancelled: int
    """Executions that were ended."""


class TimeOut(TypedDict):
    scheduled_for: str
    due_at: str
    local_time: str
    utc_offset: str
    zone_abbreviation: str
    dst: str | None
    calendar: str | None


class DifferenceOut(TypedDict):
    added: list[str]
    removed: list[str]


class PreviewOut(TypedDict):
    dialect: str | None
    description: str | None
    warnings: list[WarningOut]
    conversions: dict[str, str]
    times: list[TimeOut]
    difference: NotRequired[DifferenceOut]


class ExplanationOut(TypedDict):
    at: str
    is_scheduled: bool
    verdict: str
    reason: str
    text: str
    due_at: str | None
    execution_id: str | None
    before: str | None
    """With `after`, the nearest nominal times to one that is none."""
    after: str | None
    paused_at: str | None


class AttemptOut(TypedDict):
    attempt: int
    outcome: str
    started_at: str
    ended_at: str
    duration_ms: int
    lag_ms: int
    worker: str
    status_code: int | None
    error: str | None
    exit_status: NotRequired[int]
    """With `output`, of a shell target's command."""
    output: NotRequired[str]


class ExecutionOut(TypedDict):
    execution_id: str
    job_id: str
    scheduled_for: str
    status: str
    attempt_count: int
    """Attempts that have begun."""
    attempts: list[AttemptOut]
    retry_at: NotRequired[str]
    worker: NotRequired[str]
    dead_letter: NotRequired[str]
    """Where its dead letter is, in the answer about one execution."""


class SkippedOut(TypedDict):
    job_id: str
    status: Literal["skipped"]
    reason: str
    scheduled_for: str
    last_scheduled_for: str
    count: int
    count_is_exact: bool


class ClaimOut(TypedDict):
    execution_id: str
    job_id: str
    scheduled_for: str
    attempt: int
    deliveries: int
    target: Any
    payload: Any
    upstream: Any
    """What upstream jobs gave, by job."""
    lease: str
    lease_ms: int


class LeaseOut(TypedDict):
    lease_ms: int
    """How long it lasts from now on."""


class CompletedOut(TypedDict):
    execution_id: str
    status: str
    already: bool
    retry_at: NotRequired[str]


class NotCompletedOut(TypedDict):
    """In the answer to a batch, for an outcome that was refused."""

    execution_id: str
    code: str
    detail: str


class ReportedOut(TypedDict):
    """The answer to a target that reports on an attempt."""

    execution_id: str
    attempt: int
    status: str
    already: NotRequired[bool]
    """Of an end."""
    lapses_at: NotRequired[str]
    """Of `running`: the next sign of life is to come before."""
