"""The report: results as one table and two plots, written between two marks of README."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.environment import ROOT
from bench.goals import Verdict, judge
from bench.peers import tables
from bench.result import Result, read_results
from bench.scenarios import NAMES
from bench.units import written
from engine.errors import BadInput, Unusable

README, RESULTS = ROOT / "README.md", ROOT / "bench/results"
BEGIN, END = (
    "<!-- figures: `python -m bench report` writes what follows -->",
    "<!-- figures end -->",
)


def load_plots() -> ModuleType:
    """Return the module that draws. Raises Unusable if what it needs is not installed."""
    try:
        from bench import plots
    except ImportError as error:
        raise Unusable(
            f"the report has plots, which need {error.name}: run `pip install -e '.[bench]'`"
        ) from None
    return plots


def write_report(folder: Path, page: Path) -> None:
    """Draw the results in a folder, into it, with a page for the peers; write the report of all
    into the page.

    Raises BadInput if there are no results, or if the page lacks the marks; Unusable if plots
    cannot be drawn.
    """
    plots, found = load_plots(), read_results(folder)
    results = {name: found[name] for name in NAMES if name in found}
    text = page.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise BadInput(f"{page} has no lines {BEGIN!r} and {END!r}, between which the report goes")
    parts = [_table(results), _conditions(results)]
    if "peers" in results:
        parts.append(_write_peers(results["peers"], folder / "peers.md", page))
    for path, says in plots.draw(results, folder):
        parts.append(f"![{says}]({_from(page, path)})\n")
    page.write_text("\n".join([before + begin, "", *parts, end + after]), "utf-8")


def _write_peers(result: Result, path: Path, page: Path) -> str:
    """Write what there is to say of the peers as a page of its own; return the link to it."""
    path.write_text(tables.page(result["notes"], _conditions({"peers": result})), "utf-8")
    return f"All peers, with versions and settings: [{path.name}]({_from(page, path)}).\n"


def _from(page: Path, path: Path) -> str:
    """Return a path as a link in the page."""
    return Path(os.path.relpath(path, page.parent)).as_posix()


def _table(results: Mapping[str, Result]) -> str:
    rows = ["| scenario | figure | goal | reached |", "|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, judge(results))]) + "\n"


def _row(verdict: Verdict) -> str:
    goal, mark = verdict.goal, {None: "", True: " ✓", False: " ✗"}[verdict.is_reached]
    return (
        f"| `{goal.scenario}` | {goal.says} (`{goal.metric}`) | {verdict.target()} |"
        f" {written(verdict.value)}{mark} |"
    )


def _conditions(results: Mapping[str, Result]) -> str:
    """Return on what the results were measured: once, where that is the same for all."""
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        found.setdefault(_condition(result), []).append(name)
    return (
        "\n".join(f"Measured {text}{_of(names, len(found))}." for text, names in found.items())
        + "\n"
    )


def _of(names: list[str], kinds: int) -> str:
    return "" if kinds == 1 else f" ({', '.join(f'`{name}`' for name in names)})"


def _condition(result: Result) -> str:
    e: dict[str, Any] = result["environment"]
    commit = f"commit {e['commit']}{' with changes' if e['is_dirty'] else ''}"
    return (
        f"{'in a small run (`--quick`) ' if result['is_quick'] else ''}on {e['at'][:10]}:"
        f" {e['cpus']} × {e['cpu_model']}, {e['memory_mb'] / 1024:.0f} GB; {e['server']}"
        f" ({e['allocator']}); Python {e['python']}, {e['event_loop']};"
        f" payload {e['payload_bytes']} bytes; {commit}"
    )
