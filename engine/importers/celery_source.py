"""Celery's schedule as Python source: read, and never run.

Taken are literals, sums and products of numbers, names that the same file binds to such, and four
calls: `crontab(…)` stays a text for the dialect of that name, `timedelta(…)` is its seconds,
`schedule(…)` and `solar(…)` are mappings with a `__type__`, as RedBeat stores them. All else is
refused by its line: its value is known only to a program that runs.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from engine.errors import BadInput

MAX_CHARS = 1_000_000
SCHEDULES = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
ZONES = ("timezone", "CELERY_TIMEZONE")

_ADDED_BY_CALL = "add_periodic_task"
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_MOST_STEPS = 10_000


class SourceEntry(NamedTuple):
    """One entry of the schedule, as it stands in the file."""

    line: int
    name: str | None
    value: ast.expr


@dataclass(slots=True)
class Source:
    """What a file says of celery's schedule."""

    entries: list[SourceEntry] = field(default_factory=list)
    timezone: str | None = None
    names: dict[str, ast.expr] = field(default_factory=dict)
    """What the file binds names to, each once."""


def read_source(text: str) -> Source:
    """Return the entries of every schedule in a file. Refuses with BadInput what is no Python."""
    tree = _parse(text)
    source = Source()
    _bind_names(source, tree)
    for node in ast.walk(tree):
        for name, value in _settings(node):
            if name in SCHEDULES:
                source.entries += _entries(value)
            elif name in ZONES and isinstance(value, ast.Constant) and value.value is not None:
                source.timezone = str(value.value)
        source.entries += _single(node)
    source.entries.sort(key=lambda entry: entry.line)
    return source


def value_of_text(text: str) -> Any:
    """Return what one expression stands for. Refuses with BadInput what is none of the above."""
    tree = _parse(text.strip())
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise BadInput(f"{text[:64]!r} is not one expression")
    return Reader({}).value(tree.body[0].value)


class Reader:
    """Turns expressions into values, within a bounded number of steps."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self._names = names
        self._steps = 0

    def value(self, node: ast.expr) -> Any:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise BadInput(f"line {node.lineno}: more than {_MOST_STEPS} values")
        match node:
            case ast.Constant(value=str() | int() | float() | None as value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return [self.value(item) for item in items]
            case ast.Dict():
                return self._mapping(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.BinOp(op=op) if isinstance(op, _ARITHMETIC):
                return self._arithmetic(node)
            case ast.Name(id=name) if name in self._names:
                return self._named(name)
            case ast.Call():
                return self._call(node)
            case _:
                raise _not_plain(node)

    def _mapping(self, node: ast.Dict) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = None if key is None else self.value(key)
            if not isinstance(name, str):
                raise _not_plain(key or value)
            if name in found:
                raise BadInput(f"line {value.lineno}: the key {name!r} is there twice")
            found[name] = self.value(value)
        return found

    def _named(self, name: str) -> Any:
        # While a name is worked out it is not there, so one that needs itself is refused.
        node = self._names.pop(name)
        try:
            return self.value(node)
        finally:
            self._names[name] = node

    def _number(self, node: ast.expr) -> int | float:
        value = self.value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _not_plain(node)
        return value

    def _arithmetic(self, node: ast.BinOp) -> float:
        left, right = self._number(node.left), self._number(node.right)
        try:
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case _:
                    return left / right
        except (ZeroDivisionError, OverflowError):
            raise _not_plain(node) from None

    def _call(self, node: ast.Call) -> Any:
        name = _last_name(node.func)
        if name == "crontab":
            return f"crontab({ast.unparse(node).partition('(')[2]}"
        if name not in ("timedelta", "schedule", "solar"):
            raise _not_plain(node)
        args = [self.value(arg) for arg in node.args]
        given = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        try:
            if name == "timedelta":
                return timedelta(*args, **given).total_seconds()  # type: ignore[arg-type]
            if name == "schedule":
                names = ("run_every", "relative")
                bound = _bound(node, names, args, given)
                return {
                    "__type__": "interval",
                    "every": bound.get("run_every"),
                    "relative": bound.get("relative", False),
                }
            return {"__type__": "solar", **_bound(node, ("event", "lat", "lon"), args, given)}
        except (TypeError, OverflowError):
            raise _not_plain(node) from None


def _bound(
    node: ast.Call, names: tuple[str, ...], args: list[Any], given: dict[Any, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name."""
    bound = dict(zip(names, args, strict=False)) | given
    if len(args) > len(names) or not set(names).issuperset(bound):
        raise _not_plain(node)
    return bound


def _parse(text: str) -> ast.Module:
    if len(text) > MAX_CHARS:
        raise BadInput(f"more than {MAX_CHARS} characters of Python; cut out the schedule")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(text)
    except SyntaxError as error:
        raise BadInput(f"not Python at line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise BadInput("not Python that can be read") from None


def _bind_names(source: Source, tree: ast.Module) -> None:
    twice = set()
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    twice |= {target.id} & source.names.keys()
                    source.names[target.id] = node.value
    for name in twice:
        del source.names[name]


def _settings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement or a call sets, and what it sets them to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((_last_name(target), value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield _last_name(target), value
        case ast.Call(func=ast.Attribute(attr="update"), args=args, keywords=keywords):
            yield from ((keyword.arg or "", keyword.value) for keyword in keywords)
            for arg in args:
                if isinstance(arg, ast.Dict):
                    yield from (
                        (str(key.value), value)
                        for key, value in zip(arg.keys, arg.values, strict=True)
                        if isinstance(key, ast.Constant)
                    )


def _entries(value: ast.expr) -> Iterator[SourceEntry]:
    if not isinstance(value, ast.Dict):
        yield SourceEntry(value.lineno, None, value)
        return
    for key, entry in zip(value.keys, value.values, strict=True):
        is_text = isinstance(key, ast.Constant) and isinstance(key.value, str)
        name = str(key.value) if is_text and isinstance(key, ast.Constant) else None
        yield SourceEntry((key or entry).lineno, name, entry)


def _single(node: ast.AST) -> Iterator[SourceEntry]:
    """Yield the entries that are set one by one: `beat_schedule["name"] = …`, and by a call."""
    match node:
        case ast.Assign(
            targets=[ast.Subscript(value=where, slice=ast.Constant(value=str() as name))],
            value=value,
        ) if _last_name(where) in SCHEDULES:
            yield SourceEntry(node.lineno, name, value)
        case ast.Call(func=func) if _last_name(func) == _ADDED_BY_CALL:
            yield SourceEntry(node.lineno, None, node)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _not_plain(node: ast.expr) -> BadInput:
    return BadInput(
        f"line {node.lineno}: {ast.unparse(node)[:64]!r} is known only to a program that runs, and"
        " nothing is run here; write the value itself"
    )
