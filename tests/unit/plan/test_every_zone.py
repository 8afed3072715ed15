"""README's daylight-saving table, for every zone that changes its clock in 2024 to 2030.

The oracle is a wall clock: it walks UTC minute by minute around a change, with zoneinfo alone.
Zones with the same changes are tested once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata

from engine.plan import Plan, parse_schedule
from engine.plan.cron_eval import Gap, Overlap

MINUTE, HOUR, DAY = 60, 3_600, 86_400
FIRST = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
LAST = int(datetime(2031, 1, 1, tzinfo=UTC).timestamp())
AROUND = 5 * HOUR


class Change(NamedTuple):
    """The clock goes from `before` to `after` (seconds east of UTC) at the UTC second `at`."""

    at: int
    before: int
    after: int

    @property
    def width(self) -> int:
        return self.after - self.before


def zone_of(name: str) -> ZoneInfo:
    with files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset(zone: ZoneInfo, at: int) -> int:
    delta = datetime.fromtimestamp(at, zone).utcoffset()
    assert delta is not None
    return int(delta.total_seconds())


def changes(zone: ZoneInfo) -> Iterator[Change]:
    for day in range(FIRST, LAST, DAY):
        before, after = offset(zone, day), offset(zone, day + DAY)
        if before != after:
            at = next(m for m in range(day, day + DAY + 1, MINUTE) if offset(zone, m) != before)
            yield Change(at, before, after)


def all_changes() -> dict[tuple[Change, ...], str]:
    names = files(tzdata).joinpath("zones").read_text("utf-8").split()
    found: dict[tuple[Change, ...], str] = {}
    for name in names:
        if name not in ("localtime", "posixrules", "Factory"):
            found.setdefault(tuple(changes(zone_of(name))), name)
    found.pop((), None)
    return found


def clock(change: Change, at: int) -> int:
    """Return what the clock on the wall shows at a UTC second, as seconds."""
    return at + (change.before if at < change.at else change.after)


def oracle(change: Change, minute_of_day: int, *, is_wildcard: bool) -> list[int]:
    """Return when the clock shows a time of day, or for a fixed time first reaches or passes it."""
    start, end = change.at - AROUND, change.at + AROUND
    highest = clock(change, start) // MINUTE
    found = []
    for at in range(start + MINUTE, end + MINUTE, MINUTE):
        local = clock(change, at) // MINUTE
        shown = [local] if is_wildcard else range(highest + 1, local + 1)
        if any(minute % 1_440 == minute_of_day for minute in shown):
            found.append(at)
        highest = max(highest, local)
    return found


def ours(
    change: Change, name: str, expr: str, gap: Gap = "run_after", overlap: Overlap = "first"
) -> list[int]:
    schedule = parse_schedule(expr, name, now=(change.at - 2 * DAY) * 1_000)
    plan = Plan.of(schedule, dst_gap=gap, dst_overlap=overlap)
    found = []
    at = plan.first_after((change.at - AROUND) * 1_000, 0)
    while at is not None and at <= (change.at + AROUND) * 1_000:
        found.append(at // 1_000)
        at = plan.first_after(at, 0)
    return found


def minutes_around(change: Change) -> list[int]:
    """Minutes of the day around the local times that are left out or come twice."""
    low, high = sorted((change.at + change.before, change.at + change.after))
    middle = (low + high) // 2
    return [m // MINUTE % 1_440 for m in (low - MINUTE, low, middle, high - MINUTE, high)]


def test_every_zone_follows_the_rule_around_every_change() -> None:
    tested = 0
    for rows, name in all_changes().items():
        for change in rows:
            for minute_of_day in minutes_around(change):
                hour, minute = divmod(minute_of_day, 60)
                fixed = ours(change, name, f"{minute} {hour} * * *")
                assert fixed == oracle(change, minute_of_day, is_wildcard=False), (name, change)
                wildcard = ours(change, name, f"*/60 {hour} * * *")
                assert wildcard == oracle(change, hour * 60, is_wildcard=True), (name, change)
                tested += 1
    assert tested > 2_000


def test_the_other_choices_hold_in_every_zone() -> None:
    for rows, name in all_changes().items():
        for change in rows:
            low = change.at + min(change.before, change.after)
            hour, minute = divmod((low + abs(change.width) // 2) // MINUTE % 1_440, 60)
            expr = f"{minute} {hour} * * *"
            if change.width > 0:
                assert ours(change, name, expr) == [change.at], (name, change)
                assert ours(change, name, expr, gap="skip") == [], (name, change)
            else:
                first = ours(change, name, expr)[0]
                second = first + timedelta(seconds=-change.width).seconds
                assert ours(change, name, expr, overlap="second") == [second], (name, change)
                assert ours(change, name, expr, overlap="both") == [first, second], (name, change)
