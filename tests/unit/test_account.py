"""The account of a load under which processes were killed: what was on time, lost and doubled."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.account import ON_TIME_MS, UNDER_WAY_MS, Account
from engine.execution import Outcome, Record, SkipReason, SkipRecord
from engine.store.ledger import LedgerEvent

KILLED, UNTIL = 10_000, 20_000


def fired(name: str, at: int = 0, lag_ms: int = 0) -> LedgerEvent:
    return LedgerEvent(at, "fired", name, None, "http", lag_ms)


def ended(
    name: str, at: int = 0, deliveries: int = 1, outcome: Outcome = Outcome.SUCCEEDED
) -> LedgerEvent:
    nominal_at = int(name.partition("@")[2])
    record = Record(nominal_at, outcome, 1, deliveries, "w", at, 1)
    return LedgerEvent(at, outcome.value, name, record)


def skipped(job_id: str, first_at: int, last_at: int, count: int) -> LedgerEvent:
    record = SkipRecord(first_at, last_at, count, SkipReason.LATE)
    return LedgerEvent(last_at, "skipped", job_id, record)


def account(*events: LedgerEvent, shard: int = 0) -> Account:
    made = Account()
    for event in events:
        made.add(shard, event)
    return made


def test_a_shard_is_well_again_with_its_next_fire_that_is_on_time() -> None:
    made = account(
        fired("a@1", KILLED - 1),
        fired("a@2", KILLED + UNDER_WAY_MS - 1),  # sent before the kill
        fired("a@3", KILLED + 900, ON_TIME_MS + 1),
        fired("a@4", KILLED + 950, ON_TIME_MS),
        fired("a@5", KILLED + 960),
    )
    made.add(1, fired("b@1", KILLED + 400))
    assert made.on_time_again(KILLED, [0, 1]) == [400, 950]
    assert made.on_time_again(KILLED, [1, 0]) == [400, 950]
    assert made.on_time_again(KILLED, [1]) == [400]
    assert made.on_time_ratio == 5 / 6


def test_a_shard_that_is_never_well_again_is_named() -> None:
    made = account(fired("a@1", KILLED - 1), fired("a@2", UNTIL, ON_TIME_MS + 1), shard=3)
    with pytest.raises(RuntimeError, match="shard 3 fired nothing on time any more"):
        made.on_time_again(KILLED, {3})


def test_what_a_killed_worker_held_is_what_ended_with_a_second_delivery() -> None:
    made = account(
        ended("a@1", KILLED + 50),
        ended("a@2", KILLED - 1, deliveries=2),
        ended("a@4", KILLED + 700, deliveries=2),
        ended("a@3", KILLED + 600, deliveries=3),
        ended("a@5", UNTIL, deliveries=2),
    )
    assert made.taken_over_between(KILLED, UNTIL) == [600, 700]


def test_a_time_is_accounted_for_when_it_has_ended_or_was_skipped() -> None:
    made = account(fired("a@10"), ended("a@10"), skipped("a", 20, 40, 3), fired("a@50"))
    assert made.skipped == 3
    made.add(0, ended("a@50", outcome=Outcome.DEAD))
    assert made.lost({"a": range(10, 60, 10)}) == 0


def test_a_time_that_nothing_is_known_of_is_lost() -> None:
    made = account(fired("a@10"), ended("a@10"), skipped("b", 20, 20, 1))
    assert made.lost({"a": range(10, 30, 10), "b": range(20, 30, 10)}) == 1
    assert made.lost({"a": range(0, 20, 10)}) == 1


def test_a_time_that_was_fired_and_never_ended_is_lost() -> None:
    made = account(fired("a@10"), ended("a@10", outcome=Outcome.FAILED))
    assert made.lost({"a": range(10, 20, 10)}) == 1


def test_no_more_calls_than_deliveries_is_no_double() -> None:
    made = account(fired("a@10"), ended("a@10", deliveries=2))
    assert made.doubled(Counter({"a@10": 2})) == 0
    assert made.doubled(Counter({"a@10": 3})) == 1


def test_each_attempt_may_call() -> None:
    made = account(fired("a@10"), ended("a@10", outcome=Outcome.FAILED), ended("a@10"))
    assert made.doubled(Counter({"a@10": 2})) == 0


def test_an_execution_is_doubled_that_was_fired_or_ended_twice_or_called_unknown() -> None:
    assert account(fired("a@10"), fired("a@10"), ended("a@10")).doubled(Counter()) == 1
    assert account(fired("a@10"), ended("a@10"), ended("a@10")).doubled(Counter()) == 1
    assert account().doubled(Counter({"a@10": 1})) == 1
