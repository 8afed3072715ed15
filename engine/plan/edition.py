"""A new edition of the zone database: what becomes of next times that the one before gave. Pure.

A time in local terms has an *image*: the instant at which the clocks of the new edition show what
those of the old one showed. Of a job that is due next at N, all times that the clock showed before
N were dealt with, so the first of its times from the image of N on is the next one:

    in the future            it fires then. What has fired already and would come once more, since
                             the clock was put back, lies before it
    in the past by now       it has not fired: it is late, and goes by the misfire policy

Whether N is of the old edition or of the new one (which other processes may have had before), its
job does not say. Where N is one of its times under the new rules, it stays, unless a time that is
still to come has slipped in before it. So whoever looks a second time changes nothing; the price is
that of times in a row (`0 9-17 * * *`), of which one becomes the next, one may fire less or more on
the day on which a change comes late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.plan.calendar import DAY_MS, NO_CALENDARS, Calendars, Opening
from engine.plan.plan import Plan
from engine.plan.zones import Zone, load_zone


@dataclass(frozen=True, slots=True)
class Moved:
    """The next nominal time under the new rules; it may have passed, and None is no time."""

    next_at: int | None
    is_lost: bool
    """Whether the old time does not fire at all: it has passed, and may not be made up for."""


class Edition:
    """The rules of all zones in one edition of the database."""

    def __init__(self, rules: Mapping[str, bytes]) -> None:
        self._rules = rules
        self._zones: dict[str, Zone] = {}

    def changed(self, rules: Mapping[str, bytes]) -> frozenset[str]:
        """Return the zones of this edition that have other rules in another one."""
        return frozenset(
            name for name, own in self._rules.items() if name in rules and rules[name] != own
        )

    def zone(self, name: str) -> Zone:
        """Return a zone as it is in this edition; one that it does not know as it is now."""
        if name not in self._rules:
            return load_zone(name)
        zone = self._zones.get(name)
        if zone is None:
            zone = self._zones[name] = Zone(name, self._rules[name])
        return zone


def replan(
    plan: Plan, next_at: int, now: int, before: Edition, calendars: Calendars = NO_CALENDARS
) -> Moved | None:
    """Return where the next nominal time of a plan goes that `before` may have given, None if it
    stays.

    The zones of a joined plan may move by different amounts. Times between then are some of those
    that have fired, so nothing of it goes into the past: what would is lost.
    """
    pairs = [(before.zone(name), load_zone(name)) for name in plan.zones]
    second = next_at // 1000
    if all(old.segment(second) == new.segment(second) for old, new in pairs):
        return None
    images = {_image(old, new, next_at) for old, new in pairs}
    rule = plan.rule_under(calendars)
    is_known = rule.first_after(next_at - 1, next_at) == next_at
    first = min(images)
    if is_known or len(images) > 1:
        first = max(first, now + 1)
    at = rule.first_after(first - 1, next_at)
    if is_known and (at is None or at >= next_at):
        return None
    return Moved(at, is_lost=not is_known and len(images) > 1 and min(images) <= now)


def _image(old: Zone, new: Zone, at: int) -> int:
    """Return when the clock shows by the new rules what it showed by the old ones. What comes twice
    is the first of the two; what is left out is the first instant after the gap."""
    segment = old.segment(at // 1000)
    # A time in a gap fires right after it, and the gap may be gone.
    is_after_gap = at == segment.start * 1000 and segment.before < segment.offset
    shown = at + 1000 * (segment.before if is_after_gap else segment.offset)
    return Opening((), new.name).instant_of(*divmod(shown, DAY_MS))
