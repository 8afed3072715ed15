"""Backfills: which past nominal times of a job to run, and what is known of each. Pure.

A backfill walks the nominal times of a range, forwards or backwards, and judges each:

    live             passed over
    held             not fired yet: the schedule, or the end of a pause, decides about it
    succeeded        passed over, unless `reprocess` is `all`
    dead             passed over, unless `reprocess` is `failed` or `all`
    unknown          passed over, unless `reprocess` is `all`
    closed           passed over: a calendar of the job is closed at it
    skipped, or never reached by the schedule or a backfill: run

History is capped. A time that may have run, and whose record may have been pushed out since, is
unknown: the promise not to run it twice counts for more than filling the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import islice, pairwise

from engine.errors import BadInput
from engine.execution import Record, SkipRecord
from engine.plan.calendar import Opening
from engine.plan.rules import Rule

MOST_TIMES = 100_000
LONGEST_RANGE_MS = 10 * 366 * 86_400_000
MOST_CONCURRENT = 100
MOST_RANGES = 50
LOOKS = 100
"""Times that one step judges: a long stretch of old ones costs a bounded time."""
SPAN_MS = 60_000
"""Going backwards, times are found forwards in spans, of this length at first: rules know no way
back that costs as little."""


class Reprocess(StrEnum):
    """Which of the times that have run already are run again."""

    NONE = "none"
    FAILED = "failed"
    ALL = "all"


class BackfillState(StrEnum):
    """`running` until every time was passed and nothing is live, then `done`; or `cancelling` while
    something is live, then `cancelled`."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    DONE = "done"


class Passed(StrEnum):
    """Why a time is passed over."""

    LIVE = "live"
    HELD = "held"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    UNKNOWN = "unknown"
    CLOSED = "closed"


Range = tuple[int, int]
"""First and last nominal time."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for: the times from `from_at` to `to_at`, both included, so many at once."""

    from_at: int
    to_at: int
    reprocess: Reprocess = Reprocess.NONE
    concurrency: int = 1
    backwards: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.from_at <= self.to_at:
            raise BadInput("`from` is after `to`, or before 1970", field="from")
        if self.to_at - self.from_at > LONGEST_RANGE_MS:
            raise BadInput("a backfill covers ten years at the most", field="from")
        if not 1 <= self.concurrency <= MOST_CONCURRENT:
            raise BadInput(f"concurrency is 1 to {MOST_CONCURRENT}", field="concurrency")


@dataclass(frozen=True, slots=True)
class Backfill:
    """A job's newest backfill as it stands."""

    job_id: str
    number: int
    """Which of the job's backfills it is, from 1."""
    order: Order
    plan_id: str
    """The plan at the time of the order: an edit of the job's schedule changes no times."""
    anchor_at: int
    created_at: int
    first_at: int
    """The first nominal time of the range."""
    times: int
    """How many nominal times the range has."""
    covered: tuple[Range, ...]
    """What earlier backfills of the job have passed."""
    state: BackfillState = BackfillState.RUNNING
    next_at: int | None = None
    """The nominal time to judge next; None when all are passed."""
    passed: int = 0
    """Times that were judged, whether started or not."""
    started: int = 0
    live: int = 0
    succeeded: int = 0
    dead: int = 0

    @property
    def is_open(self) -> bool:
        return self.state in (BackfillState.RUNNING, BackfillState.CANCELLING)

    @property
    def may_end(self) -> bool:
        """Whether nothing is left of it."""
        is_over = self.state is BackfillState.CANCELLING or self.next_at is None
        return self.is_open and self.live == 0 and is_over

    @property
    def free(self) -> int:
        """How many executions it may start now."""
        is_running = self.state is BackfillState.RUNNING and self.next_at is not None
        return max(0, self.order.concurrency - self.live) if is_running else 0

    def all_covered(self) -> tuple[Range, ...]:
        """Return what this backfill and the earlier ones have passed."""
        first, last = self.order.from_at, self.order.to_at
        if self.next_at is not None:
            first = self.next_at + 1 if self.order.backwards else first
            last = last if self.order.backwards else self.next_at - 1
        return merge_ranges([*self.covered, *([(first, last)] if first <= last else [])])


