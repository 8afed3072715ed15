"""`python -m bench SCENARIO [--jobs N] [--json FILE]`: run one scenario and print its figures."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from bench.scenarios import execute, http, plans, register, spike
from engine import __version__
from engine.config import Config
from engine.embedded import EmbeddedServer, find_server
from engine.store import Store

Scenario = Callable[[Store, int], Awaitable[dict[str, float]]]

SCENARIOS: dict[str, tuple[Scenario, int, int]] = {
    "spike": (spike.run, 200_000, 20_000),
    "execute": (execute.run, 100_000, 10_000),
    "http": (http.run, 30_000, 5_000),
    "register": (register.run, 200_000, 30_000),
    "plans": (plans.run, 100_000, 100_000),
}
"""Name → (function, jobs, jobs with --quick)."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("scenario", type=click.Choice(sorted(SCENARIOS)))
@click.option("--jobs", type=click.IntRange(min=1), help="how many jobs (a scenario has its own)")
@click.option("--quick", is_flag=True, help="a small run, under half a minute")
@click.option("--server", type=click.Path(path_type=Path), help="the server binary to start")
@click.option("--json", "out", type=click.Path(path_type=Path), help="write the result here too")
def main(
    scenario: str, jobs: int | None, quick: bool, server: Path | None, out: Path | None
) -> None:
    """Run SCENARIO on a server of its own and print the result as JSON."""
    run, usual, small = SCENARIOS[scenario]
    count = jobs or (small if quick else usual)
    binary = server or find_server()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer(Path(folder) / "data", binary=binary, appendonly=False) as started,
    ):
        metrics = _run_in_loop(_measure(run, started.url, count))
    result = {
        "scenario": scenario,
        "jobs": count,
        "metrics": {name: round(value, 3) for name, value in metrics.items()},
        "environment": _environment(binary),
    }
    text = json.dumps(result, indent=2)
    click.echo(text)
    if out is not None:
        out.write_text(text + "\n")


def _run_in_loop(work: Any) -> dict[str, float]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def _measure(run: Scenario, url: str, count: int) -> dict[str, float]:
    # Room for all of it: these scenarios measure the path, not the brake.
    config = Config(redis_url=url, max_ready=100 * count + 10_000)
    async with await Store.open(config) as store:
        return await run(store, count)


def _environment(binary: Path) -> dict[str, object]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "waterclock": __version__,
        "commit": commit.stdout.strip(),
        "server": " ".join(version.stdout.split()[:3]),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
