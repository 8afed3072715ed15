"""Results of the load harness as tests make them up, and what bench/README.md says of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.result import Result, as_text

PAGE = (Path(__file__).parents[1] / "bench/README.md").read_text("utf-8")
IN_FULL_RUNS = {"*_of_a_million"}
"""Rows of the tables for what a small run leaves out."""


def result(
    metrics: Mapping[str, float], scenario: str = "spike", server: str = "valkey 9.1.2"
) -> Result:
    environment: dict[str, Any] = {
        "at": "2026-11-30T12:00:00+00:00",
        "commit": "0123456789ab",
        "is_dirty": False,
        "server": server,
        "allocator": "libc",
        "cpus": 2,
        "cpu_model": "Fast",
        "memory_mb": 4096,
        "python": "3.11.0",
        "event_loop": "uvloop",
        "payload_bytes": 100,
    }
    return Result(
        scenario=scenario,
        jobs=100,
        is_quick=False,
        metrics=dict(metrics),
        notes={},
        environment=environment,
    )


def put(path: Path, found: Result) -> str:
    """Write a result, and return the path as a word of a command line."""
    path.write_text(as_text(found), "utf-8")
    return str(path)


def rows_of(scenario: str) -> list[str]:
    """Return the metrics in a scenario's table."""
    _, _, rest = PAGE.partition(f"\n### {scenario}\n")
    section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def stands_for(row: str, metric: str) -> bool:
    """Return whether a row of a table is for a metric: `*` is any text, and a word in capitals a
    number or a name."""
    pattern = re.sub(r"[A-Z]{3,}", r"[a-z0-9_]+", re.escape(row).replace(r"\*", ".+"))
    return re.fullmatch(pattern, metric) is not None
