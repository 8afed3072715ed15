"""Plots of results, as SVG that can be read on a light page and on a dark one.

matplotlib is imported here and nowhere else, and this module only where a report is written: it
comes with the extra `bench`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.result import Result
from bench.units import OURSELVES, PEER, written

INK, OURS, LIMIT = "#7d8590", "#2f81f7", "#d9534f"
"""With enough contrast on white and on near black; INK is also for others than ourselves."""
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "waterclock",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
}
"""Salted, so that the same figures give the same file."""
COUNT = 2
"""Plots of a report."""
COLUMNS = 2
"""Of the panels of one plot."""
GOAL_OF_LAG_MS = 25

Results = Mapping[str, Result]


class Plot(NamedTuple):
    name: str
    says: str
    draws: Callable[[Figure, Results], bool]
    """Draws it, or returns False where the results do not have it."""


def draw(results: Results, folder: Path) -> Iterator[tuple[Path, str]]:
    """Write the first plots that the results have into the folder; yield each with what it says."""
    left = COUNT
    with mpl.rc_context(STYLE):
        for plot in PLOTS:
            figure, path = Figure(layout="constrained"), folder / f"{plot.name}.svg"
            if left and plot.draws(figure, results):
                # Without a date, which would make each run's file another one.
                figure.savefig(path, transparent=True, metadata={"Date": None})
                left -= 1
                yield path, plot.says


def _peers(figure: Figure, results: Results) -> bool:
    rates = by_peer(results["peers"]) if "peers" in results else {}
    if not rates:
        return False
    rows = -(-len(rates) // COLUMNS)
    figure.set_size_inches(8, rows * (0.5 + 0.2 * max(len(who) for who in rates.values())))
    for place, (workload, who) in enumerate(rates.items(), 1):
        axes = figure.add_subplot(rows, COLUMNS, place)
        ordered = dict(sorted(who.items(), key=lambda item: item[1]))
        _bars(axes, ordered, lambda name: name.startswith(OURSELVES))
        title = workload.replace("_", " ").replace(" per s", " a second")
        axes.set_title(title, loc="left", fontsize=8)
        axes.set_xscale("log")
        axes.set_xlim(right=max(who.values()) * 10)
        axes.xaxis.set_visible(False)
    return True


def by_peer(result: Result) -> dict[str, dict[str, float]]:
    """Return workload → who → how many a second, of the figures that are rates."""
    found: dict[str, dict[str, float]] = {}
    for metric, value in result["metrics"].items():
        workload, _, who = metric.partition(PEER)
        if who and workload.endswith("per_s") and value > 0:
            found.setdefault(workload, {})[who] = value
    return found


def _lag(figure: Figure, results: Results) -> bool:
    lags = (
        {p: by_rate(results["steady"], f"lag_ms_{p}") for p in LINES} if "steady" in results else {}
    )
    if not any(lags.values()):
        return False
    figure.set_size_inches(6, 2.8)
    axes = figure.subplots()
    for percentile, points in lags.items():
        axes.plot([*points], [*points.values()], LINES[percentile], color=OURS, label=percentile)
    axes.axhline(GOAL_OF_LAG_MS, color=LIMIT, linewidth=1, label="goal of p99")
    axes.set(xscale="log", yscale="log", xlabel="jobs due a second", ylabel="lag, ms")
    axes.set_xticks([*lags["p50"]])
    axes.grid(True, which="major")
    axes.legend(frameon=False)
    for axis in (axes.xaxis, axes.yaxis):
        _write_out(axis)
    return True


LINES = {"p50": "o-", "p99": "s--", "max": "^:"}


def by_rate(result: Result, metric: str) -> dict[int, float]:
    """Return rate → value, of the figures `<metric>_at_<rate>`, the lowest rate first.

    What took no whole millisecond is taken for one: there is no 0 on the scale."""
    rates = {name: re.fullmatch(rf"{metric}_at_(\d+)", name) for name in result["metrics"]}
    found = {int(m[1]): max(1.0, result["metrics"][name]) for name, m in rates.items() if m}
    return dict(sorted(found.items()))


def _ratios(figure: Figure, results: Results) -> bool:
    found = {
        f"{name} {metric.removeprefix('ratio').replace('_', ' ')}".strip(): value
        for name, result in reversed([*results.items()])
        for metric, value in result["metrics"].items()
        if metric.startswith("ratio")
    }
    if not found:
        return False
    figure.set_size_inches(6, 0.7 + 0.24 * len(found))
    axes = figure.subplots()
    _bars(axes, found, lambda _: True)
    axes.axvline(1, color=LIMIT, linewidth=1)
    axes.set_xlim(right=1.1 * max(1, *found.values()))
    _write_out(axes.xaxis)
    return True


def _bars(axes: Axes, values: Mapping[str, float], is_ours: Callable[[str], bool]) -> None:
    """Draw a bar for each name, the last one on top, with its figure beside it."""
    colours = [OURS if is_ours(name) else INK for name in values]
    bars = axes.barh([name.replace("_", " ") for name in values], [*values.values()], color=colours)
    axes.bar_label(bars, [written(value) for value in values.values()], padding=3, fontsize=8)
    axes.tick_params(axis="y", left=False, labelsize=8)


def _write_out(axis: Axis) -> None:
    """Write the figures at an axis without exponents."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))
    axis.set_minor_formatter(NullFormatter())


PLOTS = (
    Plot("peers", "How many a second, beside peers (logarithmic)", _peers),
    Plot("lag", "How late recurring jobs fire, by how many are due a second", _lag),
    Plot("ratios", "How much of the yardstick's speed is reached", _ratios),
)
"""The most telling first."""
