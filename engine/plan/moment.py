"""A nominal time as the clock on the wall shows it, and what daylight saving does to it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from engine.plan.cron_eval import LocalTimes
from engine.plan.dialects import DIALECTS, Context, Reading
from engine.plan.plan import Plan
from engine.plan.zones import Segment, load_zone

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Moment:
    """One nominal time in its zone."""

    at: int
    local: datetime
    """With its UTC offset, and the zone's abbreviation as `%Z`."""
    dst: str | None
    """`gap: …` or `overlap: …`, where the clock skips or repeats this time."""


def moment_of(plan: Plan, at: int, timezone: str | None = None) -> Moment:
    """Return a nominal time of `plan` in the plan's own zone, or in `timezone`."""
    zone = load_zone(timezone or plan.timezone)
    second = at // 1000
    local = zone.local(second).replace(microsecond=at % 1000 * 1000)
    segment, clock = zone.segment(second), f"{local:%H:%M}"
    dst = None
    if second < segment.start + segment.before - segment.offset:
        dst = f"overlap: {clock} comes twice on {local:%Y-%m-%d}; this is the second time"
    elif second >= segment.end - segment.offset + segment.after:
        dst = f"overlap: {clock} comes twice on {local:%Y-%m-%d}; this is the first time"
    elif second == segment.start and (skipped := skipped_time(plan, at)):
        dst = f"gap: {skipped} does not exist on {local:%Y-%m-%d}; it fires at {clock} instead"
    return Moment(at, local, dst)


def skipped_time(plan: Plan, at: int) -> str | None:
    """Return the local time `HH:MM` of the plan that the clock skips at `at`, or None.

    That is so from the instant at which the clock jumps for as long as the jump is: 02:30 of a
    skipped hour from two to three is asked for as 03:30, or as 03:00, where it fires.
    """
    segment = load_zone(plan.timezone).segment(at // 1000)
    jump, second = segment.offset - segment.before, at // 1000
    if not segment.start <= second < segment.start + jump:
        return None
    opens = segment.start + segment.before
    asked = second + segment.before
    found = _local_time(plan, opens if second == segment.start else asked, opens + jump)
    if found is None or (second > segment.start and found != asked):
        return None
    return f"{datetime(1970, 1, 1) + timedelta(seconds=found):%H:%M}"  # noqa: DTZ001


def repeated_time(plan: Plan, at: int) -> bool:
    """Return whether the clock shows a local time of the plan at `at` that comes twice."""
    second = at // 1000
    segment = load_zone(plan.timezone).segment(second)
    local = second + segment.offset
    return _is_repeated(segment, second) and _local_time(plan, local, local + 1) == local


def _is_repeated(segment: Segment, second: int) -> bool:
    return (
        second < segment.start + segment.before - segment.offset
        or second >= segment.end - segment.offset + segment.after
    )


def _local_time(plan: Plan, first: int, end: int) -> int | None:
    """Return the first local second that the plan's expression matches from `first` to `end`."""
    times = _times(plan)
    found = None if times is None else times.first_from(first, end // _DAY)
    return found if found is not None and found < end else None


def _times(plan: Plan) -> LocalTimes | None:
    if plan.kind != "cron":
        return None
    reading = DIALECTS[plan.dialect].parse(plan.expr, Context(plan.timezone))
    return reading.times if isinstance(reading, Reading) else None
