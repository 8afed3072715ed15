"""systemd: `OnCalendar=` of timer units, as systemd.time(7) and systemd-analyze(1) read it.

    [weekdays] [[year-]month-day] [hour:minute[:second]] [zone]      Mon..Fri *-*-* 09:00 UTC

Any part may be left out, but not all: without a date it is every day, without a time midnight,
without seconds second 0. A shorthand (`hourly`, `weekly`, …) stands for date and time. Words may be
written in either case.

- A field is `*`, or a list of `a`, `a..b`, each with an optional `/step`; `a/step` goes on to the
  end of the field. There is no `*/step`: it is `0/step`, or `1/step` for months and days.
- A step that could not repeat (`0/60`, `20/10` for an hour) is refused; inside a range it leaves
  the first value only. Reversed ranges are refused.
- Weekdays are names, Monday to Sunday, and a week ends with its Sunday: `Sat..Mon` is refused. A
  range may be written with one dash. Weekdays and date must both match.
- `month~day` counts days from the end of the month, 1 to 28: `*-02~01` is the last of February.
  `~a..b/step` counts from the end too; `~a/step` starts there and goes on to the end of the month.
  systemd 252 allows less than 28 in the later entries of a list, by an oversight; here it is 28.
- Years are 1970 to 2199, two digits mean 1970 to 2069.
- Seconds may have a fraction; it is the same for all of them, since the shortest interval is 1 s.
  Digits finer than a millisecond are dropped.

A refusal is a BadExpression that names the field, the text, its position and what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import NamedTuple

from engine.errors import BadExpression
from engine.plan.cron_eval import CronFields
from engine.plan.cron_parse import Word, refusal, split
from engine.plan.dialects.base import Context, Dialect, Reading, zone_in_text
from engine.plan.month_days import month_table, weekday_mask

_MIDNIGHT = "00:00:00"
_SHORTHANDS = {
    "minutely": ("*-*-*", "*:*:00"),
    "hourly": ("*-*-*", "*:00:00"),
    "daily": ("*-*-*", _MIDNIGHT),
    "weekly": ("Mon", _MIDNIGHT),
    "monthly": ("*-*-01", _MIDNIGHT),
    "quarterly": ("*-01,04,07,10-01", _MIDNIGHT),
    **dict.fromkeys(("yearly", "annually"), ("*-01-01", _MIDNIGHT)),
    **dict.fromkeys(
        ("semiannually", "semi-annually", "biannually", "bi-annually"), ("*-01,07-01", _MIDNIGHT)
    ),
}
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_WEEKDAY_ITEM = re.compile(r"([a-z]+)(?:(?:\.\.|-)([a-z]+))?")
_ITEM = re.compile(r"([0-9]{1,9})(\.[0-9]+)?(?:\.\.([0-9]{1,9})(\.[0-9]+)?)?(?:/([0-9.]+))?")


class _Field(NamedTuple):
    name: str
    low: int
    high: int

    def refuse(self, word: Word, why: str) -> BadExpression:
        return refusal(f"{self.name}: {word.text!r} at character {word.position} {why}")


_YEAR, _MONTH, _DAY = _Field("year", 1970, 2199), _Field("month", 1, 12), _Field("day", 1, 31)
_DAY_FROM_END = _Field("day from the end of the month", 1, 28)
_HOUR, _MINUTE, _SECOND = _Field("hour", 0, 23), _Field("minute", 0, 59), _Field("second", 0, 59)
_WEEKDAY = _Field("weekday", 0, 6)
_EXPRESSION = _Field("expression", 0, 0)


class _Run(NamedTuple):
    """The values `first..last/step`; without a last, to the end of the field."""

    first: int
    last: int | None = None
    step: int = 1
    fraction_ms: int = 0

    def mask(self, high: int) -> int:
        last = high if self.last is None else self.last
        return sum(1 << value for value in range(self.first, last + 1, self.step))

    def mask_from_end(self, length: int) -> int:
        """Return the days of a month of that length, when the run counts from its end."""
        start = length + 1 - self.first
        if self.last is None:
            return sum(1 << day for day in range(start, length + 1, self.step))
        stop = length + 1 - self.last
        return sum(1 << day for day in range(start, stop - 1, -self.step))


def parse(expr: str, context: Context) -> Reading:
    """Return what the expression matches. Refuses with BadExpression what systemd cannot read."""
    words = split(expr)
    timezone = _zone(words.pop()) if len(words) > 1 and words[-1].text[0].isalpha() else None
    kept = " ".join(word.text for word in words)
    if len(words) == 1 and (texts := _SHORTHANDS.get(words[0].text.lower())):
        words = [Word(text, words[0].position) for text in texts]
    weekdays = _weekdays(words.pop(0)) if words[0].text[0].isalpha() else 0b111_1111
    date = words.pop(0) if words and re.search("[-~]", words[0].text) else None
    time = words.pop(0) if words and ":" in words[0].text else Word(_MIDNIGHT, 0)
    if words or (date and ":" in date.text):
        word = words[0] if words else date
        assert word
        raise _EXPRESSION.refuse(word, "is no weekday, date and time: 'Mon *-*-01 09:00:00'")
    years, months, days = _date(date or Word("*-*-*", 0))
    hours, minutes, seconds = _time(time)
    minute_mask = _union(run.mask(59) for run in minutes)
    hour_mask = _union(run.mask(23) for run in hours)
    return Reading(
        CronFields(
            times=sum(minute_mask << hour * 60 for hour in range(24) if hour_mask >> hour & 1),
            months=_union(run.mask(12) for run in months),
            days=month_table(lambda first, length: weekday_mask(weekdays, first) & days(length)),
            wildcard=bool(re.match(r"\*|[^:]*:\*", time.text)),
            seconds=_union(run.mask(59) for run in seconds),
            years=years,
            fraction_ms=seconds[0].fraction_ms,
        ),
        kept,
        timezone,
    )


def _zone(word: Word) -> str:
    name = "UTC" if word.text.upper() == "UTC" else word.text
    zone_in_text(name, word.position)
    return name


def _weekdays(word: Word) -> int:
    """Return the weekdays as a mask; bit 0 is Sunday."""
    mask = 0
    # systemd lets a list of weekdays, and no other list, end in a comma.
    for item in _parts(Word(word.text.removesuffix(","), word.position), ","):
        match = _WEEKDAY_ITEM.fullmatch(item.text.lower())
        ends = [_weekday(name) for name in match.groups() if name] if match else [None]
        if None in ends:
            raise _WEEKDAY.refuse(item, "is no weekday; use Mon-Sun or Monday-Sunday")
        first, last = ends[0] or 7, ends[-1] or 7
        if first > last:
            raise _WEEKDAY.refuse(item, "is a reversed range; the week ends with Sunday")
        mask |= _union(1 << day % 7 for day in range(first, last + 1))
    return mask


def _weekday(name: str) -> int | None:
    days = [day for day, full in enumerate(_WEEKDAYS) if name in (full, full[:3])]
    return days[0] if days else None


def _date(word: Word) -> tuple[int | None, list[_Run], Callable[[int], int]]:
    """Return years, months, and the function from a month's length to its days."""
    parts = _parts(word, "[-~]")
    from_end = "~" in word.text
    if not 2 <= len(parts) <= 3 or (from_end and not re.fullmatch("[^~]*~[^-~]*", word.text)):
        raise _EXPRESSION.refuse(word, "is no date; write year-month-day or month-day")
    year, month, day = parts if len(parts) == 3 else (Word("*", 0), *parts)
    years = None
    if year.text != "*":
        years = _union(run.mask(_YEAR.high) for run in _runs(_YEAR, year))
    days = _runs(_DAY_FROM_END if from_end and day.text != "*" else _DAY, day)
    if from_end and day.text != "*":
        return years, _runs(_MONTH, month), lambda n: _union(run.mask_from_end(n) for run in days)
    return years, _runs(_MONTH, month), lambda n: _union(run.mask(31) for run in days)


