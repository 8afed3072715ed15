"""From how an attempt went to what is recorded of it. Pure: no call to the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from random import Random

from engine import codec
from engine.backoff import Retry
from engine.execution import (
    DeadReason,
    Delivery,
    ErrorKind,
    Outcome,
    Record,
    SkipReason,
    SkipRecord,
)


@dataclass(slots=True)
class Result:
    """How one delivery ended. What belongs to an outcome is set exactly with it: `retry_at` with
    `failed`, `reason` with `dead`, `lapses_at` with `accepted`. A value; not frozen, as `Record`.
    """

    delivery: Delivery
    record: Record | SkipRecord
    retry_at: int | None = None
    reason: DeadReason | None = None
    lapses_at: int | None = None
    gave: bytes = b""
    """What a success gives the jobs that depend on this one, as JSON; empty for nothing."""

    @property
    def outcome(self) -> Outcome:
        return self.record.outcome if isinstance(self.record, Record) else Outcome.SKIPPED

    @property
    def detail(self) -> str:
        """What complete_executions gets beside the outcome; '' for those that need no more."""
        for value in (self.retry_at, self.lapses_at, self.reason):
            if value is not None:
                return str(value)
        return ""

    @property
    def since(self) -> str:
        """What the next attempt has to know: when the first one began, and how many do not count
        any more."""
        if self.outcome not in (Outcome.FAILED, Outcome.ACCEPTED):
            return ""
        assert isinstance(self.record, Record)
        began_at = self.delivery.began_at
        return f"{self.record.started_at if began_at is None else began_at}.{self.delivery.base}"


def expired(delivery: Delivery) -> Result:
    """Return the end of a delivery that comes too late to be started."""
    at = delivery.nominal_at
    return Result(delivery, SkipRecord(at, at, 1, SkipReason.EXPIRED))


def late(delivery: Delivery) -> Result:
    """Return the end of a delivery whose upstream jobs were not done in time."""
    at = delivery.nominal_at
    return Result(delivery, SkipRecord(at, at, 1, SkipReason.UPSTREAM_LATE))


def accepted(
    delivery: Delivery, *, started_at: int, duration_ms: int, status_code: int, lapses_at: int
) -> Result:
    """Return that the target goes on by itself, and must give a sign of life before `lapses_at`."""
    record = _record(delivery, Outcome.ACCEPTED, started_at, duration_ms, status_code, None)
    return Result(delivery, record, lapses_at=lapses_at)


def ended(
    delivery: Delivery,
    *,
    succeeded: bool,
    started_at: int,
    duration_ms: int,
    now: int,
    rng: Random,
    is_final: bool = False,
    status_code: int | None = None,
    error: str | None = None,
    kind: str | None = None,
    retry_after_ms: int | None = None,
    exit_status: int | None = None,
    output: str | None = None,
    gave: bytes = b"",
) -> Result:
    """Return the end of an attempt: success, another attempt after its wait, or dead.

    `is_final` means that trying again cannot help, by the target's own judgement, and `kind` is an
    ErrorKind; the job's retry policy has the last word. `retry_after_ms` is what the target asked
    for. `gave` counts with a success.
    """
    record = _record(
        delivery,
        Outcome.SUCCEEDED,
        started_at,
        duration_ms,
        status_code,
        error,
        exit_status,
        output,
    )
    if succeeded:
        return Result(delivery, record, gave=gave)
    retry = codec.load_retry(delivery.retry)
    began_at = started_at if delivery.began_at is None else delivery.began_at
    wait_ms = retry.next_wait_ms(
        delivery.attempt - delivery.base,
        elapsed_ms=now - began_at,
        rng=rng,
        seed=delivery.execution_id,
        asked_ms=retry_after_ms,
    )
    reason = _dead_reason(retry, kind, status_code, is_final=is_final, wait_ms=wait_ms)
    if reason or wait_ms is None:
        return Result(delivery, replace(record, outcome=Outcome.DEAD), reason=reason)
    return Result(delivery, replace(record, outcome=Outcome.FAILED), retry_at=now + wait_ms)


def _dead_reason(
    retry: Retry, kind: str | None, status_code: int | None, *, is_final: bool, wait_ms: int | None
) -> DeadReason | None:
    """Return why a failure is the last one, None if another attempt follows."""
    if kind == ErrorKind.DEADLINE:
        return DeadReason.EXHAUSTED
    if retry.is_final(kind, status_code, usually=is_final):
        is_gone = kind == ErrorKind.STATUS and status_code == HTTPStatus.GONE
        return DeadReason.GONE if is_gone else DeadReason.FINAL
    return DeadReason.EXHAUSTED if wait_ms is None else None


def _record(
    delivery: Delivery,
    outcome: Outcome,
    started_at: int,
    duration_ms: int,
    status_code: int | None,
    error: str | None,
    exit_status: int | None = None,
    output: str | None = None,
) -> Record:
    return Record(
        nominal_at=delivery.nominal_at,
        outcome=outcome,
        attempt=delivery.attempt,
        deliveries=delivery.deliveries,
        worker=delivery.consumer,
        started_at=started_at,
        duration_ms=duration_ms,
        status_code=status_code,
        error=error,
        exit_status=exit_status,
        output=output,
    )
