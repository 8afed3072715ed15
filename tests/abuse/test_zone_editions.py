"""The time zone database is updated between the working out of a next time and its firing: row 80
of the list of abuses. The newer edition is that of a real process; what happens to times around now
is in integration/test_replanner.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tzdata
from fleet import eventually, fired
from invariants import read_shard
from rezoning import ZONE, cron
from seeding import registration

from engine.clock import ManualClock
from engine.embedded import EmbeddedServer
from engine.plan import ZONE_DATABASE
from engine.replanner import Replanner
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.jobs import create_jobs, get_job
from engine.store.leases import forget_scheduler, release_lease
from engine.store.server import time_ms
from engine.store.zones import read_editions

ROOT = Path(__file__).parents[2]
NEWER = "9999z"
NOW_AS = "Asia/Kolkata"
"""What the clock of ZONE is by the newer edition."""


def newer_tzdata(folder: Path) -> None:
    """Make a package `tzdata` of the newer edition."""
    package = folder / "tzdata"
    shutil.copytree(Path(tzdata.__file__).parent, package)
    init = package / "__init__.py"
    init.write_text(init.read_text().replace(ZONE_DATABASE, NEWER))
    shutil.copy(package / "zoneinfo" / NOW_AS, package / "zoneinfo" / ZONE)


@contextmanager
def newer_scheduler(server: EmbeddedServer, folder: Path) -> Iterator[None]:
    newer_tzdata(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "scheduler"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "WATERCLOCK_REDIS_URL": server.url},
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


async def take_over(store: Store, now: int) -> None:
    """Look at all shards as a scheduler of this process's edition."""
    clock = ManualClock(now)
    keeper = ShardKeeper(store, clock, "s1")
    replanner = Replanner(store, clock, keeper)
    await keeper.step()
    while await replanner.step() < 100:
        pass
    for lease in keeper.trusted():
        await release_lease(store, lease.shard, "s1")
    await forget_scheduler(store, "s1")


async def test_row_80_next_times_follow_a_newer_edition_and_never_an_older_one(
    store: Store, server: EmbeddedServer, tmp_path: Path
) -> None:
    now = await time_ms(store.client)
    old, new = (cron("0 9 1 7 *", zone).first_after(now, now) for zone in (ZONE, NOW_AS))
    assert old != new
    same = cron("0 9 1 7 *", "Asia/Tokyo").first_after(now, now)
    jobs = [registration(f"j{n}", cron("0 9 1 7 *"), next_run_at=old) for n in range(20)]
    other = registration("tokyo", cron("0 9 1 7 *", "Asia/Tokyo"), next_run_at=same)
    await create_jobs(store, [*jobs, other])
    await take_over(store, now)
    assert await read_editions(store) == [{ZONE_DATABASE}] * len(store.layout.shards)

    async def is_done() -> bool:
        return await read_editions(store) == [{NEWER}] * len(store.layout.shards)

    with newer_scheduler(server, tmp_path):
        await eventually(is_done, 20)
    after = [await read_shard(store, shard) for shard in store.layout.shards]
    moved = [event for space in after for event in space["ledger"] if event[0] == "replanned"]
    assert sorted(moved) == sorted(["replanned", job.job.id] for job in jobs)
    await take_over(store, now)
    for job in jobs:
        assert (await get_job(store, job.job.id)).job.next_run_at == new
    assert (await get_job(store, "tokyo")).job.next_run_at == same
    assert await read_editions(store) == [{NEWER, ZONE_DATABASE}] * len(store.layout.shards)
    assert await fired(store) == []
