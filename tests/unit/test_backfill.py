"""Backfills, the pure part: which times there are, and what is done about each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from filling import CREATED, ended, order, times
from seeding import EVERY_MINUTE, MINUTE, NOW

from engine.backfill import (
    LOOKS,
    MOST_RANGES,
    MOST_TIMES,
    Backfill,
    BackfillState,
    Batch,
    Known,
    Order,
    Passed,
    Reprocess,
    merge_ranges,
    nominal_times,
    propose_batch,
)
from engine.errors import BadInput
from engine.execution import Outcome, Record, SkipReason, SkipRecord
from engine.plan import Cron, Every, Immediate, Plan
from engine.plan.calendar import Calendar, Opening
from engine.plan.rules import Rule

NOTHING = Known(CREATED, None, frozenset(), (), [])
DAY = 86_400_000


def known(*records: Record | SkipRecord) -> Known:
    """Return what a history says, given oldest first."""
    return replace(NOTHING, records=records[::-1])


def skipped(first: int, last: int, reason: SkipReason = SkipReason.LATE) -> SkipRecord:
    return SkipRecord(NOW + first * MINUTE, NOW + last * MINUTE, last - first + 1, reason)


def judged(what: Known, minute: int) -> list[int | Passed]:
    """Return the judgement of a minute for each kind of reprocessing: none, failed, all."""
    return [what.judge(NOW + minute * MINUTE, reprocess) for reprocess in Reprocess]


def test_a_time_that_succeeded_is_run_again_only_if_all_are() -> None:
    assert judged(known(ended(-5)), -5) == [Passed.SUCCEEDED, Passed.SUCCEEDED, 2]


def test_a_dead_time_is_run_again_if_failed_ones_are_and_counts_its_attempts_on() -> None:
    history = known(ended(-5, Outcome.FAILED), ended(-5, Outcome.FAILED, 2))
    history = replace(history, records=[ended(-5, Outcome.DEAD, 3), *history.records])
    assert judged(history, -5) == [Passed.DEAD, 4, 4]


def test_the_newest_record_of_a_time_counts() -> None:
    assert judged(known(ended(-5, Outcome.DEAD), ended(-5, attempt=2)), -5)[1] is Passed.SUCCEEDED


def test_a_skipped_time_is_run() -> None:
    assert judged(known(skipped(-9, -3), ended(-2)), -5) == [1, 1, 1]


def test_a_time_that_was_skipped_after_an_attempt_is_run_again_under_the_next_one() -> None:
    replaced = skipped(-5, -5, SkipReason.REPLACED)
    assert judged(known(ended(-5, Outcome.FAILED), replaced), -5) == [2, 2, 2]


def test_a_time_before_the_jobs_creation_is_run() -> None:
    assert judged(known(ended(-2)), -61) == [1, 1, 1]


def test_a_time_whose_record_may_have_been_pushed_out_is_unknown() -> None:
    assert judged(known(ended(-5)), -6) == [Passed.UNKNOWN, Passed.UNKNOWN, 1]


def test_a_time_after_the_oldest_record_was_written_is_not_unknown() -> None:
    assert judged(known(ended(-5)), -4) == [1, 1, 1]


def test_a_record_that_was_written_late_leaves_the_times_before_that_unknown() -> None:
    slow = replace(ended(-5), duration_ms=3 * MINUTE)
    assert [judged(known(slow), minute)[0] for minute in (-4, -2, -1)] == [
        Passed.UNKNOWN,
        Passed.UNKNOWN,
        1,
    ]


def test_when_a_time_was_skipped_is_bounded_by_the_next_attempts_record() -> None:
    assert judged(known(skipped(-9, -8), ended(-3)), -5)[0] is Passed.UNKNOWN
    assert judged(known(skipped(-9, -8)), -5)[0] == 1


def test_a_job_without_history_has_run_nothing() -> None:
    assert judged(NOTHING, -5) == [1, 1, 1]


def test_a_time_that_an_earlier_backfill_passed_may_have_run() -> None:
    covered = replace(known(ended(-2)), covered=((NOW - 70 * MINUTE, NOW - 65 * MINUTE),))
    assert judged(covered, -66) == [Passed.UNKNOWN, Passed.UNKNOWN, 1]
    assert judged(covered, -64) == [1, 1, 1]


def test_a_live_time_is_passed_over_whatever_is_reprocessed() -> None:
    live = replace(known(ended(-5, Outcome.FAILED)), live=frozenset(times(-5, -5)))
    assert judged(live, -5) == [Passed.LIVE] * 3


def test_a_time_that_the_schedule_still_holds_is_passed_over() -> None:
    held = replace(NOTHING, next_nominal_at=NOW - 5 * MINUTE)
    assert judged(held, -5) == [Passed.HELD] * 3
    assert judged(held, -6) == [1, 1, 1]


def test_a_time_at_which_a_calendar_is_closed_is_passed_over() -> None:
    never = Calendar("never", weekdays=frozenset())
    closed = replace(known(ended(-2)), opening=Opening((never,), "UTC"))
    assert judged(closed, -61) == [Passed.CLOSED] * 3
    assert judged(closed, -2) == [Passed.SUCCEEDED, Passed.SUCCEEDED, Passed.CLOSED]
    always = Calendar("always")
    assert judged(replace(closed, opening=Opening((always,), "UTC")), -61) == [1, 1, 1]


def test_the_times_of_a_range_include_both_ends() -> None:
    assert nominal_times(EVERY_MINUTE.rule, NOW, order(-3, 0)) == times(-3, 0)


def test_backwards_the_latest_time_comes_first() -> None:
    assert nominal_times(EVERY_MINUTE.rule, NOW, order(-3, 0, backwards=True)) == times(-3, 0)[::-1]


def test_a_range_without_times_is_refused() -> None:
    with pytest.raises(BadInput, match="no time in this range"):
        nominal_times(Plan.of(Immediate()).rule, NOW, order(-3, 0))


@pytest.mark.parametrize(
    ("plan", "told"),
    [(Plan.of(Every(1_000)), "864,001"), (Plan.of(Cron("* * * * *", "UTC")), "more than 100,000")],
)
def test_a_range_with_too_many_times_is_refused_with_their_number(plan: Plan, told: str) -> None:
    days = 10 if plan.kind == "every" else 100
    with pytest.raises(BadInput, match=told):
        nominal_times(plan.rule, NOW, Order(NOW - days * DAY, NOW))


@pytest.mark.parametrize("backwards", [False, True])
def test_as_many_times_as_are_taken_are_taken(backwards: bool) -> None:
    most = Order(NOW - (MOST_TIMES - 1) * 1_000, NOW, backwards=backwards)
    assert len(nominal_times(Plan.of(Every(1_000)).rule, NOW, most)) == MOST_TIMES


@pytest.mark.parametrize(
    ("first", "last", "concurrency", "field"),
    [
        (2, 1, 1, "from"),
        (-1, 1, 1, "from"),
        (0, 11 * 366 * DAY, 1, "from"),
        (0, 1, 0, "concurrency"),
        (0, 1, 101, "concurrency"),
    ],
)
def test_an_order_that_cannot_be_is_refused(
    first: int, last: int, concurrency: int, field: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        Order(first, last, concurrency=concurrency)
    assert refusal.value.field == field


def backfill(asked: Order, next_at: int | None) -> Backfill:
    return Backfill("job-0", 1, asked, "p", NOW, NOW, asked.from_at, 9, (), next_at=next_at)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_batch_ends_where_enough_is_started_and_names_what_follows(backwards: bool) -> None:
    asked = order(-9, 0, backwards=backwards)
    wanted = times(-9, 0)[:: -1 if backwards else 1]
    batch = propose_batch(EVERY_MINUTE.rule, backfill(asked, wanted[0]), NOTHING, 3)
    assert batch == Batch([(at, 1) for at in wanted[:3]], wanted[3])


@pytest.mark.parametrize("backwards", [False, True])
def test_the_last_batch_has_nothing_after_it(backwards: bool) -> None:
    asked = order(-9, 0, backwards=backwards)
    wanted = times(-9, 0)[:: -1 if backwards else 1]
    batch = propose_batch(EVERY_MINUTE.rule, backfill(asked, wanted[7]), NOTHING, 9)
    assert batch == Batch([(at, 1) for at in wanted[7:]], None)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        Plan.of(Every(1_000)).rule,
        Plan.of(Every(37 * DAY)).rule,
        Plan.of(Cron("*/7 1,2 * * *", "America/New_York")).rule,
        Plan.of(Cron("* 0 1 */3 *", "Europe/Berlin")).rule,
    ],
)
def test_batches_walk_all_times_of_a_range_in_either_direction(rule: Rule, backwards: bool) -> None:
    span_ms = 1_000_000 if rule.count(NOW, NOW + DAY)[0] > 1_000 else 400 * DAY
    asked = Order(NOW - span_ms, NOW, backwards=backwards)
    wanted = nominal_times(rule, NOW, asked)
    walked: list[int] = []
    at: int | None = wanted[0]
    first_at = min(wanted[0], wanted[-1])
    while at is not None:
        begun = replace(backfill(asked, at), first_at=first_at)
        batch = propose_batch(rule, begun, NOTHING, 30)
        walked += [at for at, _ in batch.times]
        at = batch.next_at
    assert walked == wanted


def test_a_long_stretch_of_old_times_is_passed_a_part_at_a_time() -> None:
    asked = order(-500, 0)
    live = replace(NOTHING, live=frozenset(times(-500, 0)))
    batch = propose_batch(EVERY_MINUTE.rule, backfill(asked, asked.from_at), live, 3)
    assert batch.times == [(at, None) for at in times(-500, -501 + LOOKS)]
    assert batch.next_at == NOW + (LOOKS - 500) * MINUTE


@pytest.mark.parametrize(
    ("backwards", "next_minute", "covered"),
    [
        (False, None, (-9, 0)),
        (True, None, (-9, 0)),
        (False, -5, (-9, -5)),
        (True, -5, (-5, 0)),
    ],
)
def test_what_a_backfill_passed_is_covered(
    backwards: bool, next_minute: int | None, covered: tuple[int, int]
) -> None:
    next_at = None if next_minute is None else NOW + next_minute * MINUTE
    found = backfill(order(-9, 0, backwards=backwards), next_at).all_covered()
    first, last = (NOW + minute * MINUTE for minute in covered)
    if next_at is not None:
        first, last = (first + 1, last) if backwards else (first, last - 1)
    assert found == ((first, last),)


def test_a_backfill_that_passed_nothing_covers_nothing() -> None:
    asked = order(-9, 0)
    assert backfill(asked, asked.from_at).all_covered() == ()


@pytest.mark.parametrize(
    ("ranges", "merged"),
    [
        ([], ()),
        ([(5, 6), (1, 2)], ((1, 2), (5, 6))),
        ([(1, 3), (2, 5), (6, 7)], ((1, 7),)),
        ([(1, 9), (2, 3)], ((1, 9),)),
    ],
)
def test_ranges_that_touch_are_one(
    ranges: list[tuple[int, int]], merged: tuple[tuple[int, int], ...]
) -> None:
    assert merge_ranges(ranges) == merged


def test_of_too_many_ranges_the_nearest_are_joined() -> None:
    ranges = [(n * 100, n * 100 + 1) for n in range(MOST_RANGES)]
    assert merge_ranges([*ranges, (350, 351)]) == (*ranges[:3], (300, 351), *ranges[4:])


@pytest.mark.parametrize(
    ("state", "next_at", "live", "free", "may_end"),
    [
        (BackfillState.RUNNING, NOW, 1, 1, False),
        (BackfillState.RUNNING, NOW, 2, 0, False),
        (BackfillState.RUNNING, None, 1, 0, False),
        (BackfillState.RUNNING, None, 0, 0, True),
        (BackfillState.CANCELLING, NOW, 1, 0, False),
        (BackfillState.CANCELLING, NOW, 0, 0, True),
        (BackfillState.DONE, None, 0, 0, False),
    ],
)
def test_a_backfill_starts_while_it_runs_and_ends_when_nothing_is_left(
    state: BackfillState, next_at: int | None, live: int, free: int, may_end: bool
) -> None:
    asked = order(-9, 0, concurrency=2)
    found = replace(backfill(asked, next_at), state=state, live=live)
    assert (found.free, found.may_end) == (free, may_end)
