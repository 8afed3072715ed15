"""The fleet as it stands: shards, the queues that are known, schedulers, workers. It only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.keys import GROUP, SCHEDULERS, bucket_of
from engine.names import streams_of
from engine.plan import wait_from
from engine.store import Store
from engine.store.leases import read_holders
from engine.store.processes import Process, Role, read_processes
from engine.store.standing import QueueStanding, list_queues, read_queue_standing

MOST_QUEUES = 1_000
SEEN_MS = 60_000
"""A consumer that holds nothing and did not ask for so long is not shown as a worker."""


@dataclass(frozen=True, slots=True)
class ShardStanding:
    """One shard: who fires for it, and what is in it."""

    index: int
    tag: str
    holder: str | None
    token: int
    """The fencing token of the newest lease; 0 if there never was one."""
    lease_left_ms: int
    oldest_due_at: int | None
    """The earliest time in the due index, of what waits for nothing else."""
    lag_ms: int
    """For how long that is due; 0 if it is to come."""
    buckets: int
    waiting: int
    """With `running`, in the ready streams of the queues that are known."""
    running: int
    jobs: int


@dataclass(frozen=True, slots=True)
class SchedulerStanding:
    """A scheduler that counts as alive. One of an older version announces nothing: `process` is
    None."""

    name: str
    shards: list[int]
    process: Process | None


@dataclass(frozen=True, slots=True)
class WorkerStanding:
    """A worker: one that announces itself, or a consumer whose name the server knows."""

    name: str
    queues: tuple[str, ...]
    running: int
    """Executions that it holds."""
    seen_at: int
    process: Process | None


async def known_queues(store: Store, processes: Sequence[Process]) -> list[QueueStanding]:
    """Return how queues stand: those that are listed, and those that a worker reads; 1,000 at the
    most."""
    listed = await list_queues(store, limit=MOST_QUEUES)
    named = {queue for process in processes for queue in process.queues}
    more = sorted(named - {standing.queue for standing in listed})[: MOST_QUEUES - len(listed)]
    return listed + [await read_queue_standing(store, queue) for queue in more]


async def read_shards(store: Store, queues: Sequence[str], now: int) -> list[ShardStanding]:
    """Return how each shard stands; what waits and runs is counted in the streams of `queues`."""
    oldest = await read_oldest_due(store)
    holders = await read_holders(store)
    streams = [stream for queue in queues for stream in streams_of(queue)]
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.hget(shard.fence, "token")
        pipe.zcard(shard.buckets)
        pipe.zcard(shard.jobs)
        for stream in streams:
            pipe.xlen(shard.ready(stream))
            pipe.xpending(shard.ready(stream), GROUP)
    replies = iter(await pipe.execute(raise_on_error=False))
    found = []
    for shard, due_at, (holder, left) in zip(store.layout.shards, oldest, holders, strict=True):
        token, buckets, jobs = (_sound(next(replies)) for _ in range(3))
        length = taken = 0
        for _ in streams:
            length += int(_sound(next(replies)))
            taken += _pending(next(replies))
        found.append(
            ShardStanding(
                index=shard.index,
                tag=shard.tag,
                holder=holder,
                token=int(token or 0),
                lease_left_ms=max(0, left),
                oldest_due_at=due_at,
                lag_ms=0 if due_at is None else max(0, now - due_at),
                buckets=int(buckets),
                # Read one after the other: work may end in between.
                waiting=max(0, length - taken),
                running=taken,
                jobs=int(jobs),
            )
        )
    return found


async def count_jobs(store: Store) -> int:
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.zcard(shard.jobs)
    return sum(await pipe.execute())


async def read_oldest_due(store: Store) -> list[int | None]:
    """Return for each shard the earliest time in its due index, None if nothing waits for a time.
    What waits for room, a permit or a start of the deployment is not late: it is not counted."""
    shards, untimed = store.layout.shards, bucket_of(wait_from(0))
    pipe = store.client.pipeline(transaction=False)
    for shard in shards:
        pipe.zrange(shard.buckets, "-inf", f"({untimed}", byscore=True, offset=0, num=1)
    firsts = await pipe.execute()
    pipe = store.client.pipeline(transaction=False)
    for shard, first in zip(shards, firsts, strict=True):
        pipe.zrange(shard.due(first[0].decode() if first else "0"), 0, 0, withscores=True)
    return [int(rows[0][1]) if rows else None for rows in await pipe.execute()]


async def read_schedulers(store: Store, now: int) -> list[SchedulerStanding]:
    """Return the schedulers that count as alive or hold a lease, in order of their names."""
    names = {
        name.decode() for name in await store.client.zrange(SCHEDULERS, now, "+inf", byscore=True)
    }
    shards: dict[str, list[int]] = {}
    for index, (holder, _) in enumerate(await read_holders(store)):
        if holder:
            shards.setdefault(holder, []).append(index)
    known = {p.name: p for p in await read_processes(store, now) if p.role is Role.SCHEDULER}
    return [
        SchedulerStanding(name, shards.get(name, []), known.get(name))
        for name in sorted({*names, *shards, *known})
    ]


async def read_workers(
    store: Store, processes: Sequence[Process], queues: Sequence[str], now: int
) -> list[WorkerStanding]:
    """Return who works, in order of the names: the workers that announce themselves, and the
    consumers of `queues` that hold something, or asked for work within a minute."""
    announced = {process.name: process for process in processes if process.role is Role.WORKER}
    held: Counter[str] = Counter()
    idle: dict[str, int] = {}
    reads: dict[str, set[str]] = {}
    for queue, consumer in await _consumers(store, queues):
        name = consumer["name"].decode()
        if consumer["pending"] or consumer["idle"] < SEEN_MS:
            held[name] += consumer["pending"]
            idle[name] = min(consumer["idle"], idle.get(name, consumer["idle"]))
            reads.setdefault(name, set()).add(queue)
    found = [
        WorkerStanding(name, one.queues, held[name], one.seen_at, one)
        for name, one in announced.items()
    ]
    found += [
        WorkerStanding(name, tuple(sorted(reads[name])), held[name], now - idle[name], None)
        for name in held.keys() - announced.keys()
    ]
    return sorted(found, key=lambda worker: worker.name)


async def _consumers(store: Store, queues: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return (queue, what the server knows) of each consumer of each stream."""
    places = [
        (queue, shard.ready(stream))
        for queue in queues
        for stream in streams_of(queue)
        for shard in store.layout.shards
    ]
    pipe = store.client.pipeline(transaction=False)
    for _, ready in places:
        pipe.xinfo_consumers(ready, GROUP)
    replies = await pipe.execute(raise_on_error=False) if places else []
    return [
        (queue, consumer)
        for (queue, _), reply in zip(places, replies, strict=True)
        if not _is_missing(reply)
        for consumer in _sound(reply)
    ]


def _pending(reply: Any) -> int:
    return 0 if _is_missing(reply) else int(_sound(reply)["pending"])


def _is_missing(reply: Any) -> bool:
    """Return whether a reply says that there is no such stream, or that nobody has read it."""
    return isinstance(reply, Exception) and str(reply).startswith(("NOGROUP", "no such key"))


def _sound(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise reply
    return reply
