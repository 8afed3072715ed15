"""Cron text to `CronFields` by the grammar of a dialect, or a refusal that helps.

Cron dialects agree on this much: fields separated by spaces; a field is a list of entries separated
by commas; an entry is `*`, a value `a` or a range `a-b`, each with an optional `/step`; months and
weekdays have names, in either case. All that they read differently is data in a `Grammar`, and
each dialect's module says which rule it chose and why.

A refusal is a BadExpression whose message names the field, the text, its position (a character of
the expression, from 1) and what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol

from engine.errors import BadExpression
from engine.plan.cron_eval import CronFields
from engine.plan.cron_fields import FIVE_FIELDS, Field
from engine.plan.month_days import DaySet, any_of, month_table, plain_table, weekdays

MAX_LENGTH = 256


class Word(NamedTuple):
    text: str
    position: int
    """Of its first character in the expression, from 1."""


class Special(Protocol):
    """Reads the entries of day fields that depend on the month, such as `L`."""

    def __call__(self, field: Field, entry: str, *, alone: bool) -> DaySet | str | None:
        """Return the days that an entry means, or why it is wrong, or None for a plain entry.

        The entry is in capitals; `alone` if it is all of the field.
        """


@dataclass(frozen=True, eq=False)
class Grammar:
    """How one dialect reads cron. Compared by identity, so that readings can be remembered."""

    name: str
    """As refusals call the dialect."""
    layouts: tuple[tuple[Field, ...], ...]
    """The fields in order, for each number of fields there may be; fewest first."""
    either_day: Callable[[str, str], bool]
    """Whether a day need match only one of the fields day of month and day of week, given both."""
    macros: Mapping[str, str] = field(default_factory=dict)
    question: Literal["never", "days", "always"] = "never"
    """Where `?` may stand for `*`: never, alone in a day field, or wherever `*` may."""
    wraps: bool = False
    """Whether `22-2` runs past the field's end; otherwise it is refused."""
    long_steps: bool = True
    """Whether a step may be as long as the field, and so leave its first value alone."""
    plain_steps: bool = True
    """Whether `a/step` means from `a` to the field's end; otherwise it is refused."""
    open_steps: bool = False
    """Whether `/step` means `*/step`; otherwise it is refused."""
    repeats: bool = True
    """Whether two entries of a list may share a value; otherwise it is refused."""
    special: Special | None = None
    check: Callable[[Mapping[str, Word]], None] | None = None
    """Refuses combinations of fields, which it gets by name."""
    explain: Callable[[str], str | None] | None = None
    """Returns what to say of a spelling of some other dialect."""


_STARS = ("*", "?", "/")
"""How a field starts that is not bound to fixed values; where a dialect has no `?` or `/n`, none
does."""


@lru_cache(maxsize=4096)
def read_cron(grammar: Grammar, expr: str) -> CronFields:
    """Return what the expression matches.

    Refuses with BadExpression(field="schedule_expr") what the dialect cannot read.
    """
    if expr.lstrip().startswith("@"):
        expr = expand_macro(grammar, expr)
    return read_words(grammar, split(expr))


def read_words(grammar: Grammar, found: list[Word]) -> CronFields:
    """Return what the words match, one for each field; refuses as `read_cron` does."""
    layout = choose_layout(grammar, found)
    words = {f.name: word for f, word in zip(layout, found, strict=True)}
    values = {f.name: _parse_field(grammar, f, words[f.name]) for f in layout}
    if grammar.check:
        grammar.check(words)
    minutes, hours = values["minute"].mask, values["hour"].mask
    years = words.get("year")
    return CronFields(
        times=sum(minutes << hour * 60 for hour in range(24) if hours >> hour & 1),
        months=values["month"].mask,
        days=_days(grammar, words, values["day of month"], values["day of week"]),
        wildcard=any(words[name].text.startswith(_STARS) for name in ("minute", "hour")),
        seconds=values["second"].mask if "second" in values else 1,
        years=None if years is None or years.text == "*" else values["year"].mask,
    )


def check_text(expr: str, *, lines: bool = False) -> None:
    """Refuse text that no schedule can be: empty, too long, not printable ASCII on one line.

    With `lines` there may be several.
    """
    if len(expr) > MAX_LENGTH:
        raise refusal(
            f"the expression has {len(expr)} characters; at most {MAX_LENGTH} are allowed"
        )
    allowed = "\t\r\n" if lines else "\t"
    for index, char in enumerate("" if expr.isascii() and expr.isprintable() else expr, 1):
        if not (char.isascii() and (char.isprintable() or char in allowed)):
            raise refusal(f"{_spot(expr, index)}: {char!a} at character {index} is not plain ASCII")
    if not expr.strip():
        raise refusal("the expression is empty; cron needs five fields, such as '*/5 * * * *'")


def refusal(message: str) -> BadExpression:
    return BadExpression(message, field="schedule_expr")


def split(expr: str) -> list[Word]:
    return [Word(word[0], word.start() + 1) for word in re.finditer(r"[^ \t]+", expr)]


def expand_macro(grammar: Grammar, expr: str) -> str:
    """Return the fields that a macro stands for. Refuses what the dialect has no macro for."""
    name = expr.strip().lower()
    if name in grammar.macros:
        return grammar.macros[name]
    if name == "@reboot":
        raise refusal(f"{expr!r} is crontab's, and not {grammar.name}; name the dialect vixie")
    if name in ("@once", "@continuous"):
        raise refusal(
            f"{name!r} has no clock time, so it cannot be scheduled; leave schedule_expr out to"
            " run a job once, at once"
        )
    if name.startswith("@every"):
        raise refusal(f"{expr!r} is not {grammar.name}; an interval is written 'every 1h30m'")
    known = ", ".join(grammar.macros) or "none"
    raise refusal(f"{expr!r} at character 1 is no macro; known to {grammar.name} are {known}")


