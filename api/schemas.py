"""What the API takes, field by field.

A pydantic model each: unknown fields are refused at every level, and nothing is converted (no "5"
for 5), but instants, which are RFC 3339 with an offset. Durations are milliseconds and say so.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, model_validator

from api.rules import (
    MOST_UPCOMING,
    Dialect,
    ExplainedTime,
    Group,
    Instant,
    JobId,
    Queue,
    Schedule,
    Tags,
    Timezone,
    UpcomingLimit,
    ask,
    in_full,
)
from api.rules_headers import Headers
from api.rules_shell import Directory, ShellCommand, Stdin, User, Variables
from api.rules_url import Url
from api.schemas_depends import DEPENDENT_ONLY, UpstreamsIn, check_depends
from api.taken import Taken
from engine.backoff import (
    CHOICES,
    LONGEST_SPAN_MS,
    LONGEST_WAIT_MS,
    MOST_ATTEMPTS,
    MOST_CHOSEN,
    MOST_WAITS,
    Backoff,
    Jitter,
    Retry,
)
from engine.depends import LONGEST_GATE_MS
from engine.model import Rules, Signing
from engine.names import QUEUE
from engine.plan import DstOverlap, Gap, Misfire, MisfirePolicy, Roll
from engine.plan.plan import LONGEST_WINDOW_MS, MOST_CALENDARS, MOST_CATCH_UP
from engine.registration import Timing

LONGEST_GRACE_MS = 100 * 366 * 86_400_000
LONGEST_RUN_MS = 30 * 86_400_000
LONGEST_LIFE_MS = 366 * 86_400_000
MOST_REDIRECTS = 10
LONGEST_COMMAND_MS = 7 * 86_400_000
MOST_RUNS = 1_000_000_000
MOST_FAILURES = 1_000
MOST_CONCURRENT = 1_000
MOST_NOTE_CHARS = 500
MOST_HANDLER_CHARS = 128

_RETRY = Retry()
_MISFIRE = Misfire()


class HttpTargetIn(Taken):
    type: Literal["http"]
    url: Url
    headers: Headers = {}
    timeout_ms: int = Field(30_000, ge=100, le=3_600_000)
    follow_redirects: int = Field(0, ge=0, le=MOST_REDIRECTS)
    respond_async: bool = False
    heartbeat_ms: int = Field(60_000, ge=1_000, le=LONGEST_RUN_MS)
    signing: Signing | None = None
    template: bool = False


class WorkerTargetIn(Taken):
    type: Literal["worker"]
    handler: str | None = Field(None, min_length=1, max_length=MOST_HANDLER_CHARS)
    timeout_ms: int | None = Field(None, ge=100, le=LONGEST_RUN_MS)


class ShellTargetIn(Taken):
    type: Literal["shell"]
    command: ShellCommand
    cwd: Directory | None = None
    env: Variables = {}
    stdin: Stdin | None = None
    user: User | None = None
    timeout_ms: int = Field(3_600_000, ge=100, le=LONGEST_COMMAND_MS)


_Tried = Annotated[
    Any,  # checked by the policy itself, which knows what it may be
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 100, "maximum": 599}, {"enum": [*CHOICES]}]}
    ),
]


class RetryIn(Taken):
    max_attempts: int = Field(_RETRY.max_attempts, ge=1, le=MOST_ATTEMPTS)
    backoff: Backoff = _RETRY.backoff
    base_ms: int = Field(_RETRY.base_ms, ge=0, le=LONGEST_WAIT_MS)
    max_ms: int = Field(_RETRY.max_ms, ge=0, le=LONGEST_WAIT_MS)
    waits_ms: list[Annotated[int, Field(ge=0, le=LONGEST_WAIT_MS)]] = Field(
        [], max_length=MOST_WAITS
    )
    """The waits of backoff `list`, and of no other; the last one repeats."""
    jitter: Jitter = _RETRY.jitter
    max_elapsed_ms: int | None = Field(None, ge=1, le=LONGEST_SPAN_MS)
    deadline_ms: int | None = Field(None, ge=1, le=LONGEST_SPAN_MS)
    on: list[_Tried] | None = Field(None, max_length=MOST_CHOSEN)
    """What is tried again: statuses, `4xx`, `5xx`, or kinds of errors; null leaves that to the
    target."""

    @model_validator(mode="after")
    def _check(self) -> RetryIn:
        ask(self.to_retry)
        return self

    def to_retry(self) -> Retry:
        return Retry.from_dict(self.model_dump())


class MisfireIn(Taken):
    policy: MisfirePolicy = _MISFIRE.policy
    grace_ms: int = Field(_MISFIRE.grace_ms, ge=0, le=LONGEST_GRACE_MS)
    max_catch_up: int = Field(_MISFIRE.max_catch_up, ge=1, le=MOST_CATCH_UP)

    def to_misfire(self) -> Misfire:
        return Misfire(self.policy, self.grace_ms, self.max_catch_up)


class TimingIn(Taken):
    """When, wherever that is sent. Its validation context holds `clock`, a Clock."""

    # The order counts: schedule_expr is checked against the three above it.
    job_id: JobId | None = None
    timezone: Timezone = "UTC"
    dialect: Dialect | None = None
    schedule_expr: Schedule | None = None
    dst_gap: Gap = "run_after"
    dst_overlap: DstOverlap = "first"
    start_at: Instant | None = None
    end_at: Instant | None = None
    window_ms: int = Field(0, ge=0, le=LONGEST_WINDOW_MS)
    calendars: Annotated[
        list[str],
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "string", "pattern": in_full(QUEUE)},
                "maxItems": MOST_CALENDARS,
                "uniqueItems": True,
            }
        ),
    ] = []
    """Calendars in all of which a time must be open."""
    roll: Roll = "skip"
    misfire: MisfireIn | None = None

    def to_timing(self) -> Timing:
        return Timing(
            schedule_expr=self.schedule_expr,
            timezone=self.timezone,
            dialect=self.dialect,
            dst_gap=self.dst_gap,
            dst_overlap=self.dst_overlap,
            start_at=self.start_at,
            end_at=self.end_at,
            window_ms=self.window_ms,
            calendars=tuple(self.calendars),
            roll=self.roll,
            misfire=self.misfire.to_misfire() if self.misfire else Misfire(),
        )


class CreateJob(TimingIn):
    """The body of `POST /v1/jobs` and of `PUT /v1/jobs/{job_id}`."""

    target: Annotated[HttpTargetIn | WorkerTargetIn | ShellTargetIn, Field(discriminator="type")]
    payload: Any = None
    queue: Queue | None = None
    retry: RetryIn | None = None
    priority: Literal["high", "normal", "low"] = "normal"
    group: Group | None = None
    tags: Tags = []
    overlap: Literal["skip", "allow", "queue_one", "queue_all", "replace", "after_success"] = "skip"
    concurrency: int = Field(1, ge=1, le=MOST_CONCURRENT)
    max_runs: int | None = Field(None, ge=1, le=MOST_RUNS)
    expires_after_ms: int | None = Field(None, ge=1, le=LONGEST_LIFE_MS)
    pause_after_failures: int | None = Field(None, ge=1, le=MOST_FAILURES)
    delete_after_completion: bool = False
    depends_on: UpstreamsIn = []
    join: Literal["all", "any"] = "all"
    match: Literal["same_time", "latest"] | None = None
    gate: bool = False
    gate_deadline_ms: int | None = Field(None, ge=1, le=LONGEST_GATE_MS)
    allow_missing: bool = False
    paused: bool = False
    """Whether a job that is new begins paused; one that is there is paused and resumed by
    operations of their own."""

    @model_validator(mode="after")
    def _check_depends(self) -> CreateJob:
        check_depends(self.depends_on, self.model_dump(include=DEPENDENT_ONLY))
        return self

    def to_rules(self) -> Rules:
        return Rules(
            self.max_runs,
            self.expires_after_ms,
            self.pause_after_failures,
            self.delete_after_completion,
            self.concurrency,
        )


REFUSED_IN_A_JOB = (
    "bad_expression",
    "never_fires",
    "target_not_public",
    "port_not_allowed",
    "scheme_not_allowed",
    "userinfo_not_allowed",
    "loop",
    "cycle",
    "quota_exceeded",
)
"""Codes with which a job's definition may be refused, beside `bad_input`."""


class PreviewSchedule(TimingIn):
    """The body of `POST /v1/schedules/preview`; with `job_id` it is held against that job."""

    schedule_expr: Schedule
    n: int = Field(10, ge=1, le=MOST_UPCOMING)


class PauseJob(Taken):
    note: str = Field("", max_length=MOST_NOTE_CHARS)


class Nothing(Taken):
    """A body that need not be sent, and holds no field."""


class ResumeJob(Taken):
    misfire: MisfirePolicy | None = None
    """What becomes of the times that passed; by default the job's own policy decides."""
    dry_run: bool = False
    note: str = Field("", max_length=MOST_NOTE_CHARS)


class ListUpcoming(Taken):
    n: UpcomingLimit = 10


class ExplainTime(Taken):
    at: ExplainedTime
