"""What the doctor judges by, and where it comes from. It only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from engine import __version__
from engine.clock import Clock
from engine.execution import DeadReason
from engine.plan import ZONE_DATABASE
from engine.store import Store
from engine.store.audit import Audit, audit_shard
from engine.store.facts import ServerFacts, read_server
from engine.store.fleet import (
    SchedulerStanding,
    ShardStanding,
    WorkerStanding,
    known_queues,
    read_oldest_due,
    read_schedulers,
    read_shards,
    read_workers,
)
from engine.store.letter_search import LetterFilter, count_letters, find_letters
from engine.store.phase import Phase, read_phase
from engine.store.processes import Process, read_processes
from engine.store.standing import QueueStanding
from engine.store.zones import read_editions

LOOK_AGAIN_MS = 1_000
LATE_MS = 2_000
"""From so late on a shard is looked at twice."""
SAMPLE = 200
"""Jobs of each shard, and members of its index, unless all are asked for."""
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class LetterFacts:
    total: int
    most: int
    last_hour: int
    hour_before: int
    poison_last_hour: int
    """As far as one search looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was found of one deployment."""

    server: ServerFacts
    phase: Phase | None
    """Of a move to another server; None for a deployment that works."""
    shards: Sequence[ShardStanding]
    oldest_due_later: dict[int, int | None]
    """Of late shards: what was due the longest a moment later."""
    schedulers: Sequence[SchedulerStanding]
    workers: Sequence[WorkerStanding]
    queues: Sequence[QueueStanding]
    processes: Sequence[Process]
    letters: LetterFacts
    audit: Audit
    version: str = __version__
    """With `zones`, of the process that looks."""
    zones: str = ZONE_DATABASE
    zones_before: frozenset[str] = frozenset()
    """Other editions by which next times of some shard may have been worked out."""


async def collect(store: Store, clock: Clock, *, is_full: bool = False) -> Facts:
    """Return the facts. Looks twice, a second apart, if something is late. `is_full` has the whole
    index looked at, not a sample of each shard."""
    now = clock.now_ms()
    processes = await read_processes(store, now)
    queues = await known_queues(store, processes)
    names = [standing.queue for standing in queues]
    shards = await read_shards(store, names, now)
    later: dict[int, int | None] = {}
    if any(shard.lag_ms >= LATE_MS for shard in shards):
        await asyncio.sleep(LOOK_AGAIN_MS / 1000)
        later = dict(enumerate(await read_oldest_due(store)))
    audit = Audit()
    for shard in store.layout.shards:
        audit += await audit_shard(store, shard, most=None if is_full else SAMPLE)
    return Facts(
        server=await read_server(store),
        phase=await read_phase(store.client),
        shards=shards,
        oldest_due_later=later,
        schedulers=await read_schedulers(store, now),
        workers=await read_workers(store, processes, names, now),
        queues=queues,
        processes=processes,
        letters=await _letters(store, now),
        audit=audit,
        zones_before=frozenset().union(*await read_editions(store)) - {ZONE_DATABASE},
    )


async def _letters(store: Store, now: int) -> LetterFacts:
    hour = LetterFilter(from_at=now - HOUR_MS)
    before = LetterFilter(from_at=now - 2 * HOUR_MS, to_at=now - HOUR_MS - 1)
    poison = LetterFilter(from_at=now - HOUR_MS, reason=DeadReason.POISON)
    return LetterFacts(
        total=await count_letters(store, LetterFilter()),
        most=store.config.dead_limit,
        last_hour=await count_letters(store, hour),
        hour_before=await count_letters(store, before),
        poison_last_hour=len((await find_letters(store, poison)).places),
    )
