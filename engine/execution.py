"""An execution's life in words and shapes: its states, its records, and what a consumer is handed.

Execution states: `waiting` in a ready stream or for room in it, `running` while a consumer holds
its delivery, `retrying` while its next attempt is in the due index; then one of `succeeded`, `dead`
(no attempt left), `cancelled`, or `skipped` for nominal times that were not fired.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ExecutionState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Outcome(StrEnum):
    """How an attempt ended. `failed` has another attempt to come; `dead` has none; `skipped` was
    never made. `accepted` is no end: the target goes on by itself, and reports later."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    ACCEPTED = "accepted"


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
    UPSTREAM_FAILED = "upstream_failed"
    """Executions that it waited for did not end as it needs; the record names the first that
    failed."""
    UPSTREAM_LATE = "upstream_late"
    """Its upstream jobs were not done within its gate's deadline."""
    REPLACED = "replaced"
    """Ended in favour of a newer one, by overlap policy `replace`."""


class ErrorKind(StrEnum):
    """Why an attempt failed, in one word. The error's text begins with it (but for a status, where
    it is `HTTP 503: …`), and a retry policy may name it."""

    STATUS = "status"
    """The target answered, and its status says no."""
    TIMEOUT = "timeout"
    """No answer within the target's `timeout_ms`."""
    CONNECTION = "connection"
    """Refused, reset, or closed before there was an answer."""
    DNS = "dns"
    """The host's name was not resolved."""
    ADDRESS = "address"
    """It has no address and port that may be called; no connection was made."""
    TLS = "tls"
    """No handshake, or a certificate that is not accepted."""
    PROTOCOL = "protocol"
    """What came back is not HTTP, or beyond the bounds of an answer's head."""
    REDIRECT = "redirect"
    """The answer is a redirect that is not followed."""
    URL = "url"
    """The request cannot be made as the job describes it."""
    EXIT = "exit"
    """A command ended with another status than 0."""
    SIGNAL = "signal"
    """A signal ended a command."""
    SHELL = "shell"
    """A command could not be started."""
    RESULT = "result"
    """It went well, and what it gave is too large, or no JSON."""
    SIGNING = "signing"
    """There is no secret to sign the request with, or it cannot be read."""
    INTERNAL = "internal"
    """A fault of the worker, not of the target."""
    DEADLINE = "deadline"
    """The execution's `deadline_ms` ran out during the attempt."""


@dataclass(slots=True)
class Record:
    """One line of a job's history: how one attempt of one execution ended.

    A value, though not frozen, which would make each several times as dear: a worker makes one an
    execution.
    """

    nominal_at: int
    outcome: Outcome
    attempt: int
    deliveries: int
    worker: str
    started_at: int
    duration_ms: int
    status_code: int | None = None
    error: str | None = None
    exit_status: int | None = None
    """Of a shell target's command."""
    output: str | None = None
    """The end of what a shell target's command wrote."""


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
    is_accepted: bool = False
    """The target runs it by itself; `due_at` is when its silence counts as failure."""
    is_gated: bool = False
    """It waits for upstream jobs; `due_at` is when that is too late."""


class DeadReason(StrEnum):
    """Why an execution was dead-lettered."""

    EXHAUSTED = "exhausted"
    """Its last attempt failed, or its time was up."""
    FINAL = "final"
    """It failed in a way that trying again cannot help."""
    GONE = "gone"
    """Its target answered 410, which has paused the job."""
    POISON = "poison"
    """It was delivered again and again, and never completed."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead execution as it is kept until it is redriven, discarded, or too old."""

    execution_id: str
    died_at: int
    reason: DeadReason
    attempt: int
    queue: str
    """The stream that it came from, as `Delivery.queue`."""
    target: bytes
    payload: bytes
    attempts: tuple[Record, ...]
    """As far as the job's history held them when it died, newest first."""


@dataclass(slots=True)
class Delivery:
    """One hand-over of an attempt to a consumer: what it needs to run it, and what proves that it
    may end it.

    The proof (the fencing token) is the entry, the consumer and the delivery count together.
    `queue` is the name of the stream: queue and priority. A value; not frozen, as `Record`.
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
    began_at: int | None = None
    """When the first attempt began; None if this is the first one."""
    base: int = 0
    """Attempts made before the execution was redriven: they do not count for the retry policy."""
    upstream: bytes = b""
    """What upstream jobs gave, as a JSON object by job; empty for nothing."""
    is_late: bool = False
    """Its upstream jobs were not done in time: it is not to be started."""
    lapsed: bool = False
    """The target promised to report this attempt's end, and fell silent: it has failed."""

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
