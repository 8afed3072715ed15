"""Calendars: named sets of dates, weekdays and hours, and whether an instant is open in them. Pure.

A calendar is shared data that changes; a plan only names it. So whoever asks brings a snapshot
(`Calendars`). An instant is open for a plan if every calendar that the plan names is open at it,
and an instant is open in a calendar if

    its date is in `include`, or it is not in `exclude` and its weekday is in `weekdays`
    and, where there are `hours`, its time of day lies in one of them

in the calendar's zone, or else the plan's. A calendar of included dates alone has no weekdays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, TypeVar

from engine.errors import BadInput
from engine.plan.zones import Zone, load_zone

DAY_MS = 86_400_000
MINUTES_A_DAY = 1440
MOST_DATES = 10_000
MOST_HOURS = 48
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

T = TypeVar("T")

_FIELDS = {
    "timezone": "Europe/Berlin",
    "weekdays": "MO",
    "hours": "09:00-17:30",
    "exclude": "2026-12-25",
    "include": "2026-12-25",
}
"""The fields of a calendar in JSON, and how what they hold is written."""
_SPAN = re.compile(r"([01]\d|2[0-4]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EPOCH = date(1970, 1, 1).toordinal()
_FAR = 2**62


@dataclass(frozen=True, slots=True)
class Stretch:
    """Instants from `start` up to but not including `end`, all open or all closed alike."""

    start: int
    end: int
    closed_by: str | None
    """The calendar that closes them; None while they are open."""


_ALWAYS = Stretch(-_FAR, _FAR, None)


def check_calendar_name(name: str, field: str = "name") -> str:
    """Return the name. Refuses with BadInput what cannot name a calendar."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            "a calendar's name is 1 to 64 characters from A–Z a–z 0–9 . _ - and begins with a"
            " letter or digit",
            field=field,
        )
    return name


