"""Five-field cron text to `CronFields`, as Vixie cron and cronie read it, or a refusal that helps.

    minute        0-59
    hour          0-23
    day of month  1-31
    month         1-12, JAN-DEC
    day of week   0-7, SUN-SAT; 0 and 7 are Sunday

A field is a list of `*`, `a`, `a-b`, each with an optional `/step`; `a/step` means `a` to the
field's end. Where cron implementations differ:

- Both day fields restricted: a day that matches either fires. If one of them starts with `*`
  (`*/2` counts), both must match: cronie's star rule.
- `5-5` is 5 and `MON-MON` is Monday; a reversed range (`22-2`, `SAT-SUN`) is refused.
- A step beyond the field's width (`*/90`) leaves the first value only.

Names and macros may be written in either case. A refusal is a BadExpression whose message names the
field, the text, its position (a character of the expression, from 1) and what would be right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from engine.errors import BadExpression
from engine.plan.cron_eval import CronFields

MAX_LENGTH = 256

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """Names of the values from `low` up."""
    alias: int | None = None
    """One more value, past `high`, that means `low`."""

    @property
    def wanted(self) -> str:
        span = f"{self.low}-{self.alias or self.high}"
        return f"{span} or {self.names[0]}-{self.names[-1]}" if self.names else span


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _WEEKDAYS, alias=7),
)

_ITEM = re.compile(r"(\*|(?P<a>[0-9]+|[A-Z]+)(-(?P<b>[0-9]+|[A-Z]+))?)(?P<step>/[0-9]+)?")

_FOREIGN = (
    (re.compile(r".*\?.*"), "'?' is Quartz; cron writes '*'"),
    (re.compile(r"([0-9]*|[A-Z]{3})(LW?|W)([-/#].*)?|.*#.*"), "L, W and # are Quartz, not cron"),
    (re.compile(r"H([(/].*)?"), "H is Jenkins; cron needs a fixed number"),
    (re.compile(r"R([(/].*)?|.*~.*"), "random times are refused; choose a fixed number"),
)
"""Spellings of other schedulers, and what to say to them."""


@lru_cache(maxsize=4096)
def parse_cron(expr: str) -> CronFields:
    """Return what the expression matches.

    Refuses with BadExpression(field="schedule_expr") what cron cannot read, and `@reboot`.
    """
    check_text(expr)
    if expr.lstrip().startswith("@"):
        return parse_cron(_expand_macro(expr.strip()))
    words = [(word[0], word.start() + 1) for word in re.finditer(r"[^ \t]+", expr)]
    _check_count(words)
    minutes, hours, doms, months, dows = (
        _parse_field(field, *word) for field, word in zip(FIELDS, words, strict=True)
    )
    starred = [text.startswith("*") for text, _ in words]
    return CronFields(
        times=sum(minutes << hour * 60 for hour in range(24) if hours >> hour & 1),
        months=months,
        days=_day_masks(doms, dows, either=not (starred[2] or starred[4])),
        wildcard=starred[0] or starred[1],
    )


def check_text(expr: str) -> None:
    """Refuse text that no schedule expression can be: empty, too long, not printable ASCII."""
    if len(expr) > MAX_LENGTH:
        raise refusal(
            f"the expression has {len(expr)} characters; at most {MAX_LENGTH} are allowed"
        )
    for index, char in enumerate(expr, 1):
        if not (char.isascii() and (char.isprintable() or char == "\t")):
            raise refusal(f"{_spot(expr, index)}: {char!a} at character {index} is not plain ASCII")
    if not expr.strip():
        raise refusal("the expression is empty; cron needs five fields, such as '*/5 * * * *'")


def refusal(message: str) -> BadExpression:
    return BadExpression(message, field="schedule_expr")


def _spot(expr: str, index: int) -> str:
    """Return the name of the cron field that character `index` falls in."""
    before = len(expr[:index].split()) - 1
    return FIELDS[before].name if 0 <= before < len(FIELDS) else "expression"


def _expand_macro(expr: str) -> str:
    name = expr.lower()
    if name in MACROS:
        return MACROS[name]
    if name == "@reboot":
        raise refusal("'@reboot' has no clock time, so it cannot be scheduled")
    if name.startswith("@every"):
        raise refusal(f"{expr!r} is not cron; an interval is written 'every 1h30m'")
    raise refusal(f"{expr!r} at character 1 is no macro; known are {', '.join(MACROS)}")


def _check_count(words: list[tuple[str, int]]) -> None:
    count, wanted = len(words), len(FIELDS)
    order = "minute, hour, day of month, month, day of week"
    if count < wanted:
        missing = ", ".join(field.name for field in FIELDS[count:])
        raise refusal(f"{missing}: missing; cron needs five fields ({order}), found {count}")
    if count > wanted:
        text, position = words[wanted]
        raise refusal(
            f"{text!r} at character {position} is a field too many: cron has five ({order}), found"
            f" {count}; seconds and years need a dialect that has them"
        )


def _parse_field(field: _Field, text: str, position: int) -> int:
    values = 0
    for item in text.split(","):
        values |= _parse_item(field, item, position)
        position += len(item) + 1
    return values


def _parse_item(field: _Field, item: str, position: int) -> int:
    """Return the values that one entry of a list stands for, as a bit mask."""

    def wrong(why: str) -> BadExpression:
        return refusal(f"{field.name}: {item!r} at character {position} {why}")

    match = _ITEM.fullmatch(item.upper())
    if not match:
        raise wrong(_explain(field, item.upper()))
    step = int(match["step"][1:]) if match["step"] else 1
    if step == 0:
        raise wrong("has a step of 0; a step is 1 or more")
    if match["a"] is None:
        first, last = field.low, field.high
    else:
        ends = [_parse_value(field, end) for end in (match["a"], match["b"]) if end]
        if None in ends:
            raise wrong(_explain(field, item.upper()))
        first = ends[0] or 0
        last = (ends[-1] or 0) if match["b"] or not match["step"] else max(first, field.high)
    if first > last:
        raise wrong(
            f"is a reversed range; write {_span(first, field.high)},{_span(field.low, last)}"
        )
    values = sum(1 << value for value in range(first, last + 1, step))
    if field.alias and values >> field.alias & 1:
        values = (values | 1 << field.low) & ~(1 << field.alias)
    return values


def _span(first: int, last: int) -> str:
    return f"{first}-{last}" if first < last else str(first)


def _parse_value(field: _Field, text: str) -> int | None:
    """Return the number or name as a value of the field, or None if it is not one."""
    if text in field.names:
        return field.low + field.names.index(text)
    if not text.isdigit():
        return None
    value = int(text)
    return value if field.low <= value <= (field.alias or field.high) else None


def _explain(field: _Field, item: str) -> str:
    for spelling, hint in _FOREIGN:
        if spelling.fullmatch(item):
            return f"is not cron: {hint}"
    if not item:
        return f"is an empty list entry; use {field.wanted}"
    if _ITEM.fullmatch(item):
        return f"is not in {field.wanted}"
    return f"cannot be read; use *, {field.wanted}, a list, a range or a /step"


def _day_masks(doms: int, dows: int, *, either: bool) -> tuple[int, ...]:
    masks = []
    for monday_first in range(7):
        # Cron counts weekdays from Sunday; day 1 of this month is weekday `monday_first` + 1.
        weekdays = sum(1 << day for day in range(1, 32) if dows >> (monday_first + day) % 7 & 1)
        masks.append(doms | weekdays if either else doms & weekdays)
    return tuple(masks)
