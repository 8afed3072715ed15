"""What a worker reads next: weighted turns among queues, the most urgent of each queue first.

A worker that has room for all that comes reads all streams at once, and blocks in the server while
there is nothing. Order counts only where more waits than it has slots for. Then it looks how much
waits in each stream, gives each queue its share of the slots, fills a queue's share from `high`
down to `low`, a handful from one shard after the other, and reads exactly that: never more than it
can start.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar
from zlib import crc32

from engine.errors import BadInput
from engine.execution import Delivery
from engine.keys import Shard
from engine.names import check_queue, streams_of
from engine.store import BLOCK_MS, Store
from engine.store.executions import Stream, read_ready
from engine.store.limits import is_paused
from engine.store.queues import count_unread

HEAVIEST = 100
LOOK_MS = 50
"""How long a look at the streams is good for. So soon something urgent overtakes a backlog."""
HANDFUL = 50
"""Executions that one shard gives before it is another one's turn. What is read together ends
together: from a few shards in each read, outcomes go out in a few calls."""
FEW = 8
"""With fewer slots it looks before each read over all streams: of those only one may have to
fill a slot."""

Key = TypeVar("Key")


def parse_queues(texts: Iterable[str]) -> dict[str, int]:
    """Return the weight of each queue, from texts `NAME` (weight 1) or `NAME=WEIGHT`.

    Refuses with BadInput what is no queue name, a weight that is not from 1 to 100, a queue that is
    named twice, and no queue at all.
    """
    weights: dict[str, int] = {}
    for text in texts:
        name, equals, weight = (part.strip() for part in text.partition("="))
        check_queue(name)
        if equals and not (re.fullmatch("[0-9]{1,3}", weight) and 1 <= int(weight) <= HEAVIEST):
            raise BadInput(f"queue {name}: a weight is from 1 to {HEAVIEST}", field="queue")
        if name in weights:
            raise BadInput(f"queue {name} is named twice", field="queue")
        weights[name] = int(weight) if equals else 1
    if not weights:
        raise BadInput("a worker reads one queue at least", field="queue")
    return weights


class Turns(Generic[Key]):
    """Shares slots out by weight, as evenly in time as can be (smooth weighted round robin).

    What a key cannot use goes to the others, and it saves nothing up.
    """

    def __init__(self, weights: Mapping[Key, int]) -> None:
        self._weights = weights
        self._credits = dict.fromkeys(weights, 0)

    def share(self, waiting: Mapping[Key, int], slots: int) -> dict[Key, int]:
        """Return how many of `slots` each key gets, no more than is waiting there."""
        given: dict[Key, int] = {}
        left = {key: waiting[key] for key in self._weights if waiting.get(key, 0) > 0}
        while slots > 0 and left:
            round_of = sum(self._weights[key] for key in left)
            # A whole round gives each key its weight and leaves the credits as they were.
            rounds = min(slots // round_of, *(n // self._weights[key] for key, n in left.items()))
            turn = {key: rounds * self._weights[key] for key in left}
            if not rounds:
                turn = {self._next(left, round_of): 1}
            for key, count in turn.items():
                given[key] = given.get(key, 0) + count
                slots -= count
                left[key] -= count
                if not left[key]:
                    del left[key]
        return given

    def _next(self, left: Mapping[Key, int], round_of: int) -> Key:
        for key in left:
            self._credits[key] += self._weights[key]
        best = max(left, key=lambda key: self._credits[key])
        self._credits[best] -= round_of
        return best


class Handfuls(Generic[Key]):
    """Shares slots out to one key after the other, a handful each."""

    def __init__(self, keys: Iterable[Key], *, first: int = 0) -> None:
        self._keys = deque(keys)
        self._keys.rotate(-first)

    def share(self, waiting: Mapping[Key, int], slots: int) -> dict[Key, int]:
        """Return how many of `slots` each key gets, no more than is waiting there."""
        given: dict[Key, int] = {}
        passed = 0
        while slots > 0 and passed < len(self._keys):
            key = self._keys[0]
            self._keys.rotate(-1)
            count = min(slots, HANDFUL, waiting.get(key, 0) - given.get(key, 0))
            passed += 1
            if count > 0:
                given[key] = given.get(key, 0) + count
                slots -= count
                passed = 0
        return given


class Reader:
    """Reads new deliveries of some queues for one consumer."""

    def __init__(self, store: Store, weights: Mapping[str, int], consumer: str) -> None:
        self._store = store
        self._consumer = consumer
        self._names = {queue: streams_of(queue) for queue in weights}
        self._queues = Turns(weights)
        shards = store.layout.shards
        # Many workers are not to begin with the same shard.
        first = crc32(consumer.encode()) % len(shards)
        self._shards = {
            name: Handfuls(shards, first=first) for names in self._names.values() for name in names
        }
        self._streams = {
            queue: [(name, shard) for name in names for shard in shards]
            for queue, names in self._names.items()
        }
        self._unread: dict[Stream, int] = {}
        self._looked_at = float("-inf")
        self._is_busy = True

    @property
    def names(self) -> list[str]:
        """The names of all its streams."""
        return [*self._shards]

    async def read(self, free: int, *, block: bool) -> list[Delivery]:
        """Return new deliveries of queues that are not paused, for `free` slots.

        There may be more than `free` if they came between a look and the read that blocks for them.
        With `block` it waits for the first one, half a second at the most.
        """
        queues = [queue for queue in self._names if not await is_paused(self._store, queue)]
        streams = [stream for queue in queues for stream in self._streams[queue]]
        if not streams:
            if block:
                await asyncio.sleep(BLOCK_MS / 1000)
            return []
        if self._is_busy or free < FEW:
            found = await self._read_in_turn(queues, streams, free)
            if found:
                return found
        count = max(1, free // len(streams))
        found = await read_ready(self._store, streams, self._consumer, count, block=block)
        self._is_busy = 4 * len(found) >= free
        return found

    async def _read_in_turn(
        self, queues: list[str], streams: list[Stream], free: int
    ) -> list[Delivery]:
        """Return what comes next by weight and urgency, `free` at the most."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_MS / 1000 or not any(self._unread.values()):
            self._unread = await count_unread(self._store, streams)
            self._looked_at = now
        by_count: dict[int, list[Stream]] = {}
        for stream, count in self._plan(queues, free).items():
            by_count.setdefault(count, []).append(stream)
        deliveries = []
        for count, alike in by_count.items():
            found = await read_ready(self._store, alike, self._consumer, count, block=False)
            deliveries += found
            for stream in alike:
                self._unread[stream] -= count
            if len(found) < count * len(alike):
                self._unread.clear()  # others read too: what the look found is not there any more
                break
        return deliveries

    def _plan(self, queues: list[str], free: int) -> dict[Stream, int]:
        """Return how much to read from which streams, by what the last look found."""
        waiting: dict[str, dict[Shard, int]] = {}
        for (name, shard), count in self._unread.items():
            waiting.setdefault(name, {})[shard] = count
        sums = {name: sum(counts.values()) for name, counts in waiting.items()}
        totals = {q: sum(sums.get(name, 0) for name in self._names[q]) for q in queues}
        plan: dict[Stream, int] = {}
        for queue, slots in self._queues.share(totals, free).items():
            for name in self._names[queue]:
                shares = self._shards[name].share(waiting.get(name, {}), slots)
                plan |= {(name, shard): count for shard, count in shares.items()}
                slots -= sum(shares.values())
        return plan
