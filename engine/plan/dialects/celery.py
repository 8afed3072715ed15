"""Celery: `crontab(minute='*/15', hour='0-6', day_of_week='mon-fri')`, or what celery prints of it.

The call is read and not run: literals only. Positional arguments are minute, hour, day_of_week,
day_of_month, month_of_year.

- What is left out is `*`: `crontab(hour=3)` fires every minute from three to four.
- Weekday, day and month must all match (AND), starred or not.
- A field is a number, a list, tuple or set of numbers, or a text: a list of `*`, `a`, `a-b`, where
  a star or a range may have a `/step`. `a/step` is refused, as celery does.
- A reversed range runs on past the end: `hour='22-2'`, `day_of_week='sat-mon'`. Steps count from
  its first value.
- Weekdays are 0-6 from Sunday; 7 is refused. Names are the first three letters, or more.

The printed form is `<crontab: 0 4 * * 1 (m/h/dM/MY/d)>`, whose key names the order of its fields:
celery 5.2 and older print `(m/h/d/dM/MY)`. Five plain fields are taken for the newer order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from engine.plan.cron_eval import CronFields
from engine.plan.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK_TO_6, HOUR, MINUTE, MONTH
from engine.plan.cron_parse import Grammar, Word, read_words, refusal
from engine.plan.dialects.base import Context, Dialect, Reading

_FIELDS = {
    "minute": MINUTE,
    "hour": HOUR,
    "day_of_week": DAY_OF_WEEK_TO_6,
    "day_of_month": DAY_OF_MONTH,
    "month_of_year": MONTH,
}
"""Argument → field, in the order of the arguments."""
_KEYS = dict(zip(("m", "h", "d", "dM", "MY"), _FIELDS, strict=True))
"""What the printed form calls the arguments."""
_NEW_ORDER = "m/h/dM/MY/d"

_PRINTED = re.compile(r"<crontab: (?P<fields>.+) \((?P<keys>[a-zA-Z/]+)\)>|(?P<plain>[^()<>]+)")
_PRINTED_WORD = re.compile(r"[\[{][^]}]*[]}]|\S+")
_LONG_NAME = re.compile(
    r"\b(sun|mon|tues|wednes|thurs|fri|satur)day\b"
    r"|\b(january|february|march|april|june|july|august|september|october|november|december)\b",
    re.IGNORECASE,
)
_EXAMPLE = "write crontab(minute='*/15', hour='0-6')"

GRAMMAR = Grammar(
    "celery", (tuple(_FIELDS.values()),), lambda dom, dow: False, wraps=True, plain_steps=False
)


def parse(expr: str, context: Context) -> Reading:
    """Return what the crontab matches. Refuses with BadExpression what celery cannot read."""
    return Reading(_read(expr), " ".join(expr.split()))


@lru_cache(maxsize=1024)
def _read(expr: str) -> CronFields:
    text = expr.strip()
    start = expr.index(text) + 1
    given = dict(_call(text, start) if text.startswith("crontab(") else _printed(text, start))
    return read_words(GRAMMAR, [given.get(argument, Word("*", start)) for argument in _FIELDS])


def _call(text: str, start: int) -> Iterator[tuple[str, Word]]:
    """Yield the arguments of the call, each as the text of a cron field."""
    try:
        # A backslash has no place here, and some of them would make Python warn.
        call = None if "\\" in text else ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "crontab":
        raise refusal(f"expression: {text!r} at character {start} is no one call; {_EXAMPLE}")
    if len(call.args) > len(_FIELDS):
        raise refusal(f"expression: crontab has five fields, found {len(call.args)}; {_EXAMPLE}")
    arguments = [*zip(_FIELDS, call.args, strict=False)]
    arguments += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
    seen = set()
    for name, node in arguments:
        position = start + node.col_offset
        if name not in _FIELDS or name in seen:
            why = "is given twice" if name in seen else f"is none of {', '.join(_FIELDS)}"
            raise refusal(f"expression: {name!r} at character {position} {why}")
        seen.add(name)
        yield name, _word(_FIELDS[name].name, node, position)


def _word(field: str, node: ast.expr, position: int) -> Word:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        value = ...
    if isinstance(value, str):
        return Word(_short_names(value), position + 1)
    values = [*value] if isinstance(value, list | tuple | set) else [value]
    if not values or any(type(value) is not int for value in values):
        raise refusal(
            f"{field}: {ast.unparse(node)!r} at character {position} is no number, no text, and no"
            " list of numbers"
        )
    return Word(",".join(map(str, values)), position)


def _printed(text: str, start: int) -> Iterator[tuple[str, Word]]:
    match = _PRINTED.fullmatch(text)
    group = "plain" if match and match["plain"] else "fields"
    words = [*_PRINTED_WORD.finditer(match[group])] if match else []
    keys = ((match and match["keys"]) or _NEW_ORDER).split("/")
    if not match or sorted(keys) != sorted(_KEYS) or len(words) != len(keys):
        raise refusal(
            f"expression: {text!r} at character {start} is not celery's; {_EXAMPLE}, or five"
            " fields: minute, hour, day of month, month, day of week"
        )
    for key, word in zip(keys, words, strict=True):
        field = re.sub(r"[\[\]{} ]", "", word[0])
        yield _KEYS[key], Word(_short_names(field), start + match.start(group) + word.start())


def _short_names(text: str) -> str:
    return _LONG_NAME.sub(lambda name: name[0][:3], text).replace(" ", "")


CELERY = Dialect("celery", "crontab(…) of celery beat: all fields must match", parse)
