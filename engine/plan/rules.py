"""The times of a plan, by kind: what comes next, what was the latest, how many lie between.

All times are ms. `anchor` is any nominal time of the job (see plan.py).
"""

from __future__ import annotations

from typing import Protocol

from engine.plan.cron_eval import first_after
from engine.plan.cron_parse import parse_cron
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


class CronRule:
    def __init__(self, expr: str, timezone: str) -> None:
        self._fields = parse_cron(expr)
        self._dst = self._fields.dst
        self._zone = load_zone(timezone)

    def first_after(self, after: int, anchor: int) -> int | None:
        at = first_after(self._fields, self._zone, self._dst, after // 1000)
        return None if at is None else at * 1000

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
    """The time of creation: due at once, and never to come."""

    def first_after(self, after: int, anchor: int) -> int | None:
        return None
