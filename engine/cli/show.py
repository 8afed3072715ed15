"""What the command line prints: tables for people, JSON for programs.

On a terminal there are colours and the window's width is kept; into a pipe or file go plain lines,
each as long as it needs to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.logs import printable

_UNLIMITED = 100_000

_STYLES = {
    **dict.fromkeys(("succeeded", "active", "created"), "green"),
    **dict.fromkeys(("failed", "retrying", "paused", "exists"), "yellow"),
    **dict.fromkeys(("dead", "refused"), "red"),
    **dict.fromkeys(("skipped", "completed"), "dim"),
}


def console() -> Console:
    """Return a console on standard output that takes text as it is, without markup of any kind."""
    found = Console(markup=False, emoji=False, highlight=False)
    return found if found.is_terminal else Console(width=_UNLIMITED, color_system=None)


def cell(value: object) -> Text:
    """Return a value as safe text; a state's or an outcome's word has its colour."""
    text = "–" if value is None else printable(str(value))
    return Text(text, style=_STYLES.get(text, ""), overflow="fold")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(cell, row))
    console().print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a pair a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    for name, value in facts:
        table.add_row(name, cell(value))
    console().print(table)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))
