"""What the API takes from workers and from targets that report, field by field, as api/schemas.py
does it for jobs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from api.rules import Queue, WorkerName, in_full, shown
from api.schemas_depends import ExecutionResult, refuse_result
from api.taken import Taken
from engine.backoff import LONGEST_WAIT_MS
from engine.errors import BadInput
from engine.names import QUEUE, WORKER_QUEUE, check_queue

MOST_CLAIMED = 100
"""Executions that one claim hands over, and outcomes that one batch reports."""
MOST_QUEUES = 20
LONGEST_POLL_MS = 30_000
LONGEST_RUN_MS = 30 * 86_400_000


def _refuse(detail: str, field: str) -> PydanticCustomError:
    context = {"detail": detail, "field": field}
    return PydanticCustomError(BadInput.code, "{detail}", context)


def _refuse_given(**fields: object) -> None:
    """Refuse what only a failure has, where it is given with another status."""
    for field, value in fields.items():
        if value is not None and value is not False:
            raise _refuse("this goes with status `failed` only", field)


def _check_listed(queue: str) -> str:
    """As the rule of `Queue`, whose refusal names a field that holds one."""
    try:
        return check_queue(queue)
    except BadInput as error:
        raise PydanticCustomError(BadInput.code, "{detail}", {"detail": error.message}) from None


_QUEUE = shown("string", "The name of a queue.", pattern=in_full(QUEUE), examples=["mail"])
Queues = Annotated[
    list[Annotated[str, AfterValidator(_check_listed), _QUEUE]],
    Field(min_length=1, max_length=MOST_QUEUES, json_schema_extra={"uniqueItems": True}),
]


class ClaimExecution(Taken):
    worker: WorkerName
    queue: Queue | None = None
    queues: Queues | None = None
    """Looked through in turns, so that none is served last for ever."""
    max: int | None = Field(None, ge=1, le=MOST_CLAIMED)
    """With it the answer is an array."""
    wait_ms: int = Field(0, ge=0, le=LONGEST_POLL_MS)
    """How long to wait for work where there is none."""

    @model_validator(mode="after")
    def _check_queues(self) -> Self:
        if self.queue is not None and self.queues is not None:
            raise _refuse("name either `queue` or `queues`", "queues")
        if len(set(self.queues or ())) < len(self.queues or ()):
            raise _refuse("a queue stands here twice", "queues")
        return self

    def to_queues(self) -> list[str]:
        return self.queues or [self.queue or WORKER_QUEUE]


Lease = Annotated[
    str, shown("string", "The `lease` of the claim's answer, as it came.", format="lease")
]


class HeartbeatExecution(Taken):
    lease: Lease


class FailExecution(Taken):
    lease: Lease
    error: str | None = None
    status_code: int | None = Field(None, ge=100, le=599)
    duration_ms: int | None = Field(None, ge=0, le=LONGEST_RUN_MS)
    final: bool = False
    """Trying again cannot help; a retry policy that says what to try again overrules it."""
    retry_after_ms: int | None = Field(None, ge=0, le=LONGEST_WAIT_MS)
    """The next attempt is not to come sooner; the policy's `max_ms` is still the longest wait."""

    @property
    def has_succeeded(self) -> bool:
        return False


class CompleteExecution(FailExecution):
    status: Literal["succeeded", "failed"]
    result: ExecutionResult = b""
    """What jobs that depend on this one are given."""

    @model_validator(mode="after")
    def _check_failure(self) -> Self:
        if self.has_succeeded:
            _refuse_given(final=self.final, retry_after_ms=self.retry_after_ms)
        else:
            refuse_result(self.result)
        return self

    @property
    def has_succeeded(self) -> bool:
        return self.status == "succeeded"


class CompleteOne(CompleteExecution):
    """One outcome of a batch."""

    execution_id: str


Outcomes = Annotated[list[CompleteOne], Field(min_length=1, max_length=MOST_CLAIMED)]
"""The body of `POST /internal/executions/complete`."""


class ReportExecution(Taken):
    """The body of `POST /v1/callbacks/{token}`."""

    status: Literal["running", "succeeded", "failed"]
    error: str | None = None
    final: bool = False
    result: ExecutionResult = b""

    @model_validator(mode="after")
    def _check_failure(self) -> Self:
        if self.status != "failed":
            _refuse_given(error=self.error, final=self.final)
        if self.status != "succeeded":
            refuse_result(self.result)
        return self
