"""failover: kill -9 of scheduler, worker and server under load, and the time until all is well.

Two schedulers and two workers, real processes, fire and execute at a steady rate while most of the
jobs sleep. Workers are killed, schedulers, the server, and all of it at once, as by a machine that
fails; each is replaced before the next goes. Then every nominal time is accounted for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.account import Account
from bench.drill import Drill, Kill
from bench.processes import Fleet
from bench.recorder import read_calls
from bench.seeding import CHUNK, WORKER, seed
from bench.stage import PAYLOAD, Metrics, Scenario, Stage
from engine.codec.positions import Position
from engine.errors import Unusable
from engine.model import Overlap
from engine.registration import Timing, register
from engine.store import Store
from engine.store.following import behind, read_between, read_ends
from engine.store.jobs import StoredJob, create_jobs, load_jobs
from engine.store.ledger import load_event
from engine.store.server import time_ms

ASLEEP = Timing("every 30d")
PERIOD_S = 10
"""How often each job of the load fires, where there are jobs enough for that."""
KEEP_ALL = 10_000_000
"""Entries of ledgers: nothing of a run is trimmed."""


@dataclass(frozen=True, slots=True)
class Course:
    """What is done, and for how long a silent process keeps what it holds."""

    fires_per_s: int
    kills: dict[str, int]
    leases_ms: int


FULL = Course(1_000, {"worker": 3, "scheduler": 3, "server": 3, "machine": 3}, 10_000)
QUICK = Course(200, {"worker": 1, "scheduler": 1, "server": 1, "machine": 1}, 1_000)


async def run(stage: Stage) -> Metrics:
    """Return how long it took until all was well after each kind of kill, and what was lost or
    doubled on the way."""
    if stage.server is None:
        raise Unusable("failover kills its server and starts it again: run it without --url")
    course = QUICK if stage.is_quick else FULL
    load = min(stage.size, course.fires_per_s * PERIOD_S)
    config = stage.config(
        lease_ttl_ms=course.leases_ms,
        execution_lease_ms=course.leases_ms,
        ledger_limit=KEEP_ALL,
        worker_concurrency=500,
    )
    async with stage.store() as store:
        await seed(store, stage.size - load, await time_ms(store.client), ASLEEP)
        names = await _start_load(store, load, course.fires_per_s)
        begin = await read_ends(store)
    kills: dict[str, list[Kill]] = {}
    with TemporaryDirectory() as folder, Fleet(config) as fleet:
        calls = Path(folder, "calls")
        drill = Drill(config, stage.server, fleet, ("bench.recorder", str(calls)))
        await drill.begin()
        for what, count in course.kills.items():
            kills[what] = [await drill.kill(what) for _ in range(count)]
        await drill.end()
        called = read_calls(calls)
    async with stage.store() as store:
        account = await _account(store, begin)
        owed = {job.job.id: _owed(job) for job in await _load_all(store, names)}
        shards = frozenset(store.layout.shard_of(name).index for name in names)
    felt = _felt(account, kills, shards)
    stage.notes["kills"] = felt
    waits = {name: each for name, each in felt.items() if name.endswith("_ms")}
    return {
        **{f"{name}_p50": median(each) for name, each in waits.items()},
        **{f"{name}_max": max(each) for name, each in waits.items()},
        "nominal_times": sum(map(len, owed.values())),
        "on_time_ratio": account.on_time_ratio,
        "skipped": account.skipped,
        "lost": account.lost(owed),
        "doubled": account.doubled(called),
        "called_again": called.total() - len(called),
    }


async def _start_load(store: Store, count: int, per_s: int) -> list[str]:
    """Register jobs whose phases are spread evenly; return their ids."""
    period_s = max(1, count // per_s)
    timing = Timing(f"every {period_s}s")
    now = await time_ms(store.client)
    jobs = [
        register(
            # An interval counts from when its job was registered.
            now=now - period_s * 1000 * n // count,
            target=WORKER,
            job_id=f"load-{n:012x}",
            timing=timing,
            payload=PAYLOAD,
            overlap=Overlap.ALLOW,
        )
        for n in range(count)
    ]
    for first in range(0, count, CHUNK):
        await create_jobs(store, jobs[first : first + CHUNK])
    return [made.job.id for made in jobs]


async def _load_all(store: Store, names: Sequence[str]) -> list[StoredJob]:
    jobs: list[StoredJob] = []
    for first in range(0, len(names), CHUNK):
        jobs += await load_jobs(store, names[first : first + CHUNK])
    return jobs


def _owed(stored: StoredJob) -> range:
    """Return the nominal times of a job up to the next one, which is still to come."""
    until = stored.next_nominal_at
    assert until is not None  # an interval has no end
    return range(stored.job.anchor_at, until, stored.plan.interval_ms)


async def _account(store: Store, begin: Position) -> Account:
    account, end = Account(), await read_ends(store)
    while entries := await read_between(store, begin, end, CHUNK):
        for entry in entries:
            for event in entry.events:
                account.add(entry.shard, load_event(entry.id[0], event))
        begin = behind(begin, entries)
    return account


def _felt(
    account: Account, kills: Mapping[str, Sequence[Kill]], shards: frozenset[int]
) -> dict[str, list[int]]:
    """Return what was felt of each kill, by its kind and what it is.

    Raises RuntimeError for one that is felt to the end, and one that tells nothing.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for what, ones in kills.items():
        for kill in ones:
            again = account.taken_over_between(kill.since, kill.until)
            found[f"{what}_kill_taken_over"].append(len(again))
            if what == "worker":
                if not again:
                    raise RuntimeError("a worker was killed that held nothing")
                found["worker_kill_recovery_ms"].append(again[-1])
                continue
            waits = account.on_time_again(kill.since, kill.shards & shards)
            found[f"{what}_kill_recovery_ms"].append(waits[-1])
            if kill.answered_at:
                found[f"{what}_kill_first_fire_ms"].append(waits[0])
                found[f"{what}_load_ms"].append(kill.answered_at - kill.started_at)
    return found


SCENARIO = Scenario(run, size=1_000_000, quick_size=10_000, needs_persistence=True)
