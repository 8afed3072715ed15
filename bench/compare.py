"""Results held against each other: each figure before and after, and what became worse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.result import Result
from bench.units import better, written

WORSE_THAN = 0.05
CONDITIONS = (
    "server",
    "allocator",
    "server_settings",
    "cpus",
    "cpu_model",
    "python",
    "event_loop",
    "payload_bytes",
    "settings",
)
"""What of the environment must be the same for figures to be comparable."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: medians over all rounds, and after / before in each round, lowest first.

    A round that began at 0 has no ratio.
    """

    metric: str
    before: float
    after: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        return median(self.ratios) if self.ratios else None

    @property
    def is_sure(self) -> bool:
        """Whether all rounds went the same way."""
        return not self.ratios or self.ratios[0] >= 1 or self.ratios[-1] <= 1

    def is_worse(self, worse_than: float) -> bool:
        """Return whether more was lost than that, and the rounds agree."""
        return self.is_sure and self.lost() > worse_than

    def lost(self) -> float:
        """Return which part of it was lost: 0.1 for a rate of nine tenths, or a time of eleven.
        Negative for a gain, 0 for what is neither better nor worse."""
        way = better(self.metric)
        if self.ratio is None:
            return float("inf") if way * (self.after - self.before) < 0 else 0.0
        return way * (1 - self.ratio)


def compare(pairs: Sequence[tuple[Result, Result]]) -> list[Row]:
    """Return a row for each figure that all of the results have, in the order of the last ones.

    Each pair is a round: the result before, and the one after.
    """
    rounds = [(before["metrics"], after["metrics"]) for before, after in pairs]
    common = set.intersection(*({*metrics} for one in rounds for metrics in one))
    return [_row(name, rounds) for name in rounds[-1][1] if name in common]


def _row(name: str, rounds: Sequence[tuple[dict[str, float], dict[str, float]]]) -> Row:
    return Row(
        name,
        median(before[name] for before, _ in rounds),
        median(after[name] for _, after in rounds),
        tuple(sorted(after[name] / before[name] for before, after in rounds if before[name])),
    )


def differences(before: Result, after: Result) -> list[str]:
    """Return what in the conditions of two results makes their figures hard to compare."""
    found: list[tuple[str, Any, Any]] = [
        ("jobs", before["jobs"], after["jobs"]),
        ("is_quick", before["is_quick"], after["is_quick"]),
    ]
    first, second = before["environment"], after["environment"]
    found += [(name, first.get(name), second.get(name)) for name in CONDITIONS]
    return [f"{name}: {_text(a)}, then {_text(b)}" for name, a, b in found if a != b]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def table(rows: Iterable[Row], worse_than: float) -> str:
    """Return the rows as text, in columns; what lost more than `worse_than` is marked,
    with a question mark where the rounds do not agree."""
    head = ("", "before", "after", "ratio", "", "")
    cells = [head, *(_cells(row, worse_than) for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n in (0, 5) else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _cells(row: Row, worse_than: float) -> tuple[str, ...]:
    spread = f"({row.ratios[0]:.2f} to {row.ratios[-1]:.2f})" if len(row.ratios) > 1 else ""
    lost = row.lost()
    mark = "worse" if lost > worse_than else "better" if lost < -worse_than else ""
    if mark and not row.is_sure:
        mark += "?"
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    return row.metric, written(row.before), written(row.after), ratio, spread, mark
