"""The conditions of a run: what a figure means nothing without. Stamped in every result."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import redis.exceptions as driver

from bench.stage import PAYLOAD, Stage
from engine import __version__
from engine.store.connection import connect
from engine.store.server import server_name

ROOT = Path(__file__).parents[1]
SERVER_SETTINGS = (
    "appendonly",
    "appendfsync",
    "save",
    "io-threads",
    "hash-max-listpack-*",
    "zset-max-listpack-*",
    "list-max-listpack-size",
    "maxmemory",
    "hz",
)
"""Those of the server that move the figures."""


@dataclass(frozen=True, slots=True)
class Meter:
    """What had been used when a run began."""

    at: datetime
    started: float
    load: float
    own_cpu_s: float
    server: dict[str, Any]


async def start_meter(url: str) -> Meter:
    """Return where clocks and counters stand now."""
    load = os.getloadavg()[0]
    server = await _info(url)
    return Meter(datetime.now(UTC), time.perf_counter(), load, _own_cpu_s(), server)


async def describe(stage: Stage, before: Meter) -> dict[str, Any]:
    """Return the environment of a run that has just ended: values are JSON.

    `server_cpu_s` is null where the server is not the process that it was at the start.
    """
    after, settings = await _info(stage.url), await _server_settings(stage.url)
    is_same = after["run_id"] == before.server["run_id"]
    return {
        "at": before.at.isoformat(timespec="seconds"),
        "duration_s": round(time.perf_counter() - before.started, 1),
        "waterclock": __version__,
        **commit(),
        "server": " ".join(server_name(after)),
        "allocator": after.get("mem_allocator", "unknown"),
        "server_settings": settings,
        "cpus": os.cpu_count(),
        "cpu_model": _cpu_model(),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "event_loop": type(asyncio.get_running_loop()).__module__.partition(".")[0],
        "redis_py": version("redis"),
        "hiredis": version("hiredis"),
        "payload_bytes": len(PAYLOAD),
        "settings": dict(sorted(stage.settings.items())),
        "load_before": round(before.load, 2),
        "server_cpu_s": round(_cpu_s(after) - _cpu_s(before.server), 2) if is_same else None,
        "harness_cpu_s": round(_own_cpu_s() - before.own_cpu_s, 2),
    }


def commit() -> dict[str, Any]:
    """Return which commit the source is, and whether it was changed since; null outside of git."""
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return {"commit": head, "is_dirty": None if changed is None else bool(changed)}


def _git(*args: str) -> str | None:
    try:
        done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


async def _info(url: str) -> dict[str, Any]:
    async with connect(url) as client:
        info: dict[str, Any] = await client.info("everything")
        return info


async def _server_settings(url: str) -> dict[str, str]:
    """Return what the server says of itself, or nothing where it does not tell."""
    async with connect(url) as client:
        try:
            found: dict[Any, Any] = await client.config_get(*SERVER_SETTINGS)
        except driver.ResponseError:
            return {}
        return {_str(name): _str(value) for name, value in sorted(found.items())}


def _str(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


def _cpu_s(info: dict[str, Any]) -> float:
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _own_cpu_s() -> float:
    """Return the CPU time of this process and of those that it has started and seen end."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
