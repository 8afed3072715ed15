"""The times of a plan, by kind: what comes next, what was the latest, how many lie between.

All times are ms. `anchor` is any nominal time of the job (see plan.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.plan.cron_eval import WILDCARD, DstRule, LocalTimes, first_after
from engine.plan.zones import load_zone

COUNT_CAP = 1000
"""Cron times are counted one by one, up to here."""


class Rule(Protocol):
    def first_after(self, after: int, anchor: int) -> int | None:
        """Return the first nominal time strictly after `after`."""

    def latest(self, first: int, until: int) -> int:
        """Return the latest nominal time up to and including `until`, given that `first` is one.

        `first` is at most `until`.
        """

    def count(self, first: int, last: int) -> tuple[int, bool]:
        """Return how many nominal times lie from `first` to `last`, both of which are ones.

        The second value is False if counting stopped early, at COUNT_CAP.
        """


class BoundedRule:
    """Another rule's times from `start_at` to `end_at`, both included; None is no bound."""

    def __init__(self, rule: Rule, start_at: int | None, end_at: int | None) -> None:
        self._rule = rule
        self._start_at = start_at
        self._end_at = end_at

    def first_after(self, after: int, anchor: int) -> int | None:
        if self._start_at is not None:
            after = max(after, self._start_at - 1)
        at = self._rule.first_after(after, anchor)
        return None if at is None or self._is_past(at) else at

    def latest(self, first: int, until: int) -> int:
        return self._rule.latest(first, until if self._end_at is None else min(until, self._end_at))

    def count(self, first: int, last: int) -> tuple[int, bool]:
        return self._rule.count(first, last)

    def _is_past(self, at: int) -> bool:
        return self._end_at is not None and at > self._end_at


class WalkedRule:
    """What can be told of a rule from its `first_after` alone."""

    def first_after(self, after: int, anchor: int) -> int | None:
        raise NotImplementedError

    def latest(self, first: int, until: int) -> int:
        # Bisection: `found` is always a nominal time, and none lies past `bound`. Some 40 steps
        # for years of downtime, however often the job would have fired in them.
        found, bound = first, until
        while found < bound:
            middle = (found + bound) // 2
            at = self.first_after(middle, first)
            if at is not None and at <= bound:
                found = at
            else:
                bound = middle
        return found

    def count(self, first: int, last: int) -> tuple[int, bool]:
        counted, at = 1, first
        while at < last:
            if counted == COUNT_CAP:
                return counted, False
            at = self.first_after(at, first) or last
            counted += 1
        return counted, True


class CronRule(WalkedRule):
    """Local times in a zone. `dst` is for fixed-time jobs; wildcard jobs follow elapsed time."""

    def __init__(self, times: LocalTimes, timezone: str, dst: DstRule) -> None:
        self._times = times
        self._dst = WILDCARD if times.wildcard else dst
        self._zone = load_zone(timezone)

    def first_after(self, after: int, anchor: int) -> int | None:
        fraction_ms = self._times.fraction_ms
        at = first_after(self._times, self._zone, self._dst, (after - fraction_ms) // 1000)
        return None if at is None else at * 1000 + fraction_ms


class UnionRule(WalkedRule):
    """The times of several rules, each instant once. Every rule comes with an anchor of its own."""

    def __init__(self, parts: Sequence[tuple[Rule, int]]) -> None:
        self._parts = parts

    def first_after(self, after: int, anchor: int) -> int | None:
        found = (rule.first_after(after, own) for rule, own in self._parts)
        return min((at for at in found if at is not None), default=None)


class EveryRule:
    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms

    def first_after(self, after: int, anchor: int) -> int | None:
        return after + self._interval_ms - (after - anchor) % self._interval_ms

    def latest(self, first: int, until: int) -> int:
        return until - (until - first) % self._interval_ms

    def count(self, first: int, last: int) -> tuple[int, bool]:
        return (last - first) // self._interval_ms + 1, True


class OnceRule:
    """One time, which is the anchor."""

    def first_after(self, after: int, anchor: int) -> int | None:
        return anchor if anchor > after else None

    def latest(self, first: int, until: int) -> int:
        return first

    def count(self, first: int, last: int) -> tuple[int, bool]:
        return 1, True


class ImmediateRule(OnceRule):
    """A time that is there at once and never to come: that of creation, or of a start of the
    deployment."""

    def first_after(self, after: int, anchor: int) -> int | None:
        return None
