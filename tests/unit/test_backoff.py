"""The retry policy: how long a failed attempt waits, and what a policy refuses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine.backoff import LONGEST_WAIT_MS, MOST_ATTEMPTS, Jitter, Retry
from engine.errors import BadInput


def waits(retry: Retry, seed: int = 1) -> list[int | None]:
    rng = Random(seed)
    return [retry.delay_ms(attempt, rng) for attempt in range(1, retry.max_attempts + 1)]


def spread(jitter: Jitter) -> list[int]:
    """A thousand first waits of a policy whose base is 100 ms."""
    retry, rng = Retry(base_ms=100, jitter=jitter), Random(7)
    return [wait for _ in range(1_000) if (wait := retry.delay_ms(1, rng)) is not None]


def test_the_wait_doubles_up_to_the_cap_and_the_last_attempt_has_none() -> None:
    retry = Retry(max_attempts=6, base_ms=100, max_ms=500, jitter="none")
    assert waits(retry) == [100, 200, 400, 500, 500, None]


def test_a_single_attempt_is_never_tried_again() -> None:
    assert Retry(max_attempts=1).delay_ms(1, Random(1)) is None


def test_an_attempt_past_the_last_has_no_wait_either() -> None:
    assert Retry(max_attempts=3).delay_ms(7, Random(1)) is None


def test_full_jitter_spreads_from_nothing_to_the_whole_wait() -> None:
    assert set(spread("full")) == set(range(101))


def test_equal_jitter_keeps_half_of_the_wait() -> None:
    assert set(spread("equal")) == set(range(50, 101))


def test_jitter_is_taken_below_the_cap() -> None:
    retry = Retry(max_attempts=MOST_ATTEMPTS, base_ms=1, max_ms=60_000, jitter="full")
    longest = max(wait for wait in waits(retry) if wait is not None)
    assert 59_000 < longest <= 60_000


def test_the_same_random_source_gives_the_same_waits() -> None:
    retry = Retry(max_attempts=20, jitter="full")
    assert waits(retry, seed=5) == waits(retry, seed=5) != waits(retry, seed=6)


def test_attempts_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        Retry().delay_ms(0, Random(1))


def test_the_default_policy_is_stored_as_nothing() -> None:
    assert Retry().to_dict() == {}


def test_only_what_differs_is_stored_and_it_comes_back() -> None:
    retry = Retry(max_attempts=5, jitter="none")
    assert retry.to_dict() == {"max_attempts": 5, "jitter": "none"}
    assert Retry.from_dict(retry.to_dict()) == retry


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ({"max_attempts": 0}, "retry.max_attempts"),
        ({"max_attempts": MOST_ATTEMPTS + 1}, "retry.max_attempts"),
        ({"max_attempts": True}, "retry.max_attempts"),
        ({"max_attempts": "3"}, "retry.max_attempts"),
        ({"base_ms": -1}, "retry.base_ms"),
        ({"base_ms": 1.5}, "retry.base_ms"),
        ({"base_ms": 2_000, "max_ms": 1_999}, "retry.max_ms"),
        ({"max_ms": LONGEST_WAIT_MS + 1}, "retry.max_ms"),
        ({"jitter": "some"}, "retry.jitter"),
        ({"jitter": ["full"]}, "retry.jitter"),
        ({"attempts": 3}, "retry.attempts"),
    ],
)
def test_a_wrong_field_is_refused_by_its_path(stored: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        Retry.from_dict(stored)
    assert refused.value.field == field
