"""The words of the engine and their shapes: jobs, executions, records, states.

Job states, and who moves a job out of each:

    active ──pause──▶ paused ──resume──▶ active
       └──fire, when the plan has no further time──▶ completed

An `active` job is in the due index under `next_run_at`. A `paused` one is not, and keeps the
`next_run_at` at which it was paused, so that resuming knows what was missed. A `completed` one will
not fire by itself again. Running by hand and deleting are allowed in every state.

Execution states: `waiting` in a ready stream or for room in it, `running` while a consumer holds
its delivery, `retrying` while its next attempt is in the due index; then one of `succeeded`, `dead`
(no attempt left), or `skipped` for nominal times that were not fired.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from engine.backoff import Retry
from engine.errors import BadInput

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

HTTP_QUEUE = "http"
"""The queue of HTTP targets unless a job names another."""
WORKER_QUEUE = "default"
"""The queue of worker targets unless a job names another."""

MAX_PAYLOAD_BYTES = 256 * 1024


class JobState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"


class Operation(StrEnum):
    FIRE = "fire"
    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    DELETE = "delete"


ALLOWED_IN: Mapping[Operation, frozenset[JobState]] = {
    Operation.FIRE: frozenset({JobState.ACTIVE}),
    Operation.PAUSE: frozenset({JobState.ACTIVE}),
    Operation.RESUME: frozenset({JobState.PAUSED}),
    Operation.RUN: frozenset(JobState),
    Operation.DELETE: frozenset(JobState),
}
"""The states in which each operation does something; in others it is refused and changes
nothing."""


class Overlap(StrEnum):
    """What happens when a job is due while an execution of it is live."""

    SKIP = "skip"
    """It is not fired, and a record says so."""
    ALLOW = "allow"
    QUEUE_ONE = "queue_one"
    """One nominal time waits for the end of what is live; further ones are skipped."""
    QUEUE_ALL = "queue_all"
    """They wait in turn, 100 at the most; further ones are skipped."""
    REPLACE = "replace"
    """What is live is ended, with a record, and the new one fires."""
    AFTER_SUCCESS = "after_success"
    """They wait in turn until the one before has succeeded."""


class ExecutionState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    SKIPPED = "skipped"


class Outcome(StrEnum):
    """How an attempt ended. `failed` has another attempt to come; `dead` has none; `skipped` was
    never made."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    """Why a nominal time was not fired."""

    LATE = "late"
    OVERLAP = "overlap"
    PAUSED = "paused"
    EDITED = "edited"
    """Overdue when the job was given another schedule."""
    EXPIRED = "expired"
    """Not started within the job's `expires_after_ms`."""
    CALENDAR = "calendar"
    """Closed by a calendar, which the record names."""
    DST_GAP = "dst_gap"
    """Left out by daylight saving, as `dst_gap` `skip` asks."""
    REPLACED = "replaced"
    """Ended in favour of a newer one, by overlap policy `replace`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a job may ask for beyond its times and its target."""

    max_runs: int | None = None
    """Executions that the schedule may fire; the last one completes the job."""
    expires_after_ms: int | None = None
    """An execution that has not started so long after its nominal time is dropped."""
    pause_after_failures: int | None = None
    """Dead executions in a row that pause the job."""
    delete_after_completion: bool = False
    """The job goes when it is completed and nothing of it is live."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """POST the payload to `url`; an answer of 2xx within `timeout_ms` is success."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = 30_000
    type: Literal["http"] = "http"


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """Leave the execution in its queue for consumers of your own."""

    type: Literal["worker"] = "worker"


Target = HttpTarget | WorkerTarget