def _time(word: Word) -> tuple[list[_Run], list[_Run], list[_Run]]:
    parts = _parts(word, ":")
    if not 2 <= len(parts) <= 3:
        raise _EXPRESSION.refuse(word, "is no time; write hour:minute or hour:minute:second")
    second = parts[2] if len(parts) == 3 else Word("00", 0)
    seconds = _runs(_SECOND, second)
    if len({run.fraction_ms for run in seconds}) > 1:
        raise _SECOND.refuse(second, "has different fractions; the shortest interval is 1s")
    return _runs(_HOUR, parts[0]), _runs(_MINUTE, parts[1]), seconds


def _runs(field: _Field, word: Word) -> list[_Run]:
    if word.text == "*":
        return [_Run(field.low)]
    return [_run(field, item) for item in _parts(word, ",")]


def _run(field: _Field, item: Word) -> _Run:
    match = _ITEM.fullmatch(item.text)
    fractional = match and (match[2] or match[4])
    if not match or (fractional and field is not _SECOND):
        if item.text.startswith("*/"):
            raise field.refuse(item, f"is not systemd; write {field.low}{item.text[1:]}")
        raise field.refuse(item, f"cannot be read; use *, {_wanted(field)}, a..b or a/step")
    first, last = (_number(field, text) for text in (match[1], match[3] or match[1]))
    if not field.low <= first <= field.high or not field.low <= last <= field.high:
        raise field.refuse(item, f"is not in {_wanted(field)}")
    if first > last:
        raise field.refuse(item, f"is a reversed range; write {match[3]}..{match[1]}")
    fraction_ms = int((match[2] or ".0")[1:4].ljust(3, "0"))
    if not match[5]:
        return _Run(first, last, 1, fraction_ms)
    if not match[5].isdigit() or int(match[5]) == 0:
        raise field.refuse(item, "has a step that is no whole number, 1 or more")
    step = int(match[5])
    room = first - field.low if field is _DAY_FROM_END else field.high - first
    if not match[3] and step > room:
        raise field.refuse(item, f"has a step of {step}, which leaves the field at once")
    return _Run(first, last if match[3] else None, step, fraction_ms)


def _number(field: _Field, text: str) -> int:
    value = int(text)
    if field is _YEAR and value < 100:
        return value + (2000 if value < 70 else 1900)
    return value


def _wanted(field: _Field) -> str:
    return f"{field.low}-{field.high}"


def _parts(word: Word, separator: str) -> list[Word]:
    words, position = [], word.position
    for text in re.split(separator, word.text):
        words.append(Word(text, position))
        position += len(text) + 1
    return words


def _union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)


SYSTEMD = Dialect("systemd", "OnCalendar of timer units: Mon..Fri *-*-* 09:00", parse)
