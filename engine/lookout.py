"""How the fire loop looks for what is due, without asking the server more than it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.clock import Clock
from engine.keys import BUCKET_MS, bucket_of
from engine.shards import Lease
from engine.store import Store, due
from engine.store.due import Glance, Peek

WHOLE_MS = 500
"""The longest time between two whole looks at a shard. Only what comes into the index with a time
of an earlier minute waits for one, and is late already."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A whole look at a shard, that found nothing due."""

    token: str
    bucket: str
    looked_at: int
    earliest_at: int | None


class Lookout:
    """Looks at shards.

    1. Takes a whole look (`peek_due`) where there was something due at the last one.
    2. Else glances at what this minute holds, and takes a whole look where something has come due,
       or waits for room or a permit; once in a while; and when a minute or a lease is new.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen: dict[int, _Seen] = {}

    async def look(self, leases: Sequence[Lease], limit: int) -> list[Peek | Exception]:
        """Return what is due in the shard of each lease, `limit` members a bucket at the most; an
        exception where a look failed. A peek that holds nothing says how early something may be
        due: the end of the minute at the latest."""
        now = self._clock.now_ms()
        glanced = [lease for lease in leases if self._is_quiet(lease, now)]
        glances = await self._glance(glanced, now)
        found: dict[int, Peek | Exception] = {}
        for lease, glance in zip(glanced, glances, strict=True):
            earliest_at = self._earliest(lease, glance, now)
            if not glance.is_held and earliest_at > now:
                found[lease.shard.index] = Peek(earliest_at, [])
        rest = [lease for lease in leases if lease.shard.index not in found]
        found |= await self._peek(rest, now, limit)
        return [found[lease.shard.index] for lease in leases]

    def _is_quiet(self, lease: Lease, now: int) -> bool:
        seen = self._seen.get(lease.shard.index)
        return (
            seen is not None
            and seen.token == lease.token
            and seen.bucket == bucket_of(now)
            and self._clock.monotonic_ms() - seen.looked_at < WHOLE_MS
            and (seen.earliest_at is None or seen.earliest_at > now)
        )

    async def _glance(self, leases: Sequence[Lease], now: int) -> list[Glance]:
        if not leases:
            return []
        return await due.glance_due(self._store, [lease.shard for lease in leases], now)

    def _earliest(self, lease: Lease, glance: Glance, now: int) -> int:
        """Return when something may be due: what comes into the next minute is not seen yet."""
        times = (self._seen[lease.shard.index].earliest_at, glance.earliest_at)
        minute_ends_at = now - now % BUCKET_MS + BUCKET_MS
        return min([minute_ends_at, *(at for at in times if at is not None)])

    async def _peek(
        self, leases: Sequence[Lease], now: int, limit: int
    ) -> dict[int, Peek | Exception]:
        if not leases:
            return {}
        looked_at = self._clock.monotonic_ms()
        peeks = await due.peek_due(self._store, [lease.shard for lease in leases], now, limit)
        for lease, peek in zip(leases, peeks, strict=True):
            self._seen.pop(lease.shard.index, None)
            if isinstance(peek, Peek) and not peek.slices:
                seen = _Seen(lease.token, bucket_of(now), looked_at, peek.earliest_at)
                self._seen[lease.shard.index] = seen
        return {lease.shard.index: peek for lease, peek in zip(leases, peeks, strict=True)}
