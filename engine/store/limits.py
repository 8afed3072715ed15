"""What queues and hosts are allowed: their settings, and hosts that asked for less."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from redis.exceptions import WatchError

from engine import codec
from engine.errors import BadInput
from engine.keys import HOSTS, PUSHBACK, QUEUES
from engine.store import Store

LONGEST_PUSHBACK_MS = 3_600_000
LOOK_MS = 1_000
"""How old what a process knows of limits may be."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of something may run. None: as much as comes."""

    concurrency: int | None = None
    """Executions that may be in a ready stream or running at once."""
    rate: float | None = None
    """Executions a second."""
    burst: int = 1
    """How many may come at once after a pause; never less than comes in a fifth of a second."""

    def __post_init__(self) -> None:
        """Refuses with BadInput what nothing could be held to."""
        if self.concurrency is not None and self.concurrency < 0:
            raise BadInput("a concurrency is 0 or more", field="concurrency")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise BadInput("a rate is above 0; to stop all, pause the queue", field="rate")
        if self.burst < 1:
            raise BadInput("a burst is 1 or more", field="burst")


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What is set for one queue."""

    paused: bool = False
    """Nothing of it is handed to consumers."""
    fair: bool = False
    """Its groups share it: none waits behind all that another one has. Set by itself when the
    first job of a group comes."""
    limit: Limit = Limit()


@dataclass(frozen=True, slots=True)
class Pushback:
    """A host asked for less, at `at`: nothing for `wait_ms`, and then slowly."""

    at: int
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """All that is set, and all that was asked for, as one look found it."""

    queues: dict[str, QueueSettings]
    hosts: dict[str, Limit]
    pushbacks: dict[str, Pushback]


async def read_limits(store: Store) -> Limits:
    """Return the settings of queues and hosts; those that have none are left out."""
    pipe = store.client.pipeline(transaction=False)
    for key in (QUEUES, HOSTS, PUSHBACK):
        pipe.hgetall(key)
    queues, hosts, pushbacks = await pipe.execute()
    return Limits(
        {name.decode(): _load_queue(codec.load_json(data)) for name, data in queues.items()},
        {name.decode(): Limit(**codec.load_json(data)) for name, data in hosts.items()},
        {name.decode(): Pushback(**codec.load_json(data)) for name, data in pushbacks.items()},
    )


async def known_limits(store: Store) -> Limits:
    """Return the settings as they were a second ago at the most: what loops ask before each read.

    Where a server cannot be reached, raises what `read_limits` does.
    """
    now = time.monotonic()
    if store.limits is None or now - store.limits[0] >= LOOK_MS / 1000:
        store.limits = now, await read_limits(store)
    return store.limits[1]


async def is_paused(store: Store, queue: str) -> bool:
    """Return whether nothing of a queue is to be handed to consumers, as of a second ago at the
    most."""
    limits = await known_limits(store)
    return limits.queues.get(queue, QueueSettings()).paused


def _load_queue(fields: dict[str, Any]) -> QueueSettings:
    return QueueSettings(**{**fields, "limit": Limit(**fields.get("limit", {}))})


async def read_queue(store: Store, queue: str) -> QueueSettings:
    """Return what is set for a queue; the defaults where nothing is."""
    data = await store.client.hget(QUEUES, queue)
    return _load_queue(codec.load_json(data)) if data else QueueSettings()


async def write_queue(store: Store, queue: str, settings: QueueSettings) -> None:
    """Set what a queue is allowed, in place of what was set before."""
    if settings == QueueSettings():
        await store.client.hdel(QUEUES, queue)
    else:
        await store.client.hset(QUEUES, queue, codec.dump_json(asdict(settings)))


async def change_queue(store: Store, queue: str, **changes: Any) -> QueueSettings:
    """Change fields of what is set for a queue; return all that then is set. What others change at
    the same moment is kept."""
    async with store.client.pipeline(transaction=True) as pipe:
        while True:
            await pipe.watch(QUEUES)
            data = await pipe.hget(QUEUES, queue)
            settings = _load_queue(codec.load_json(data)) if data else QueueSettings()
            settings = replace(settings, **changes)
            pipe.multi()
            if settings == QueueSettings():
                pipe.hdel(QUEUES, queue)
            else:
                pipe.hset(QUEUES, queue, codec.dump_json(asdict(settings)))
            with suppress(WatchError):
                await pipe.execute()
                return settings


async def make_fair(store: Store, queue: str) -> None:
    """Have the groups of a queue share it, if they do not yet. Asks once in a process: what is then
    set otherwise by hand stays so."""
    if queue in store.fair:
        return
    if not (await read_queue(store, queue)).fair:
        await change_queue(store, queue, fair=True)
    store.fair.add(queue)


async def write_host(store: Store, host: str, limit: Limit) -> None:
    """Set what a host (with its port, if its URLs have one) is allowed, in place of what was set
    before."""
    host = host.lower()
    if limit == Limit():
        await store.client.hdel(HOSTS, host)
    else:
        await store.client.hset(HOSTS, host, codec.dump_json(asdict(limit)))


async def note_pushback(store: Store, host: str, pushback: Pushback) -> None:
    """Note that a host asked for less: it gets nothing for a while, and then slowly more."""
    await store.client.hset(PUSHBACK, host, codec.dump_json(asdict(pushback)))


async def forget_pushback(store: Store, host: str) -> None:
    """Forget that a host asked for less."""
    await store.client.hdel(PUSHBACK, host)