@dataclass(frozen=True)
class Calendar:
    """One calendar. Refuses with BadInput, naming the field, what it cannot be."""

    name: str
    version: int = 0
    """Grows with every change; 0 for one that is not stored."""
    timezone: str | None = None
    weekdays: frozenset[int] = frozenset(range(7))
    """The weekdays that are open, 0 = Monday."""
    hours: tuple[tuple[int, int], ...] = ()
    """Open times of day in order, `(start, end)` in minutes, without the end; empty is all day."""
    exclude: frozenset[date] = frozenset()
    include: frozenset[date] = frozenset()

    def __post_init__(self) -> None:
        check_calendar_name(self.name)
        if self.timezone is not None:
            load_zone(self.timezone)
        if not self.weekdays <= frozenset(range(7)):
            raise BadInput("weekdays are 0 (Monday) to 6", field="weekdays")
        if len(self.hours) > MOST_HOURS:
            raise BadInput(f"{MOST_HOURS} spans of hours at the most", field="hours")
        free_from = 0
        for start, end in self.hours:
            if not free_from <= start < end <= MINUTES_A_DAY:
                raise BadInput(
                    "hours are spans of one day, 00:00 to 24:00, in order and apart; write two for"
                    " one that passes midnight",
                    field="hours",
                )
            free_from = end
        for name in ("exclude", "include"):
            if len(getattr(self, name)) > MOST_DATES:
                raise BadInput(f"{MOST_DATES} dates at the most", field=name)

    @classmethod
    def from_dict(cls, name: str, fields: Mapping[str, Any], version: int = 0) -> Calendar:
        """Return the calendar of a JSON object, as `to_dict` writes it; what is left out has its
        default. Refuses with BadInput, naming the field, what is wrong in it."""
        if unknown := [given for given in fields if given not in _FIELDS]:
            raise BadInput(f"a calendar has no field {unknown[0][:40]!r}", field=unknown[0][:40])
        zone = fields.get("timezone")
        if not isinstance(zone, str | None):
            raise BadInput("a timezone is a text", field="timezone")
        return cls(
            name,
            version,
            zone,
            frozenset(_texts(fields, "weekdays", WEEKDAYS, _weekday)),
            tuple(sorted(_texts(fields, "hours", (), _span))),
            frozenset(_texts(fields, "exclude", (), date.fromisoformat)),
            frozenset(_texts(fields, "include", (), date.fromisoformat)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a calendar says, without name and version, as JSON has it."""
        return {
            "timezone": self.timezone,
            "weekdays": [WEEKDAYS[day] for day in sorted(self.weekdays)],
            "hours": [f"{_clock(start)}-{_clock(end)}" for start, end in self.hours],
            "exclude": [day.isoformat() for day in sorted(self.exclude)],
            "include": [day.isoformat() for day in sorted(self.include)],
        }

    def has_date(self, day: date) -> bool:
        """Return whether a date is open, whatever the hours: a business day."""
        return day in self.include or (day not in self.exclude and day.weekday() in self.weekdays)

    def stretch(self, at: int, timezone: str) -> Stretch:
        """Return what holds at an instant, and how long: part of one local day at the most."""
        segment = load_zone(self.timezone or timezone).segment(at // 1000)
        day, within = divmod(at + segment.offset * 1000, DAY_MS)
        start, end, is_open = self._part_of_day(day, within)
        return Stretch(
            max(at - within + start, segment.start * 1000),
            min(at - within + end, segment.end * 1000),
            None if is_open else self.name,
        )

    def _part_of_day(self, day: int, within: int) -> tuple[int, int, bool]:
        """Return the ms of the local day between which nothing changes, and whether it is open."""
        if not self.has_date(date.fromordinal(day + _EPOCH)):
            return 0, DAY_MS, False
        closed_from = 0
        for start, end in self.hours:
            if within < start * 60_000:
                return closed_from, start * 60_000, False
            if within < end * 60_000:
                return start * 60_000, end * 60_000, True
            closed_from = end * 60_000
        return closed_from, DAY_MS, not self.hours


def _weekday(text: str) -> int:
    return WEEKDAYS.index(text.upper())


def _span(text: str) -> tuple[int, int]:
    match = _SPAN.fullmatch(text)
    if not match:
        raise ValueError
    start_hour, start_minute, end_hour, end_minute = map(int, match.groups())
    return start_hour * 60 + start_minute, end_hour * 60 + end_minute


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _texts(
    fields: Mapping[str, Any], name: str, default: Sequence[str], read: Callable[[str], T]
) -> list[T]:
    """Return the values of a list of texts. Refuses, naming it by its place, one that is none."""
    given = fields.get(name, default)
    if not isinstance(given, list | tuple) or len(given) > MOST_DATES:
        raise BadInput(f"this is a list of {MOST_DATES} texts at the most", field=name)
    values = []
    for place, text in enumerate(given):
        try:
            values.append(read(text))
        except (ValueError, TypeError, AttributeError):
            raise BadInput(
                f"{str(text)[:40]!r} is not written as {_FIELDS[name]}", field=f"{name}.{place}"
            ) from None
    return values


@dataclass(frozen=True)
class Calendars:
    """All calendars as they stood at one time. `stamp` grows with every change of any of them."""

    stamp: int = 0
    by_name: Mapping[str, Calendar] = field(default_factory=dict)

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Return those names that no calendar has."""
        return [name for name in names if name not in self.by_name]

    def opening(self, names: Sequence[str], timezone: str) -> Opening:
        """Return when all calendars of those names are open. One that is gone closes nothing: a
        time that fires can be seen, and one that does not has nobody to explain it."""
        known = (self.by_name.get(name) for name in names)
        return Opening(tuple(calendar for calendar in known if calendar), timezone)


NO_CALENDARS = Calendars()


@dataclass(frozen=True)
class Opening:
    """When several calendars are open at once, seen from a zone."""

    calendars: tuple[Calendar, ...]
    timezone: str

    @cached_property
    def zone(self) -> Zone:
        return load_zone(self.timezone)

    def stretch(self, at: int) -> Stretch:
        """Return what holds at an instant, and how long. The first calendar that is closed is
        named."""
        start, end, closed_by = _ALWAYS.start, _ALWAYS.end, None
        for calendar in self.calendars:
            part = calendar.stretch(at, self.timezone)
            start, end = max(start, part.start), min(end, part.end)
            closed_by = closed_by or part.closed_by
        return Stretch(start, end, closed_by)

    def closed_by(self, at: int) -> str | None:
        """Return the calendar that closes an instant, None if it is open."""
        return self.stretch(at).closed_by

    def same_until(self, at: int, until: int) -> int:
        """Return the last instant, `until` at the most, up to which it is as open as it is at
        `at`, or closed by the same calendar."""
        here = self.stretch(at)
        end = here.end
        while end <= until and (after := self.stretch(end)).closed_by == here.closed_by:
            end = after.end
        return min(end - 1, until)

    def is_business_day(self, day: int) -> bool:
        """Return whether a day of the zone, counted from 1970-01-01, is open: at its noon, for a
        calendar of another zone."""
        noon = self.instant_of(day, DAY_MS // 2)
        for calendar in self.calendars:
            zone = load_zone(calendar.timezone or self.timezone)
            local = noon + zone.segment(noon // 1000).offset * 1000
            if not calendar.has_date(date.fromordinal(local // DAY_MS + _EPOCH)):
                return False
        return True

    def local(self, at: int) -> tuple[int, int]:
        """Return the day in the zone, counted from 1970-01-01, and the ms since its midnight."""
        return divmod(at + self.zone.segment(at // 1000).offset * 1000, DAY_MS)

    def instant_of(self, day: int, within: int) -> int:
        """Return when a local time is. One that comes twice is the first of the two; one that is
        left out is the first instant after the gap."""
        local = day * DAY_MS + within
        # No zone is a day away from UTC: this segment begins before the time that is looked for.
        segment = self.zone.segment(local // 1000 - DAY_MS // 1000)
        while (at := local - segment.offset * 1000) >= segment.end * 1000:
            segment = self.zone.segment(segment.end)
        return max(at, segment.start * 1000)


def day_text(day: int) -> str:
    """Return a day, counted from 1970-01-01, as `2026-12-25`."""
    return date.fromordinal(day + _EPOCH).isoformat()
