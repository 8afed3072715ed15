"""Schedulers and workers as they announce themselves: who runs, where, since when, with what.

It only informs those who look at a fleet. Shards are shared out and executions taken over by
leases, never by what stands here. Consumers in other languages announce nothing: the server knows
their names (see fleet.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from engine import codec
from engine.keys import PROCESSES
from engine.store import Store

GONE_AFTER_MS = 20_000
"""A process that was silent for so long counts as gone."""


class Role(StrEnum):
    SCHEDULER = "scheduler"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Process:
    """What one scheduler or worker says of itself. One process that is both says it twice, under
    two names."""

    name: str
    """The holder of leases, or the consumer."""
    role: Role
    host: str
    pid: int
    version: str
    zones: str
    """The edition of its time zone database."""
    started_at: int
    seen_at: int
    """By the server's clock, as all instants here."""
    skew_ms: int
    """How far its machine's wall clock is ahead of the server's."""
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    running: int | None = None
    """Executions that it runs. Like the two above, of a worker."""


async def announce_process(store: Store, process: Process) -> None:
    """Say that a process is alive, in place of what it said before."""
    fields = asdict(process)
    await store.client.hset(PROCESSES, fields.pop("name"), codec.dump_json(fields))


async def forget_process(store: Store, name: str) -> None:
    """Take a process that stops off the list."""
    await store.client.hdel(PROCESSES, name)


async def read_processes(store: Store, now: int) -> list[Process]:
    """Return the processes that are not gone, in order of their names. Passes over what another
    version wrote and this one cannot read."""
    found = [_load(*row) for row in (await store.client.hgetall(PROCESSES)).items()]
    alive = [one for one in found if one is not None and one.seen_at > now - GONE_AFTER_MS]
    return sorted(alive, key=lambda process: process.name)


async def sweep_processes(store: Store, now: int) -> int:
    """Remove the processes that are gone; return how many."""
    rows = (await store.client.hgetall(PROCESSES)).items()
    found = {name: _load(name, data) for name, data in rows}
    gone = [n for n, one in found.items() if one is None or one.seen_at <= now - GONE_AFTER_MS]
    return int(await store.client.hdel(PROCESSES, *gone)) if gone else 0


def _load(name: bytes, data: bytes) -> Process | None:
    try:
        fields: dict[str, Any] = codec.load_json(data)
        fields["queues"], fields["role"] = tuple(fields["queues"]), Role(fields["role"])
        return Process(name.decode(), **fields)
    except (ValueError, TypeError, KeyError):
        return None
