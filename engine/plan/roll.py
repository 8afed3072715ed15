"""Rolling: the times of a closed date move to the next or the previous business day. Pure.

A time keeps its time of day. Several that fall on one instant are one. Where no business day lies
within MOST_DAYS the time stays where it is, closed, to be skipped with the calendar's name. Hours
do not roll: a time outside them is as closed on any other day.

`target(day)` never goes back as `day` goes on, so the days that roll to one target are neighbours,
and the next time is found on one or two targets.
"""

from __future__ import annotations

from typing import Literal

from engine.plan.calendar import Opening
from engine.plan.rules import Rule, WalkedRule

Roll = Literal["skip", "next_business_day", "previous_business_day"]
MOST_DAYS = 31


class RolledRule(WalkedRule):
    """Another rule's times, those of closed dates moved. Days count from 1970-01-01."""

    def __init__(self, rule: Rule, opening: Opening, roll: Roll) -> None:
        self._rule = rule
        self._opening = opening
        self._step = 1 if roll == "next_business_day" else -1

    def first_after(self, after: int, anchor: int) -> int | None:
        target = self.target(self._opening.local(after)[0])
        while True:
            sources = self.sources(target)
            found = (self._first_moved(source, target, after, anchor) for source in sources)
            if times := [at for at in found if at is not None]:
                return min(times)
            end = self._opening.instant_of(sources[-1] + 1, 0)
            at = self._rule.first_after(end - 1, anchor)
            if at is None:
                return None
            target = self.target(self._opening.local(at)[0])

    def target(self, day: int) -> int:
        """Return the day that the times of `day` move to, often itself."""
        for distance in range(MOST_DAYS + 1):
            candidate = day + self._step * distance
            if self._opening.is_business_day(candidate):
                return candidate
        return day

    def sources(self, target: int) -> list[int]:
        """Return the days whose times move to `target` or are there anyway, in order."""
        days = [target]
        if self._opening.is_business_day(target):
            while len(days) <= MOST_DAYS:
                day = days[-1] - self._step
                if self._opening.is_business_day(day):
                    break
                days.append(day)
        return sorted(days)

    def _first_moved(self, source: int, target: int, after: int, anchor: int) -> int | None:
        """Return the first time of `source`, seen at `target`, that is after `after`."""
        opening = self._opening
        day, within = opening.local(after)
        if day > target:
            return None
        if source == target:
            begin = max(after, opening.instant_of(source, 0) - 1)
        else:
            begin = opening.instant_of(source, within if day == target else 0) - 1
        while (at := self._rule.first_after(begin, anchor)) is not None:
            at_day, at_within = opening.local(at)
            if at_day != source:
                return None
            moved = at if source == target else opening.instant_of(target, at_within)
            if moved > after:
                return moved
            begin = at
        return None