_COUNTS = {5: "five", 6: "six", 7: "seven"}


def choose_layout(grammar: Grammar, words: list[Word]) -> tuple[Field, ...]:
    """Return the fields that the words stand for. Refuses a number of them that fits no layout."""
    count = len(words)
    for layout in grammar.layouts:
        if len(layout) == count:
            return layout
    least, most = grammar.layouts[0], grammar.layouts[-1]
    wanted = " or ".join(_COUNTS[len(layout)] for layout in grammar.layouts)
    order = ", ".join(f.name for f in most)
    if count < len(least):
        missing = ", ".join(f.name for f in least[count:])
        raise refusal(
            f"{missing}: missing; {grammar.name} needs {wanted} fields ({order}), found {count}"
        )
    text, position = words[len(most)]
    hint = "; seconds and years need a dialect that has them" if len(most) == 5 else ""
    raise refusal(
        f"{text!r} at character {position} is a field too many: {grammar.name} has {wanted}"
        f" ({order}), found {count}{hint}"
    )


def _spot(expr: str, index: int) -> str:
    """Return the name of the field that character `index` falls in, if there are cron's five."""
    before = len(expr[:index].split()) - 1
    if len(expr.split()) == len(FIVE_FIELDS) and before >= 0:
        return FIVE_FIELDS[before].name
    return "expression"


class _Values(NamedTuple):
    mask: int
    sets: tuple[DaySet, ...]
    """What else the field matches, by month."""


def _parse_field(grammar: Grammar, field: Field, word: Word) -> _Values:
    mask, sets, position = 0, [], word.position
    for entry in word.text.split(","):
        found = parse_entry(grammar, field, entry, position, alone=entry == word.text)
        if not isinstance(found, int):
            sets.append(found)
        elif mask & found and not grammar.repeats:
            raise refusal(
                f"{field.name}: {entry!r} at character {position} repeats a value of the list"
            )
        else:
            mask |= found
        position += len(entry) + 1
    return _Values(mask, tuple(sets))


_ENTRY = re.compile(r"([*?]|(?P<a>[0-9]+|[A-Z]+)(-(?P<b>[0-9]+|[A-Z]+))?)(/(?P<step>[0-9]+))?")


def parse_entry(
    grammar: Grammar, field: Field, entry: str, position: int, *, alone: bool
) -> int | DaySet:
    """Return the values that one entry of a list stands for, as a bit mask or a set of days."""

    def wrong(why: str) -> BadExpression:
        return refusal(f"{field.name}: {entry!r} at character {position} {why}")

    text = entry.upper()
    if grammar.special and field.is_day:
        special = grammar.special(field, text, alone=alone)
        if isinstance(special, str):
            raise wrong(special)
        if special is not None:
            return special
    match = _ENTRY.fullmatch("*" + text if grammar.open_steps and text[:1] == "/" else text)
    if not match or (text[0] == "?" and not _may_ask(grammar, field, text, alone=alone)):
        raise wrong(_explain(grammar, field, text))
    step = int(match["step"] or 1)
    if step == 0:
        raise wrong("has a step of 0; a step is 1 or more")
    if step > field.longest_step and not grammar.long_steps:
        raise wrong(f"has a step of {step}; the longest is {field.longest_step}")
    if step > field.width:
        raise wrong(
            f"has a step of {step}, which is longer than the field: it would leave one value alone;"
            " write that value, or for a longer distance an interval, such as 'every 90m'"
        )
    if match["a"] is None:
        return field.mask(field.low, field.high, step)
    ends = [field.value(end) for end in (match["a"], match["b"]) if end]
    if None in ends:
        raise wrong(_explain(grammar, field, text))
    first, last = ends[0] or 0, ends[-1] or 0
    if match["step"] and not match["b"]:
        if not grammar.plain_steps:
            raise wrong(f"has a step without a range; write {text.replace('/', f'-{field.high}/')}")
        last = max(first, field.step_end)
    first = field.opening(first) if first > last else first
    if first <= last:
        return field.mask(first, last, step)
    if grammar.wraps and field.wraps:
        return field.wrapped_mask(first, last, step)
    raise wrong(f"is a reversed range; write {field.unreversed(first, last)}")


def _may_ask(grammar: Grammar, field: Field, text: str, *, alone: bool) -> bool:
    if grammar.question == "days":
        return field.is_day and alone and text == "?"
    return grammar.question == "always"


def _explain(grammar: Grammar, field: Field, entry: str) -> str:
    hint = grammar.explain(entry) if grammar.explain else None
    if hint:
        return hint
    if not entry:
        return f"is an empty list entry; use {field.wanted}"
    if _ENTRY.fullmatch(entry) and entry[0] != "?":
        return f"is not in {field.wanted}"
    return f"cannot be read; use *, {field.wanted}, a list, a range or a /step"


def _days(
    grammar: Grammar, words: Mapping[str, Word], doms: _Values, dows: _Values
) -> tuple[int, ...]:
    either = grammar.either_day(words["day of month"].text, words["day of week"].text)
    if not doms.sets and not dows.sets:
        return plain_table(doms.mask, dows.mask, either=either)
    by_dom = any_of(doms.mask, doms.sets)
    by_dow = any_of(0, (weekdays(dows.mask), *dows.sets))
    if either:
        return month_table(lambda first, length: by_dom(first, length) | by_dow(first, length))
    return month_table(lambda first, length: by_dom(first, length) & by_dow(first, length))
