"""What the command line prints: tables for people, JSON for programs.

A row is a line, however long: a terminal wraps it, and a pipe gets it whole. Colours are for
terminals.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from engine.logs import printable

_WIDEST = 1 << 16

_STYLES = {
    **dict.fromkeys(("succeeded", "active", "created"), "green"),
    **dict.fromkeys(("failed", "retrying", "paused", "exists", "waiting_for_upstream"), "yellow"),
    **dict.fromkeys(("dead", "refused", "missing"), "red"),
    **dict.fromkeys(("skipped", "completed", "cancelled", "not_started"), "dim"),
}


def cell(value: object) -> Text:
    """Return a value as safe text; a state's or an outcome's word has its colour."""
    text = "–" if value is None else printable(str(value))
    return Text(text, style=_STYLES.get(text, ""))


def print_line(line: Text) -> None:
    """Print one line on standard output, at once."""
    Console().print(line, soft_wrap=True)


def print_tree(tree: Tree) -> None:
    """Print a tree, a branch a line."""
    # A tree is cut at the width that it is given, whatever else is asked.
    Console(width=_WIDEST).print(tree, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under the names of their columns."""
    heading = [Text(column, style="bold") for column in columns]
    _print_aligned([heading, *(list(map(cell, row)) for row in rows)])


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a pair a line."""
    _print_aligned([[Text(name, style="bold"), cell(value)] for name, value in facts])


def _print_aligned(lines: Sequence[Sequence[Text]]) -> None:
    if not lines:
        return
    # Nothing is added after the last cell: it would wrap, too.
    *columns, _ = zip(*lines, strict=True)
    widths = [max(cell.cell_len for cell in column) for column in columns]
    for line in lines:
        for text, width in zip(line, widths, strict=False):
            text.pad_right(width - text.cell_len)
        print_line(Text("  ").join(line))


def print_json(value: object) -> None:
    """Print what the API answered, as it is, for programs."""
    click.echo(json.dumps(value, indent=2))


def dump_json(value: object) -> str:
    """Return a value on one line."""
    return json.dumps(value)
