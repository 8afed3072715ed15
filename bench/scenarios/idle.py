"""idle: what all processes use of the processor while a million jobs wait and nothing is due.

Server, scheduler, worker and API run as an operator starts them, with the usual settings. Those of
the engine are looked at in /proc, so it needs Linux.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from bench.distant import seed_distant
from bench.floor import server_cpu_s
from bench.processes import Fleet
from bench.stage import Metrics, Scenario, Stage
from engine.errors import Unusable
from engine.store import Store

ROLES = ("scheduler", "worker", "api")
SETTLE_S = 8
WATCH_S, QUICK_WATCH_S = 20, 5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


async def run(stage: Stage) -> Metrics:
    """Return the percent of one core that all use together, and each by itself."""
    if sys.platform != "linux":
        raise Unusable("idle looks at processes in /proc, which this system does not have")
    watch_s = QUICK_WATCH_S if stage.is_quick else WATCH_S
    stage.notes["watched_s"] = watch_s
    config = stage.config(port=0)
    async with stage.store() as store:
        await seed_distant(store, stage.size)
        with Fleet(config) as fleet:
            pids = {role: fleet.start("engine", role).pid for role in ROLES}
            await asyncio.sleep(SETTLE_S)
            before, started = await _cpu_s(store, pids), time.perf_counter()
            await asyncio.sleep(watch_s)
            after, elapsed = await _cpu_s(store, pids), time.perf_counter() - started
            fleet.check()
    used = {name: (after[name] - before[name]) / elapsed * 100 for name in before}
    each = {f"idle_{name}_cpu_percent": percent for name, percent in used.items()}
    return {"idle_cpu_percent": sum(used.values())} | each


async def _cpu_s(store: Store, pids: dict[str, int]) -> dict[str, float]:
    """Return the seconds of CPU time that each process has used, the server's among them."""
    used = {role: _process_cpu_s(pid) for role, pid in pids.items()}
    return {"server": await server_cpu_s(store.client)} | used


def _process_cpu_s(pid: int) -> float:
    # Behind the name, which may have blanks: utime and stime are the twelfth and thirteenth.
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


SCENARIO = Scenario(run, size=1_000_000, quick_size=20_000)
