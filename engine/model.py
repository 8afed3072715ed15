"""What a job is: its states, its targets, its policies.

Job states, and who moves a job out of each:

    active ──pause──▶ paused ──resume──▶ active
       └──fire, when the plan has no further time──▶ completed

An `active` job is in the due index under `next_run_at`. A `paused` one is not, and keeps the
`next_run_at` at which it was paused, so that resuming knows what was missed. A `completed` one will
not fire by itself again. A job that fires at starts of the deployment has a `next_run_at` past all
times of the clock (plan/starts.py). Running by hand and deleting are allowed in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from engine.backoff import Retry
from engine.depends import Depends
from engine.names import Priority, stream_of

MAX_PAYLOAD_BYTES = 256 * 1024
MAX_RESULT_BYTES = 16 * 1024
"""Of what an execution gives the jobs that depend on its own, as JSON."""


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
    concurrency: int = 1
    """Executions that may be live before the overlap policy decides about a further one."""


Signing = Literal["job", "group"]
"""Whose secrets sign a webhook."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """POST the payload to `url`; an answer of 2xx within `timeout_ms` is success."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = 30_000
    follow_redirects: int = 0
    """Redirects that one attempt follows."""
    respond_async: bool = False
    """202 is no success but a promise: the target reports the end on a URL that it was sent."""
    heartbeat_ms: int = 60_000
    """How long after a promise, or a sign of life, the target may be silent."""
    signing: Signing | None = None
    """Whose secrets sign the calls; None for none."""
    template: bool = False
    """Whether placeholders in payload, headers and URL are replaced (templating.py)."""
    signed_by: str = ""
    """What `signing` comes to, for who makes the call: `job:<created_at>` or `group:<name>`. Worked
    out whenever the job is stored."""
    type: Literal["http"] = "http"


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """Leave the execution in its queue for consumers of your own."""

    handler: str | None = None
    """The name of the function that is to run it, for consumers that have several."""
    timeout_ms: int | None = None
    type: Literal["worker"] = "worker"


@dataclass(frozen=True, slots=True)
class ShellTarget:
    """Run a command with `/bin/sh -c`; exit status 0 within `timeout_ms` is success."""

    command: str
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    user: str | None = None
    """Whom to run as; only a worker that runs as root can switch."""
    timeout_ms: int = 3_600_000
    type: Literal["shell"] = "shell"


Target = HttpTarget | WorkerTarget | ShellTarget
TARGETS: Mapping[str, type[Target]] = {
    "http": HttpTarget,
    "worker": WorkerTarget,
    "shell": ShellTarget,
}
"""Type as it is stored and sent → class."""


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
    priority: Priority = Priority.NORMAL
    group: str | None = None
    """Whose job it is: groups share a queue fairly."""
    tags: tuple[str, ...] = ()
    """What it is to be found by."""
    overlap: Overlap = Overlap.SKIP
    rules: Rules = field(default_factory=Rules)
    depends: Depends | None = None
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

    @property
    def stream(self) -> str:
        """The ready stream of its executions."""
        return stream_of(self.queue, self.priority)
