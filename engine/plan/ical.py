"""iCalendar (RFC 5545) to dates: the days that the events of a file touch.

Events are VEVENTs, all-day or timed, with DTEND or DURATION, and repeated by RRULE, RDATE and
EXDATE. A timed event counts for every day that it touches on the clock of its own zone; times in
UTC are seen from the zone that the caller names. Cancelled events count for nothing, and an
instance that was moved (RECURRENCE-ID) counts where it went. All else in a file is passed over.

A refusal is a BadInput with the number of the line. The size of a file, of an event and of the
result are bounded, and so is what a rule may cost: those of HOURLY and finer are refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from engine.errors import BadInput
from engine.plan.calendar import MOST_DATES
from engine.plan.dialects import Context, Reading
from engine.plan.dialects.rrule import RRULE
from engine.plan.zones import load_zone

MAX_BYTES = 1024 * 1024
MOST_RULES = 200
MOST_DAYS_OF_EVENT = 366
YEARS_AHEAD = 10
DAYS_BEHIND = 366
"""Repetitions longer ago are left out."""

_DAY_S = 86_400
_EPOCH = date(1970, 1, 1)
_LINE = re.compile(r'([A-Za-z0-9-]+)(?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^";:])*)*:(.*)')
_WHEN = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_DURATION = re.compile(
    r"\+?P(?:(\d{1,3})W|(\d{1,4})D)?(?:T(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:\d+S)?)?"
)
_FREQUENCY = re.compile(r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)\b")


@dataclass(frozen=True, slots=True)
class _Property:
    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class _When:
    """A local time, or midnight of a date."""

    at: datetime
    is_date: bool


@dataclass(slots=True)
class _Event:
    line: int
    properties: dict[str, list[_Property]] = field(default_factory=dict)

    def first(self, name: str) -> _Property | None:
        return self.properties.get(name, [None])[0]


def read_ical(text: str, *, now: int, timezone: str = "UTC") -> frozenset[date]:
    """Return the days that the events of an iCalendar file touch. Repetitions are followed from a
    year before `now` (ms) to ten years after it.

    Refuses with BadInput, naming the line, what is no iCalendar or goes past a bound.
    """
    if len(text.encode()) > MAX_BYTES:
        raise BadInput(f"an iCalendar file has {MAX_BYTES} bytes at the most")
    load_zone(timezone)
    reader = _Reader(now, timezone)
    events = list(_events(_unfold(text)))
    moved = reader.moved_instances(events)
    found: set[date] = set()
    for event in events:
        status = event.first("STATUS")
        if status is None or status.value.strip().upper() != "CANCELLED":
            found.update(reader.days_of(event, moved[_uid(event)]))
        if len(found) > MOST_DATES:
            raise _refusal(event.line, f"the events come to more than {MOST_DATES} days")
    return frozenset(found)


def _refusal(line: int, why: str) -> BadInput:
    return BadInput(f"line {line}: {why}")


def _unfold(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines and where they begin: a line that starts with a blank goes on the one
    before."""
    begun, parts = 0, list[str]()
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = line.removesuffix("\r")
        if line[:1] in (" ", "\t"):
            parts.append(line[1:])
            continue
        if any(parts):
            yield begun, "".join(parts)
        begun, parts = number, [line]
    if any(parts):
        yield begun, "".join(parts)


def _events(lines: Iterator[tuple[int, str]]) -> Iterator[_Event]:
    open_parts: list[str] = []
    event: _Event | None = None
    number = 0
    for number, text in lines:
        match = _LINE.fullmatch(text)
        if not match:
            raise _refusal(number, f"{text[:40]!r} is no line of iCalendar, NAME;PARAM=…:value")
        name, value = match[1].upper(), match[2]
        if not open_parts and (name, value.strip().upper()) != ("BEGIN", "VCALENDAR"):
            raise _refusal(number, "an iCalendar file begins with BEGIN:VCALENDAR")
        if name == "BEGIN":
            open_parts.append(value.strip().upper())
            if open_parts[-1] == "VEVENT":
                event = _Event(number)
        elif name == "END":
            if open_parts.pop() != value.strip().upper():
                raise _refusal(number, f"END:{value[:40]} closes what is not open")
            if event and value.strip().upper() == "VEVENT":
                yield event
                event = None
        elif event and open_parts[-1] == "VEVENT":
            event.properties.setdefault(name, []).append(_Property(number, name, value))
    if open_parts or not number:
        raise _refusal(number + 1, f"the file ends before END:{(open_parts or ['VCALENDAR'])[-1]}")


def _uid(event: _Event) -> str:
    uid = event.first("UID")
    return uid.value if uid else ""


