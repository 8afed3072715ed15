"""What `waterclock top` shows of one frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from engine.cli.show import cell

MOST_ROWS = 16
LATE_MS = 1_000


def view(frame: dict[str, Any], trouble: str | None = None) -> RenderableType:
    """Return a frame as it is shown; `trouble` is why it is not fresh."""
    stats = frame["stats"]
    parts: list[RenderableType] = [_head(stats)]
    if trouble:
        parts.append(Text(f"not fresh: {trouble}", style="red"))
    parts += [
        _table(("QUEUE", "STATE", "WAITING", "HELD", "RUNNING"), _queues(frame["queues"])),
        _table(("HOLDER", "SHARDS", "LAG MS", "JOBS"), _holders(frame["shards"])),
        _table(("WORKER", "QUEUES", "RUNNING", "OF"), _workers(frame["workers"])),
        _table(("FAILED AT", "EXECUTION", "ATTEMPT", "OUTCOME", "ERROR"), _failures(stats)),
    ]
    return Group(*parts)


def _head(stats: dict[str, Any]) -> Text:
    line = Text(f"Waterclock  {_clock(stats['at'])}  ", style="bold")
    for name, unit in (
        ("fires", "fires"),
        ("completions", "completions"),
        ("failures", "failures"),
    ):
        style = "red" if name == "failures" and stats["failures_per_s"] else ""
        line.append(f"  {stats[f'{name}_per_s']:g} {unit}/s", style=style)
    p50, p99 = stats["lag_p50_ms"], stats["lag_p99_ms"]
    lag = "no fires" if p99 is None else f"p50 {p50} ms, p99 {p99} ms"
    line.append(f"   lag {lag}", style="yellow" if (p99 or 0) > LATE_MS else "")
    over = f"   over {stats['window_ms'] / 1000:g} s"
    line.append(over + (", sampled" if stats["is_sampled"] else ""), style="dim")
    return line


def _queues(queues: Sequence[dict[str, Any]]) -> Iterable[Sequence[object]]:
    def busy(queue: dict[str, Any]) -> int:
        return int(sum(queue["waiting"].values()) + sum(queue["held"].values()) + queue["running"])

    for queue in sorted(queues, key=busy, reverse=True):
        yield (
            queue["queue"],
            "paused" if queue["paused"] else "active",
            sum(queue["waiting"].values()),
            sum(queue["held"].values()),
            queue["running"],
        )


def _holders(shards: Sequence[dict[str, Any]]) -> Iterable[Sequence[object]]:
    """Yield a line for each scheduler, and one for the shards that nobody holds."""
    held: dict[str | None, list[dict[str, Any]]] = {}
    for shard in shards:
        held.setdefault(shard["holder"], []).append(shard)
    for holder, theirs in sorted(held.items(), key=lambda item: item[0] or ""):
        yield (
            Text("nobody", style="red") if holder is None else holder,
            " ".join(str(shard["shard"]) for shard in theirs),
            max(shard["lag_ms"] for shard in theirs),
            sum(shard["jobs"] for shard in theirs),
        )


def _workers(workers: Sequence[dict[str, Any]]) -> Iterable[Sequence[object]]:
    for worker in sorted(workers, key=lambda worker: worker["running"], reverse=True):
        queues = " ".join(worker["queues"])
        yield worker["worker"], queues, worker["running"], worker["concurrency"]


def _failures(stats: dict[str, Any]) -> Iterable[Sequence[object]]:
    for failure in stats["last_failures"]:
        yield (
            _clock(failure["at"]),
            failure["execution_id"],
            failure["attempt"],
            failure["outcome"],
            failure["error"] or failure["status_code"],
        )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> RenderableType:
    """Return rows under their columns, cut to what a screen holds."""
    every = list(rows)
    table = Table(box=None, title_justify="left", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, header_style="bold", no_wrap=True, overflow="ellipsis")
    for row in every[:MOST_ROWS]:
        table.add_row(*(one if isinstance(one, Text) else cell(one) for one in row))
    more = len(every) - MOST_ROWS
    parts: list[RenderableType] = [Text(), table]
    if more > 0:
        parts.append(Text(f"and {more} more", style="dim"))
    return Group(*parts)


def _clock(at: str) -> str:
    return datetime.fromisoformat(at).strftime("%H:%M:%S")
