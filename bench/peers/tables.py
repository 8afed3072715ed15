"""The peers in a result as tables for readers: figures side by side, then versions and settings.

A figure stands with the number of jobs that gave it. The best of a column is bold; where that is
not Waterclock, it is behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.units import written

Row = Mapping[str, Any]
"""One workload of one peer, as `Measured.row` makes it."""


class Column(NamedTuple):
    """A figure of a workload, and whether more of it is better."""

    title: str
    workload: str
    figure: str
    is_more_better: bool = True


COLUMNS = (
    Column("spike: triggered a second", "spike", "triggers_per_s"),
    Column("spike: complete a second", "spike", "completed_per_s"),
    Column("recurring spike: triggered a second", "recurring", "triggers_per_s"),
    Column("immediate: executions a second", "immediate", "executions_per_s"),
    Column("steady: lag p50, ms", "steady", "lag_ms_p50", False),
    Column("steady: lag p99, ms", "steady", "lag_ms_p99", False),
)
NO_FIGURE = "–"
HEAD = """# Waterclock beside others

Medians of rounds in which all took turns; behind each the number of jobs, or the rate. Bold is
best. [bench/peers/README.md](../peers/README.md) says what each workload is, and how to read it.
"""


def page(notes: Mapping[str, Any], conditions: str) -> str:
    """Return the notes of a result as a page of Markdown; `conditions` say on what it was
    measured."""
    rows, skipped = notes.get("peers", []), notes.get("skipped", {})
    server = f"All but waterclock-embedded are on {notes.get('server')}.\n"
    parts = [HEAD, conditions, server, _figures(rows), _peers(rows)]
    if failed := [(row, error) for row in rows for error in row["errors"]]:
        parts.append(_list("Runs that failed", (_failure(*each) for each in failed)))
    if skipped:
        left_out = (f"{name}: {why}" for name, why in skipped.items())
        parts.append(_list("Left out, since not installed", left_out))
    return "\n".join(parts)


def _figures(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row["peer"] for row in rows))
    cells = {name: [_cell(rows, name, column) for column in COLUMNS] for name in names}
    head = ["peer", *(column.title for column in COLUMNS)]
    return _table(head, ([name, *cells[name]] for name in names))


def _cell(rows: Sequence[Row], name: str, column: Column) -> str:
    """Return a peer's figures of a column, one for each amount of work that it got."""
    found = [
        _mark(rows, row, column) + f" ({_amount(row)})"
        for row in rows
        if row["peer"] == name and row["workload"] == column.workload
        if column.figure in row["figures"]
    ]
    return "; ".join(found) or NO_FIGURE


def _mark(rows: Sequence[Row], row: Row, column: Column) -> str:
    """Return a figure, bold if it is the best. Lags are held against those of the same rate."""
    mine = row["figures"][column.figure]
    others = [
        other["figures"][column.figure]
        for other in rows
        if other["workload"] == column.workload and column.figure in other["figures"]
        if other.get("rate_per_s") == row.get("rate_per_s")
    ]
    # To be early is no better than to be on time.
    is_best = mine >= max(others) if column.is_more_better else mine <= max(0, min(others))
    return f"**{written(mine)}**" if is_best and len(others) > 1 else written(mine)


def _amount(row: Row) -> str:
    return f"{row['rate_per_s']:,}/s" if "rate_per_s" in row else f"{row['jobs']:,}"


def _peers(rows: Iterable[Row]) -> str:
    peers = {row["peer"]: row for row in rows}
    return _table(
        ["peer", "version", "settings"],
        ([name, row["version"], row["settings"]] for name, row in peers.items()),
    )


def _failure(row: Row, error: str) -> str:
    return f"{row['workload']} of {row['peer']}: {' '.join(error.split())[:200]}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _list(title: str, items: Iterable[str]) -> str:
    return f"{title}:\n\n" + "".join(f"- {item}\n" for item in items)