@dataclass(frozen=True, slots=True)
class Job:
    """One job as stored."""

    id: str
    plan_id: str
    target: Target
    queue: str
    created_at: int
    anchor_at: int
    """A nominal time of an interval job, from which all others are counted; the time of a
    one-off."""
    schedule_expr: str | tuple[str, ...] | None = None
    """The schedule as the user wrote it, or several that are joined; the plan has what it means."""
    timezone: str = "UTC"
    dialect: str | None = None
    """The dialect that the user named; None if it was recognised."""
    payload: bytes = b"null"
    retry: Retry = field(default_factory=Retry)
    overlap: Overlap = Overlap.SKIP
    rules: Rules = field(default_factory=Rules)
    state: JobState = JobState.ACTIVE
    next_run_at: int | None = None
    version: int = 1
    """Grows with every replacement."""
    runs_left: int | None = None
    """What is left of `max_runs`."""
    failures: int = 0
    """Dead executions since the last success, for jobs with rules."""
    queued: tuple[int, ...] = ()
    """Nominal times that wait for an older execution to end, oldest first."""
    pause_note: Mapping[str, Any] | None = None
    resume_note: Mapping[str, Any] | None = None
    """Who or what paused the job, when, and why: `by`, `at`, `note`."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a job's history: how one attempt of one execution ended."""

    nominal_at: int
    outcome: Outcome
    attempt: int
    deliveries: int
    worker: str
    started_at: int
    duration_ms: int
    status_code: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SkipRecord:
    """One line of a job's history: nominal times that were not fired, and why.

    `exact` is false where counting stopped at a bound and there are more.
    """

    first_at: int
    last_at: int
    count: int
    reason: SkipReason
    exact: bool = True
    detail: str | None = None
    """What the reason is about: the calendar's name."""

    @property
    def told(self) -> str:
        """The reason with its detail, `calendar: NAME`: as it stands in history and ledger."""
        return f"{self.reason}: {self.detail}" if self.detail else str(self.reason)


@dataclass(frozen=True, slots=True)
class LiveExecution:
    """An execution that has not ended. Exactly one of `entry_id` (in a ready stream) and `due_at`
    (in the index) is set."""

    nominal_at: int
    attempt: int
    entry_id: str | None = None
    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One hand-over of an attempt to a consumer: what it needs to run it, and what proves that it
    may end it.

    The proof (the fencing token) is the entry, the consumer and the delivery count together.
    """

    shard: int
    queue: str
    entry_id: str
    consumer: str
    deliveries: int
    execution_id: str
    attempt: int
    due_at: int
    target: bytes
    payload: bytes
    retry: bytes
    expires_at: int | None = None

    def is_expired(self, now: int) -> bool:
        """Return whether it comes too late to be started. One that another consumer had may have
        been started there, so it is not."""
        return self.expires_at is not None and now >= self.expires_at and self.deliveries == 1

    @property
    def job_id(self) -> str:
        return self.execution_id.partition("@")[0]

    @property
    def nominal_at(self) -> int:
        return int(self.execution_id.partition("@")[2])


def execution_id(job_id: str, nominal_at: int) -> str:
    return f"{job_id}@{nominal_at}"


def split_execution_id(text: str) -> tuple[str, int]:
    """Return (job id, nominal time in ms) of an execution id. Refuses with BadInput anything
    else."""
    job_id, at, nominal = text.partition("@")
    if not (at and JOB_ID.fullmatch(job_id) and re.fullmatch(r"[0-9]{1,15}", nominal)):
        raise BadInput(
            "an execution id is <job id>@<nominal time in ms>, as the API returns it",
            field="execution_id",
        )
    return job_id, int(nominal)


def check_job_id(text: str) -> str:
    """Return `text` if it is a job id. Refuses with BadInput what does not match the grammar."""
    if not JOB_ID.fullmatch(text):
        raise BadInput(
            "a job id is 1 to 128 characters from A–Z a–z 0–9 . _ : - and begins with a letter"
            " or digit",
            field="job_id",
        )
    return text


def check_queue(text: str) -> str:
    """Return `text` if it is a queue name. Refuses with BadInput what does not match the
    grammar."""
    if not QUEUE.fullmatch(text):
        raise BadInput(
            "a queue name is 1 to 64 characters from A–Z a–z 0–9 . _ - and begins with a letter"
            " or digit",
            field="queue",
        )
    return text