class _Reader:
    """Reads events as of `now`, UTC times in `timezone`."""

    def __init__(self, now: int, timezone: str) -> None:
        self._now = now
        self._timezone = timezone
        self._last_day = now // 1000 // _DAY_S + YEARS_AHEAD * 366
        self._rules = self._repeats = 0

    def moved_instances(self, events: list[_Event]) -> dict[str, set[date]]:
        """Return by UID the days from which single instances were moved, or where they ended."""
        moved: dict[str, set[date]] = defaultdict(set)
        for event in events:
            if instance := event.first("RECURRENCE-ID"):
                moved[_uid(event)].update(when.at.date() for when in self._whens(instance))
        return moved

    def days_of(self, event: _Event, moved: set[date]) -> Iterator[date]:
        """Yield the days that an event touches, all its repetitions together."""
        begin = event.first("DTSTART")
        if begin is None:
            raise _refusal(event.line, "this event has no DTSTART")
        [start] = self._whens(begin, most=1)
        length = self._length(event, start)
        left_out = set() if event.first("RECURRENCE-ID") else set(moved)
        for given in event.properties.get("EXDATE", []):
            left_out.update(when.at.date() for when in self._whens(given))
        starts = [start.at]
        for given in event.properties.get("RDATE", []):
            starts += [when.at for when in self._whens(given)]
        for rule in event.properties.get("RRULE", []):
            starts += self._repeat(rule, start)
        for at in starts:
            if at.date() not in left_out:
                # An event that ends at midnight does not touch the day that begins then.
                last = max(at, at + length - timedelta(microseconds=1)).date()
                yield from (at.date() + timedelta(n) for n in range((last - at.date()).days + 1))

    def _repeat(self, rule: _Property, start: _When) -> Iterator[datetime]:
        self._rules += 1
        if self._rules > MOST_RULES:
            raise _refusal(rule.line, f"a file has {MOST_RULES} RRULEs at the most")
        if not _FREQUENCY.search(rule.value.upper()):
            raise _refusal(rule.line, "RRULE repeats DAILY, WEEKLY, MONTHLY or YEARLY here")
        text = f"DTSTART:{start.at:%Y%m%dT%H%M%S} RRULE:{rule.value.strip()}"
        try:
            reading = RRULE.parse(text, Context(self._timezone, self._now))
        except BadInput as error:
            raise _refusal(rule.line, f"RRULE: {error.message}") from None
        assert isinstance(reading, Reading)
        since = (self._now // 1000 // _DAY_S - DAYS_BEHIND) * _DAY_S
        at = reading.times.first_from(since, self._last_day)
        while at is not None and at // _DAY_S <= self._last_day:
            self._repeats += 1
            if self._repeats > MOST_DATES:
                raise _refusal(rule.line, f"the rules come to more than {MOST_DATES} days")
            yield datetime.combine(_EPOCH, datetime.min.time()) + timedelta(seconds=at)
            # One a day is all that days need.
            at = reading.times.first_from((at // _DAY_S + 1) * _DAY_S, self._last_day)

    def _length(self, event: _Event, start: _When) -> timedelta:
        length = timedelta(1) if start.is_date else timedelta()
        if end := event.first("DTEND"):
            [until] = self._whens(end, most=1)
            length = until.at - start.at
            at = end.line
        elif duration := event.first("DURATION"):
            match = _DURATION.fullmatch(duration.value.strip().upper())
            if not match:
                raise _refusal(duration.line, f"{duration.value[:40]!r} is no duration such as P1D")
            weeks, days, hours, minutes = (int(digits or 0) for digits in match.groups())
            length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
            at = duration.line
        else:
            return length
        if not timedelta() <= length <= timedelta(MOST_DAYS_OF_EVENT):
            raise _refusal(at, f"an event lasts 0 to {MOST_DAYS_OF_EVENT} days")
        return length

    def _whens(self, given: _Property, most: int = MOST_DATES) -> list[_When]:
        texts = [text.partition("/")[0].strip() for text in given.value.split(",")]
        if len(texts) > most:
            raise _refusal(given.line, f"{given.name} has {most} value(s) at the most")
        return [self._when(given, text) for text in texts]

    def _when(self, given: _Property, text: str) -> _When:
        # A TZID is not looked at: the wall clock of the event is all that is asked for.
        match = _WHEN.fullmatch(text.upper())
        try:
            if not match:
                raise ValueError("not YYYYMMDD or YYYYMMDDTHHMMSS")
            year, month, day, hour, minute, second = (int(d or 0) for d in match.groups()[:6])
            # A leap second is the last of its minute.
            at = datetime(year, month, day, hour, minute, min(second, 59))  # noqa: DTZ001
            if not 1970 <= at.year <= 2199:
                raise ValueError("not in the years 1970 to 2199")
        except ValueError as error:
            raise _refusal(given.line, f"{given.name}: {text[:40]!r} is no date: {error}") from None
        if match[7]:
            at = at.replace(tzinfo=UTC).astimezone(ZoneInfo(self._timezone)).replace(tzinfo=None)
        return _When(at, match[4] is None)
