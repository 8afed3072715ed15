"""The fields of cron expressions: their values, names and limits, and the orders they come in."""

from __future__ import annotations

from dataclasses import dataclass

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_SUNDAY_FIRST = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONDAY_FIRST = (*_SUNDAY_FIRST[1:], "SUN")


@dataclass(frozen=True)
class Field:
    """What a field accepts. Masks have a bit per value; those of weekdays start with Sunday."""

    name: str
    low: int
    high: int
    """`*` means `low` to `high`."""
    names: tuple[str, ...] = ()
    """Names of the values from `low` up."""
    also: int | None = None
    """One more value, for Sunday: 7 after 0-6, or 0 before 1-7."""
    steps_to: int | None = None
    """Where `a/step` ends, if not at `high`."""
    sunday: int | None = None
    """The lowest value that means Sunday, which makes this the day of week."""
    wraps: bool = True

    @property
    def is_day(self) -> bool:
        return self.sunday is not None or self.name == "day of month"

    @property
    def step_end(self) -> int:
        return self.high if self.steps_to is None else self.steps_to

    @property
    def width(self) -> int:
        """How many values there are: no step can be longer."""
        return self.high - self.low + 1

    @property
    def longest_step(self) -> int:
        """The longest step that Quartz accepts, and those who follow it."""
        return self.high

    @property
    def wanted(self) -> str:
        low = min(self.low, self.also) if self.also is not None else self.low
        high = max(self.high, self.also) if self.also is not None else self.high
        span = f"{low}-{high}"
        return f"{span} or {self.names[0]}-{self.names[-1]}" if self.names else span

    def value(self, text: str) -> int | None:
        """Return the number or name as a value of the field, or None if it is not one."""
        if text in self.names:
            return self.low + self.names.index(text)
        if not text.isdigit():
            return None
        value = int(text)
        return value if self.low <= value <= self.high or value == self.also else None

    def opening(self, value: int) -> int:
        """Return the value as the start of a range: SUN-FRI is 0-5 even where SUN is 7."""
        return self.also if self.also == 0 and value == self.high else value

    def weekday(self, value: int) -> int:
        """Return a value of the day of week as a number from 0, Sunday, to 6."""
        return (value - (self.sunday or 0)) % 7

    def mask(self, first: int, last: int, step: int) -> int:
        """Return every `step`-th value from `first` to `last`."""
        if step == 1:
            values = (2 << last) - (1 << first)
        else:
            values = sum(1 << value for value in range(first, last + 1, step))
        return values if self.sunday is None else self._from_sunday(values)

    def wrapped_mask(self, first: int, last: int, step: int) -> int:
        """Return every `step`-th value from `first` past the field's end and on to `last`."""
        values = 0
        for value in range(first, last + self.width + 1, step):
            values |= 1 << (value - self.low) % self.width + self.low
        return values if self.sunday is None else self._from_sunday(values)

    def unreversed(self, first: int, last: int) -> str:
        """Return the list that a reversed range was perhaps meant to be."""
        return f"{_span(first, self.high)},{_span(self.low, last)}"

    def _from_sunday(self, values: int) -> int:
        values >>= self.sunday or 0
        return (values | values >> 7) & 0b111_1111


def _span(first: int, last: int) -> str:
    return f"{first}-{last}" if first < last else str(first)


SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY_OF_MONTH = Field("day of month", 1, 31)
MONTH = Field("month", 1, 12, _MONTHS)
YEAR = Field("year", 1970, 2199, wraps=False)
"""No calendar of a job goes further than Quartz's and EventBridge's."""

DAY_OF_WEEK = Field("day of week", 0, 6, _SUNDAY_FIRST, also=7, sunday=0)
"""As in cron: 0-7, and 0 and 7 are Sunday."""
DAY_OF_WEEK_TO_6 = Field("day of week", 0, 6, _SUNDAY_FIRST, sunday=0)
DAY_OF_WEEK_TO_7 = Field("day of week", 0, 6, _SUNDAY_FIRST, also=7, steps_to=7, sunday=0)
DAY_OF_WEEK_FROM_1 = Field("day of week", 1, 7, _SUNDAY_FIRST, sunday=1)
"""As in Quartz: 1 is Sunday."""
DAY_OF_WEEK_FROM_MONDAY = Field("day of week", 1, 7, _MONDAY_FIRST, also=0, sunday=0)
"""As in Spring: 1 is Monday, 7 and 0 are Sunday, and `*/2` starts with Monday."""

FIVE_FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
"""The five fields of cron."""
