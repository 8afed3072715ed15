"""Targets: how an attempt of an execution is made. One kind a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine import codec
from engine.execution import Delivery, ErrorKind


@dataclass(slots=True)
class Attempted:
    """How an attempt went, as a value. `is_final` means that trying again cannot help; a retry
    policy that says what to try again overrules it."""

    succeeded: bool
    status_code: int | None = None
    error: str | None = None
    is_final: bool = False
    kind: str | None = None
    """Why it failed: an ErrorKind."""
    retry_after_ms: int | None = None
    """How long the target asked to be left alone."""
    accepted: bool = False
    """The target goes on by itself, and reports the end later."""
    exit_status: int | None = None
    output: str | None = None
    """The last of what a command printed."""
    gave: bytes = b""
    """What a success gives the jobs that depend on this one, as JSON (`codec.dump_result`)."""


class Runner(Protocol):
    """Makes attempts of one kind of target."""

    async def run(self, delivery: Delivery) -> Attempted:
        """Make the attempt; return how it went. Whatever the target does is a value, no
        exception."""

    async def close(self) -> None:
        """Give back what the runner holds."""


def failed(
    kind: ErrorKind, why: str, *, status_code: int | None = None, is_final: bool = False
) -> Attempted:
    """Return an attempt that failed, its error's text made of kind and reason."""
    return Attempted(False, status_code, f"{kind}: {why}", is_final, kind)


def time_allowed(delivery: Delivery, timeout_ms: int, now: int) -> tuple[int, ErrorKind]:
    """Return how long an attempt that begins now may take (ms), and how it has failed if it takes
    longer: by its target's timeout, or by the deadline of the execution, which is final."""
    # The usual policy, stored as nothing, has no deadline.
    deadline_ms = codec.load_retry(delivery.retry).deadline_ms if delivery.retry else None
    if deadline_ms is None:
        return timeout_ms, ErrorKind.TIMEOUT
    began_at = now if delivery.began_at is None else delivery.began_at
    left_ms = began_at + deadline_ms - now
    return (
        (timeout_ms, ErrorKind.TIMEOUT) if timeout_ms <= left_ms else (left_ms, ErrorKind.DEADLINE)
    )
