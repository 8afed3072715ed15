"""The retry policy: what is tried again, how long a failed attempt waits, what is refused, and
how a policy is sent."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from api.schemas import RetryIn
from engine.backoff import (
    LONGEST_SPAN_MS,
    LONGEST_WAIT_MS,
    MOST_ATTEMPTS,
    MOST_CHOSEN,
    MOST_WAITS,
    Backoff,
    Jitter,
    Retry,
)
from engine.cli import main, options
from engine.errors import BadInput
from engine.execution import ErrorKind

FULL: dict[str, Any] = {
    "max_attempts": 7,
    "backoff": "list",
    "max_ms": 90_000,
    "waits_ms": [10, 20],
    "jitter": "none",
    "max_elapsed_ms": 5_000,
    "deadline_ms": 6_000,
    "on": [503, "timeout"],
}
"""A policy as JSON, of which no field but the base is the usual one."""


def waits(retry: Retry, seed: int = 1, execution: str = "a@1") -> list[int | None]:
    rng = Random(seed)
    attempts = range(1, retry.max_attempts + 1)
    return [retry.delay_ms(attempt, rng, execution) for attempt in attempts]


def spread(jitter: Jitter) -> list[int]:
    """A thousand first waits of a policy whose base is 100 ms."""
    retry, rng = Retry(base_ms=100, jitter=jitter), Random(7)
    found = [retry.delay_ms(1, rng, f"a@{n}") for n in range(1_000)]
    return [wait for wait in found if wait is not None]


def next_wait(retry: Retry, elapsed_ms: int = 0, asked_ms: int | None = None) -> int | None:
    return retry.next_wait_ms(
        1, elapsed_ms=elapsed_ms, rng=Random(1), seed="a@1", asked_ms=asked_ms
    )


# How long


@pytest.mark.parametrize(
    ("backoff", "given", "expected"),
    [
        ("exponential", {}, [100, 200, 400, 500, 500, None]),
        ("linear", {}, [100, 200, 300, 400, 500, None]),
        ("linear", {"base_ms": 200}, [200, 400, 500, 500, 500, None]),
        ("fixed", {}, [100, 100, 100, 100, 100, None]),
        ("list", {"waits_ms": (7, 0, 30)}, [7, 0, 30, 30, 30, None]),
    ],
)
def test_the_wait_grows_by_the_backoff_up_to_the_cap_and_the_last_attempt_has_none(
    backoff: Backoff, given: dict[str, Any], expected: list[int | None]
) -> None:
    policy = {"base_ms": 100, "max_ms": 500, "jitter": "none", **given}
    assert waits(Retry(max_attempts=6, backoff=backoff, **policy)) == expected


def test_a_single_attempt_is_never_tried_again() -> None:
    assert Retry(max_attempts=1).delay_ms(1, Random(1)) is None
    assert next_wait(Retry(max_attempts=1), asked_ms=1) is None


def test_an_attempt_past_the_last_has_no_wait_either() -> None:
    assert Retry(max_attempts=3).delay_ms(7, Random(1)) is None


def test_full_jitter_spreads_from_nothing_to_the_whole_wait() -> None:
    assert set(spread("full")) == set(range(101))


def test_equal_jitter_keeps_half_of_the_wait() -> None:
    assert set(spread("equal")) == set(range(50, 101))


def test_the_first_decorrelated_wait_is_from_the_base_to_three_times_the_base() -> None:
    found = spread("decorrelated")
    assert 100 <= min(found) < 105
    assert 295 < max(found) <= 300


@pytest.mark.parametrize("backoff", ["linear", "fixed", "list"])
def test_jitter_spreads_the_wait_of_any_backoff(backoff: Backoff) -> None:
    waits_ms = (100,) if backoff == "list" else ()
    retry = Retry(backoff=backoff, base_ms=100, waits_ms=waits_ms, jitter="full")
    rng = Random(7)
    assert {retry.delay_ms(1, rng) for _ in range(1_000)} == set(range(101))


def test_a_decorrelated_wait_builds_on_the_one_before() -> None:
    retry = Retry(max_attempts=200, base_ms=100, max_ms=60_000, jitter="decorrelated")
    found = [wait for wait in waits(retry) if wait is not None]
    assert all(
        100 <= wait <= min(60_000, 3 * before)
        for before, wait in zip([100, *found], found, strict=False)
    )
    assert max(found) == 60_000, "the chain reaches the cap, and goes no further"
    assert min(found[10:]) < 20_000, "it comes down again"


def test_decorrelated_waits_are_repeatable_and_differ_per_execution() -> None:
    retry = Retry(max_attempts=20, jitter="decorrelated")
    assert waits(retry, seed=1) == waits(retry, seed=2)
    assert waits(retry, execution="a@1") != waits(retry, execution="a@2")


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


@pytest.mark.parametrize(
    ("asked_ms", "expected"), [(None, 100), (0, 100), (99, 100), (101, 101), (501, 500)]
)
def test_the_wait_is_at_least_what_the_target_asks_for_within_the_cap(
    asked_ms: int | None, expected: int
) -> None:
    retry = Retry(base_ms=100, max_ms=500, jitter="none")
    assert next_wait(retry, asked_ms=asked_ms) == expected


# Until when


@pytest.mark.parametrize(("elapsed_ms", "expected"), [(0, 100), (900, 100), (901, None)])
def test_no_attempt_begins_after_max_elapsed_ms(elapsed_ms: int, expected: int | None) -> None:
    retry = Retry(base_ms=100, jitter="none", max_elapsed_ms=1_000)
    assert next_wait(retry, elapsed_ms) == expected


@pytest.mark.parametrize(("elapsed_ms", "expected"), [(0, 100), (899, 100), (900, None)])
def test_no_attempt_begins_at_the_deadline(elapsed_ms: int, expected: int | None) -> None:
    retry = Retry(base_ms=100, jitter="none", deadline_ms=1_000)
    assert next_wait(retry, elapsed_ms) == expected


@pytest.mark.parametrize("bound", ["max_elapsed_ms", "deadline_ms"])
def test_a_target_that_asks_for_more_than_is_left_gets_no_further_attempt(bound: str) -> None:
    given: dict[str, Any] = {bound: 1_000}
    retry = Retry(base_ms=100, jitter="none", **given)
    assert next_wait(retry, asked_ms=999) == 999
    assert next_wait(retry, asked_ms=1_001) is None


# What


@pytest.mark.parametrize(
    ("on", "kind", "status_code", "is_final"),
    [
        ((503,), "status", 503, False),
        ((503,), "status", 500, True),
        (("5xx",), "status", 599, False),
        (("5xx",), "status", 499, True),
        (("4xx", 500), "status", 404, False),
        (("status",), "status", 404, False),
        (("timeout",), "timeout", None, False),
        (("timeout",), "connection", None, True),
        (("timeout",), "status", 503, True),
        ((302,), "redirect", 302, False),
        (("redirect",), "redirect", 302, False),
        ((429,), None, 429, False),
        ((429,), None, 428, True),
        ((), "status", 503, True),
    ],
)
@pytest.mark.parametrize("usually", [True, False])
def test_a_policy_that_chooses_overrules_the_target(
    on: tuple[str | int, ...],
    kind: str | None,
    status_code: int | None,
    is_final: bool,
    usually: bool,
) -> None:
    assert Retry(on=on).is_final(kind, status_code, usually=usually) is is_final


@pytest.mark.parametrize("usually", [True, False])
def test_the_target_decides_about_what_a_policy_says_nothing_of(usually: bool) -> None:
    assert Retry().is_final("status", 503, usually=usually) is usually
    assert Retry(on=(503,)).is_final(None, None, usually=usually) is usually


# What is stored, and what is refused


def test_the_default_policy_is_stored_as_nothing() -> None:
    assert Retry().to_dict() == {}


def test_only_what_differs_is_stored_and_it_comes_back() -> None:
    retry = Retry(max_attempts=5, jitter="none")
    assert retry.to_dict() == {"max_attempts": 5, "jitter": "none"}
    assert Retry.from_dict(retry.to_dict()) == retry


def test_a_full_policy_is_stored_as_json_has_it_and_comes_back() -> None:
    retry = Retry.from_dict(FULL)
    assert (retry.waits_ms, retry.on) == ((10, 20), (503, "timeout"))
    assert retry.to_dict() == FULL
    assert hash(retry) == hash(Retry.from_dict(FULL))


def test_choosing_nothing_is_not_the_same_as_not_choosing() -> None:
    assert Retry.from_dict(Retry(on=()).to_dict()).on == ()


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": MOST_ATTEMPTS + 1}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": "3"}, "max_attempts"),
        ({"backoff": "square"}, "backoff"),
        ({"backoff": None}, "backoff"),
        ({"base_ms": -1}, "base_ms"),
        ({"base_ms": 1.5}, "base_ms"),
        ({"base_ms": 2_000, "max_ms": 1_999}, "max_ms"),
        ({"max_ms": LONGEST_WAIT_MS + 1}, "max_ms"),
        ({"backoff": "list", "waits_ms": [2_000], "max_ms": 1_999}, "max_ms"),
        ({"backoff": "list"}, "waits_ms"),
        ({"waits_ms": [1]}, "waits_ms"),
        ({"backoff": "list", "waits_ms": 1}, "waits_ms"),
        ({"backoff": "list", "waits_ms": [-1]}, "waits_ms"),
        ({"backoff": "list", "waits_ms": [True]}, "waits_ms"),
        ({"backoff": "list", "waits_ms": [1] * (MOST_WAITS + 1)}, "waits_ms"),
        ({"jitter": "some"}, "jitter"),
        ({"jitter": ["full"]}, "jitter"),
        ({"jitter": "decorrelated", "backoff": "fixed"}, "jitter"),
        ({"jitter": "decorrelated", "backoff": "list", "waits_ms": [1]}, "jitter"),
        ({"max_elapsed_ms": 0}, "max_elapsed_ms"),
        ({"max_elapsed_ms": LONGEST_SPAN_MS + 1}, "max_elapsed_ms"),
        ({"deadline_ms": 0}, "deadline_ms"),
        ({"deadline_ms": "1"}, "deadline_ms"),
        ({"deadline_ms": LONGEST_SPAN_MS + 1}, "deadline_ms"),
        ({"on": 503}, "on"),
        ({"on": [99]}, "on"),
        ({"on": [600]}, "on"),
        ({"on": [True]}, "on"),
        ({"on": [503.0]}, "on"),
        ({"on": ["503"]}, "on"),
        ({"on": ["3xx"]}, "on"),
        ({"on": ["Timeout"]}, "on"),
        ({"on": [["timeout"]]}, "on"),
        ({"on": ["deadline"]}, "on"),
        ({"on": [503] * (MOST_CHOSEN + 1)}, "on"),
        ({"attempts": 3}, "attempts"),
    ],
)
def test_a_wrong_field_is_refused_by_its_path(stored: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        Retry.from_dict(stored)
    assert refused.value.field == f"retry.{field}"


def test_a_list_needs_no_base_below_its_cap() -> None:
    retry = Retry(backoff="list", waits_ms=(5,), max_ms=10, jitter="none")
    assert retry.delay_ms(1, Random(1)) == 5


def test_all_kinds_but_the_deadline_can_be_chosen() -> None:
    assert Retry(on=tuple(kind for kind in ErrorKind if kind != "deadline")).on


# How it is sent


def test_the_api_takes_every_field() -> None:
    sent = {**FULL, "base_ms": 2_000}
    assert RetryIn.model_validate(sent).to_retry() == Retry.from_dict(sent)
    assert RetryIn.model_validate({}).to_retry() == Retry()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"on": [True]}, "retry.on"),
        ({"waits_ms": [1]}, "retry.waits_ms"),
        ({"jitter": "decorrelated", "backoff": "fixed"}, "retry.jitter"),
    ],
)
def test_the_api_names_what_the_policy_refuses(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RetryIn.model_validate(sent)
    [fault] = refused.value.errors()
    assert fault["ctx"]["field"] == field


def test_the_command_line_has_an_option_for_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[Any] = []

    class Kept:
        def __init__(self, *_: object) -> None:
            pass

        def post(self, *path: str, body: Any) -> Any:
            bodies.append(body)
            return {"job_id": "a"}

    monkeypatch.setattr(options, "Api", Kept)
    args = """jobs add --worker --json --max-attempts 7 --retry-backoff list --retry-max-ms 90000
        --retry-wait-ms 10 --retry-wait-ms 20 --retry-jitter none --retry-max-elapsed-ms 5000
        --retry-deadline-ms 6000 --retry-on 503 --retry-on timeout --retry-base-ms 2000"""
    result = CliRunner().invoke(main, args.split())
    assert result.exit_code == 0, result.output
    assert bodies == [{"target": {"type": "worker"}, "retry": {**FULL, "base_ms": 2_000}}]