@dataclass(frozen=True)
class Known:
    """What is known of a job's nominal times. `records` is its history, newest first."""

    created_at: int
    next_nominal_at: int | None
    live: frozenset[int]
    """Also what waits for an older execution to end."""
    covered: tuple[Range, ...]
    records: Sequence[Record | SkipRecord]
    opening: Opening | None = None
    """When the job's calendars are open, if it has any."""

    def judge(self, at: int, reprocess: Reprocess) -> int | Passed:
        """Return which attempt of a nominal time to make, counted on from its last, or why none."""
        verdict = self._judge_open(at, reprocess)
        if isinstance(verdict, Passed) or self.opening is None:
            return verdict
        return Passed.CLOSED if self.opening.closed_by(at) else verdict

    def _judge_open(self, at: int, reprocess: Reprocess) -> int | Passed:
        if at in self.live:
            return Passed.LIVE
        if self.next_nominal_at is not None and at >= self.next_nominal_at:
            return Passed.HELD
        if found := self._newest_attempts.get(at):
            return self._judge_record(*found, reprocess)
        if self._may_have_run(at) and reprocess is not Reprocess.ALL:
            return Passed.UNKNOWN
        return 1

    @cached_property
    def _newest_attempts(self) -> dict[int, tuple[int, Record]]:
        """Return by nominal time the newest record of an attempt, and its place in the history."""
        found: dict[int, tuple[int, Record]] = {}
        for place, record in enumerate(self.records):
            if isinstance(record, Record):
                found.setdefault(record.nominal_at, (place, record))
        return found

    def _judge_record(self, place: int, record: Record, reprocess: Reprocess) -> int | Passed:
        again = record.attempt + 1
        if self._is_skipped(record.nominal_at, self.records[:place]):
            return again
        if record.outcome == "succeeded":
            return again if reprocess is Reprocess.ALL else Passed.SUCCEEDED
        return Passed.DEAD if reprocess is Reprocess.NONE else again

    @cached_property
    def _horizon(self) -> int:
        """Return the time up to which a record may have been pushed out of the history.

        That is when the oldest one that is left was written. Records of skipped times do not say
        when they were, and neither was later than the next record of an attempt.
        """
        horizon = -1
        for record in reversed(self.records):
            if isinstance(record, Record):
                ended_at = record.started_at + record.duration_ms
                return max(horizon, record.nominal_at, ended_at)
            horizon = max(horizon, record.last_at)
        return horizon

    def _may_have_run(self, at: int) -> bool:
        reached = at >= self.created_at or any(first <= at <= last for first, last in self.covered)
        return reached and at <= self._horizon and not self._is_skipped(at, self.records)

    def _is_skipped(self, at: int, records: Iterable[Record | SkipRecord]) -> bool:
        return any(isinstance(r, SkipRecord) and r.first_at <= at <= r.last_at for r in records)


@dataclass(frozen=True, slots=True)
class Batch:
    """Times with the attempt to make, or None to pass them over; and the time that follows."""

    times: list[tuple[int, int | None]]
    next_at: int | None


def nominal_times(rule: Rule, anchor_at: int, order: Order) -> list[int]:
    """Return the nominal times of a range, in the order in which they will be run.

    Refuses with BadInput a range without any, or with more than `MOST_TIMES`.
    """
    times: list[int] = []
    for at in _times_within(rule, order.from_at, order.to_at + 1, anchor_at):
        if len(times) == MOST_TIMES:
            count, is_exact = rule.count(times[0], rule.latest(times[0], order.to_at))
            told = f"{count:,}" if is_exact else f"more than {MOST_TIMES:,}"
            raise BadInput(
                f"the range has {told} nominal times; a backfill takes {MOST_TIMES:,} at the most",
                field="from",
            )
        times.append(at)
    if not times:
        raise BadInput("the schedule has no time in this range", field="from")
    return times[::-1] if order.backwards else times


def propose_batch(rule: Rule, backfill: Backfill, known: Known, most: int) -> Batch:
    """Return the next times of a backfill, judged: `LOOKS` at the most, and `most` to start."""
    times: list[tuple[int, int | None]] = []
    starts = 0
    for at in _walk(rule, backfill):
        if len(times) == LOOKS or starts == most:
            return Batch(times, at)
        judged = known.judge(at, backfill.order.reprocess)
        attempt = None if isinstance(judged, Passed) else judged
        times.append((at, attempt))
        starts += attempt is not None
    return Batch(times, None)


def _walk(rule: Rule, backfill: Backfill) -> Iterator[int]:
    """Yield the times of a backfill from the next one on, in its direction."""
    if backfill.next_at is None:
        return
    order, first, anchor_at = backfill.order, backfill.first_at, backfill.anchor_at
    if not order.backwards:
        yield from _times_within(rule, backfill.next_at, order.to_at + 1, anchor_at)
        return
    until, span_ms = backfill.next_at + 1, SPAN_MS
    while until > first:
        start = max(first, until - span_ms)
        found = list(islice(_times_within(rule, start, until, anchor_at), LOOKS + 1))
        if len(found) > LOOKS and span_ms > 1:
            span_ms //= 2
            continue
        yield from reversed(found)
        until, span_ms = start, span_ms if found else 4 * span_ms


def _times_within(rule: Rule, start: int, end: int, anchor_at: int) -> Iterator[int]:
    """Yield the times from `start` up to but not including `end`."""
    at = rule.first_after(start - 1, anchor_at)
    while at is not None and at < end:
        yield at
        at = rule.first_after(at, anchor_at)


def merge_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges in order, those that touch made one. Of more than `MOST_RANGES` the nearest
    are joined: what lies between then counts as passed."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    while len(merged) > MOST_RANGES:
        gaps = [after[0] - before[1] for before, after in pairwise(merged)]
        at = gaps.index(min(gaps))
        merged[at : at + 2] = [(merged[at][0], merged[at + 1][1])]
    return tuple(merged)
