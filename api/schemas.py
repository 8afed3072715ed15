"""What the API takes and gives, field by field.

What comes in is a pydantic model: unknown fields are refused at every level, and nothing is
converted (no "5" for 5). What goes out is a TypedDict. Instants are RFC 3339 UTC with milliseconds;
durations are milliseconds and say so.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.rules import (
    Headers,
    JobId,
    PageLimit,
    Prefix,
    Queue,
    Schedule,
    Timezone,
    Url,
    WorkerName,
    ask,
)
from engine.backoff import LONGEST_WAIT_MS, MOST_ATTEMPTS, Jitter, Retry
from engine.model import WORKER_QUEUE
from engine.plan import Misfire
from engine.plan.plan import MisfirePolicy

LONGEST_GRACE_MS = 100 * 366 * 86_400_000
LONGEST_RUN_MS = 30 * 86_400_000

_RETRY = Retry()
_MISFIRE = Misfire()


class _Taken(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class HttpTargetIn(_Taken):
    type: Literal["http"]
    url: Url
    headers: Headers = {}
    timeout_ms: int = Field(30_000, ge=100, le=3_600_000)


class WorkerTargetIn(_Taken):
    type: Literal["worker"]


class RetryIn(_Taken):
    max_attempts: int = Field(_RETRY.max_attempts, ge=1, le=MOST_ATTEMPTS)
    base_ms: int = Field(_RETRY.base_ms, ge=0, le=LONGEST_WAIT_MS)
    max_ms: int = Field(_RETRY.max_ms, ge=0, le=LONGEST_WAIT_MS)
    jitter: Jitter = _RETRY.jitter

    @model_validator(mode="after")
    def _check(self) -> RetryIn:
        ask(self.to_retry)
        return self

    def to_retry(self) -> Retry:
        return Retry(self.max_attempts, self.base_ms, self.max_ms, self.jitter)


class MisfireIn(_Taken):
    policy: MisfirePolicy = _MISFIRE.policy
    grace_ms: int = Field(_MISFIRE.grace_ms, ge=0, le=LONGEST_GRACE_MS)

    def to_misfire(self) -> Misfire:
        return Misfire(self.policy, self.grace_ms)


class CreateJob(_Taken):
    """The body of `POST /v1/jobs`. Its validation context holds `clock`, a Clock."""

    job_id: JobId | None = None
    schedule_expr: Schedule | None = None
    timezone: Timezone = "UTC"
    target: Annotated[HttpTargetIn | WorkerTargetIn, Field(discriminator="type")]
    payload: Any = None
    queue: Queue | None = None
    retry: RetryIn | None = None
    misfire: MisfireIn | None = None
    overlap: Literal["skip", "allow"] = "skip"
    depends_on: Any = None


class Nothing(_Taken):
    """A body that need not be sent, and holds no field."""


class ResumeJob(_Taken):
    missed: Literal["misfire", "skip"] = "misfire"
    """What becomes of the times that passed: the job's own misfire policy decides, or none is
    fired."""


class ListJobs(_Taken):
    limit: PageLimit = 100
    after: Prefix = ""
    prefix: Prefix = ""


class ListExecutions(_Taken):
    limit: PageLimit = 100


class ClaimExecution(_Taken):
    worker: WorkerName
    queue: Queue = WORKER_QUEUE


class CompleteExecution(_Taken):
    status: Literal["succeeded", "failed"]
    lease: str
    error: str | None = None
    status_code: int | None = Field(None, ge=100, le=599)
    duration_ms: int | None = Field(None, ge=0, le=LONGEST_RUN_MS)


class JobOut(TypedDict):
    job_id: str
    state: str
    schedule_expr: str | None
    timezone: str
    target: dict[str, Any]
    payload: Any
    queue: str
    retry: dict[str, Any]
    misfire: dict[str, Any]
    overlap: str
    created_at: str
    next_run_at: str | None
    live_executions: int
    execution_id: NotRequired[str]
    """In the answer to the creation of a job that runs at once."""


class AttemptOut(TypedDict):
    attempt: int
    outcome: str
    started_at: str
    duration_ms: int
    lag_ms: int
    worker: str
    status_code: int | None
    error: str | None


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
    lease: str
    lease_ms: int


class CompletedOut(TypedDict):
    execution_id: str
    status: str
    already: bool
    retry_at: NotRequired[str]
