"""How queues and hosts stand: what is set for them, what waits where, what runs. It only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.keys import GROUP
from engine.names import HTTP_QUEUE, SHELL_QUEUE, WORKER_QUEUE, Priority, streams_of
from engine.store import Store
from engine.store.gates import survey_gates
from engine.store.limits import Limit, Limits, Pushback, QueueSettings, read_limits


@dataclass(frozen=True, slots=True)
class Held:
    """How many executions wait in the due index, by what keeps them out of a ready stream."""

    by_queue: Counter[str] = field(default_factory=Counter)
    """The queue's own limits, or its pause."""
    by_groups: Counter[str] = field(default_factory=Counter)
    """By queue: their groups' shares of it."""
    by_room: Counter[str] = field(default_factory=Counter)
    """By queue: its ready streams are full."""
    by_host: Counter[str] = field(default_factory=Counter)

    def queues(self) -> set[str]:
        return {*self.by_queue, *self.by_groups, *self.by_room}


@dataclass(frozen=True, slots=True)
class QueueStanding:
    queue: str
    settings: QueueSettings
    waiting: dict[Priority, int]
    """Entries of the ready streams that nobody has taken."""
    running: int
    """Entries that a consumer holds."""
    held: dict[str, int]
    """What waits for a permit, by what it waits for: `queue`, `groups`, `room`."""


@dataclass(frozen=True, slots=True)
class HostStanding:
    host: str
    limit: Limit
    pushback: Pushback | None
    held: int
    """What waits for a permit of the host."""


async def list_queues(store: Store, *, after: str = "", limit: int = 100) -> list[QueueStanding]:
    """Return the queues that are known, in order of their names: those that have settings, or at
    whose gates something waits, and the usual ones. Of others nothing is listed."""
    limits, held = await read_limits(store), await _read_held(store)
    known = {HTTP_QUEUE, WORKER_QUEUE, SHELL_QUEUE, *limits.queues, *held.queues()}
    names = [name for name in sorted(known) if name > after][:limit]
    return await _queues(store, names, limits, held)


async def read_queue_standing(store: Store, queue: str) -> QueueStanding:
    """Return how one queue stands, whether it is known or not."""
    limits, held = await read_limits(store), await _read_held(store)
    [standing] = await _queues(store, [queue], limits, held)
    return standing


async def list_hosts(store: Store, *, after: str = "", limit: int = 100) -> list[HostStanding]:
    """Return the hosts that have limits, asked for less, or are waited for, in order of their
    names."""
    limits, held = await read_limits(store), await _read_held(store)
    known = {*limits.hosts, *limits.pushbacks, *held.by_host}
    names = [name for name in sorted(known) if name > after][:limit]
    return [_host(name, limits, held) for name in names]


async def read_host_standing(store: Store, host: str) -> HostStanding:
    """Return how one host stands, whether it is known or not."""
    return _host(host, await read_limits(store), await _read_held(store))


def _host(host: str, limits: Limits, held: Held) -> HostStanding:
    limit = limits.hosts.get(host, Limit())
    return HostStanding(host, limit, limits.pushbacks.get(host), held.by_host[host])


async def _queues(
    store: Store, names: Sequence[str], limits: Limits, held: Held
) -> list[QueueStanding]:
    pipe = store.client.pipeline(transaction=False)
    for queue in names:
        for stream in streams_of(queue):
            for shard in store.layout.shards:
                pipe.xlen(shard.ready(stream))
                pipe.xpending(shard.ready(stream), GROUP)
    replies = iter(await pipe.execute(raise_on_error=False) if names else ())
    found = []
    for queue in names:
        waiting, running = dict.fromkeys(Priority, 0), 0
        for priority in Priority:
            for _ in store.layout.shards:
                length, taken = _length(next(replies)), _taken(next(replies))
                # Read one after the other: work may end in between.
                waiting[priority] += max(0, length - taken)
                running += taken
        reasons = {
            "queue": held.by_queue[queue],
            "groups": held.by_groups[queue],
            "room": held.by_room[queue],
        }
        settings = limits.queues.get(queue, QueueSettings())
        found.append(QueueStanding(queue, settings, waiting, running, reasons))
    return found


def _length(reply: Any) -> int:
    if isinstance(reply, Exception):
        raise reply
    return int(reply)


def _taken(reply: Any) -> int:
    if isinstance(reply, Exception):
        if not str(reply).startswith("NOGROUP"):
            raise reply
        return 0
    return int(reply["pending"])


async def _read_held(store: Store) -> Held:
    """Return what waits at the gates: as exact as a survey. Raises what a shard failed with."""
    held = Held()
    for survey in await survey_gates(store):
        if isinstance(survey, Exception):
            raise survey
        _count(held, survey.waiting.items())
    return held


def _count(held: Held, waiting: Iterable[tuple[str, int]]) -> None:
    for bucket, count in waiting:
        kind, slash, rest = bucket[1:].partition("/")
        if not slash:
            held.by_room[_queue_of(kind)] += count
        elif kind == "q":
            held.by_queue[_queue_of(rest)] += count
        elif kind == "g":
            held.by_groups[rest.partition("/")[0]] += count
        else:
            held.by_host[_host_of(rest)] += count


def _queue_of(text: str) -> str:
    return text.partition(":")[0]


def _host_of(text: str) -> str:
    """Return the host of a lane with a priority behind it: a host's own colon leads to a port."""
    host, _, last = text.rpartition(":")
    return host if last in (Priority.HIGH, Priority.LOW) else text
