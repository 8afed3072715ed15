"""From how an attempt went to what is recorded of it, and whether another one follows."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engine import codec
from engine.backoff import Retry
from engine.execution import DeadReason, Delivery, ErrorKind, Outcome, Record
from engine.store.outcomes import Result, ended

AT = 1_800_000_000_000
NOW = AT + 5_000
HELD = Delivery(
    shard=0,
    queue="http",
    entry_id="1-0",
    consumer="w1",
    deliveries=2,
    execution_id=f"nightly@{AT}",
    attempt=1,
    due_at=AT,
    target=b"{}",
    payload=b"null",
    retry=b"",
)


def end(retry: Retry | None = None, *, held: Delivery = HELD, **more: Any) -> Result:
    """Return the end of an attempt that began 1 s ago and has failed with a 503, unless `more` says
    otherwise; waits are 100 ms, unless `retry` does."""
    policy = retry or Retry(base_ms=100, jitter="none")
    given = {
        "succeeded": False,
        "started_at": NOW - 1_000,
        "duration_ms": 990,
        "status_code": 503,
        "error": "HTTP 503",
        "kind": ErrorKind.STATUS,
        **more,
    }
    return ended(replace(held, retry=codec.dump_retry(policy)), now=NOW, rng=Random(1), **given)


def followed(result: Result) -> int | DeadReason | None:
    """Return the wait before the next attempt, or why there is none."""
    if result.retry_at is None:
        assert result.outcome is Outcome.DEAD
        return result.reason
    assert (result.outcome, result.reason) == (Outcome.FAILED, None)
    return result.retry_at - NOW


def test_the_record_says_all_of_the_attempt() -> None:
    assert end().record == Record(
        nominal_at=AT,
        outcome=Outcome.FAILED,
        attempt=1,
        deliveries=2,
        worker="w1",
        started_at=NOW - 1_000,
        duration_ms=990,
        status_code=503,
        error="HTTP 503",
    )


def test_success_is_the_end_whatever_the_policy_says() -> None:
    result = end(Retry(max_attempts=1, on=()), succeeded=True, status_code=200, kind=None)
    assert (result.outcome, result.retry_at, result.reason) == (Outcome.SUCCEEDED, None, None)


@pytest.mark.parametrize(
    ("attempt", "base", "expected"),
    [
        (1, 0, 100),
        (2, 0, 200),
        (3, 0, DeadReason.EXHAUSTED),
        (9, 7, 200),
        (9, 6, DeadReason.EXHAUSTED),
    ],
)
def test_attempts_count_since_the_last_redrive(
    attempt: int, base: int, expected: int | DeadReason
) -> None:
    assert followed(end(held=replace(HELD, attempt=attempt, base=base))) == expected


@pytest.mark.parametrize("attempt", [1, 3])
def test_what_cannot_be_helped_is_final_on_any_attempt(attempt: int) -> None:
    result = end(held=replace(HELD, attempt=attempt), is_final=True, status_code=404)
    assert followed(result) is DeadReason.FINAL


@pytest.mark.parametrize(
    ("on", "given", "expected"),
    [
        ((404,), {"status_code": 404, "is_final": True}, 100),
        ((404,), {"status_code": 503}, DeadReason.FINAL),
        (("timeout",), {"status_code": None, "kind": "timeout"}, 100),
        (("timeout",), {"status_code": None, "kind": "dns"}, DeadReason.FINAL),
        ((404,), {"status_code": None, "kind": None}, 100),
        ((404,), {"status_code": None, "kind": None, "is_final": True}, DeadReason.FINAL),
    ],
)
def test_what_the_policy_chooses_overrules_the_target(
    on: tuple[str | int, ...], given: dict[str, Any], expected: int | DeadReason
) -> None:
    assert followed(end(Retry(base_ms=100, jitter="none", on=on), **given)) == expected


def test_the_wait_that_the_target_asks_for_is_honoured_within_the_cap() -> None:
    retry = Retry(base_ms=100, max_ms=500, jitter="none")
    assert followed(end(retry, retry_after_ms=300)) == 300
    assert followed(end(retry, retry_after_ms=9_000)) == 500


@pytest.mark.parametrize("bound", ["max_elapsed_ms", "deadline_ms"])
@pytest.mark.parametrize("began_at", [None, NOW - 5_000])
def test_time_counts_from_the_begin_of_the_first_attempt(bound: str, began_at: int | None) -> None:
    held = replace(HELD, attempt=1 if began_at is None else 2, began_at=began_at)
    elapsed_ms, wait_ms = (1_000, 100) if began_at is None else (5_000, 200)

    def with_bound(ms: int) -> Retry:
        given: dict[str, Any] = {bound: ms}
        return Retry(base_ms=100, jitter="none", **given)

    enough = elapsed_ms + wait_ms + 1
    assert followed(end(with_bound(enough), held=held)) == wait_ms
    assert followed(end(with_bound(enough - 2), held=held)) is DeadReason.EXHAUSTED


def test_an_attempt_that_the_deadline_cut_off_is_the_last() -> None:
    for on in (None, ("timeout", 503)):
        result = end(Retry(on=on), kind=ErrorKind.DEADLINE, status_code=None, is_final=True)
        assert followed(result) is DeadReason.EXHAUSTED


def test_decorrelated_waits_follow_from_the_execution() -> None:
    retry = Retry(max_attempts=9, base_ms=100, jitter="decorrelated")
    waits = [followed(end(retry, held=replace(HELD, attempt=n))) for n in range(1, 9)]
    seed = HELD.execution_id
    assert waits == [retry.delay_ms(n, Random(2), seed) for n in range(1, 9)]
    other = replace(HELD, execution_id=f"hourly@{AT}")
    assert waits != [followed(end(retry, held=replace(other, attempt=n))) for n in range(1, 9)]


def test_jitter_is_drawn_from_the_callers_random_source() -> None:
    retry = Retry(base_ms=1_000, jitter="full")
    assert followed(end(retry)) == retry.delay_ms(1, Random(1))


def test_a_failure_without_kind_is_judged_by_its_status() -> None:
    retry = Retry(base_ms=100, jitter="none", on=(503,))
    assert followed(end(retry, kind=None)) == 100
    assert followed(end(retry, kind=None, status_code=500)) is DeadReason.FINAL
