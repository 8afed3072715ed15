"""How much a key may send and have: a bucket of requests for each caller, and what its groups hold.

Both are kept in the memory of one API process, so that they cost no look at the server for each
request: a rate is one of each process, and quotas may be passed by what is on its way into the
store, and by what other processes took in within the last second.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Container
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.access import Caller
from engine.errors import QuotaExceeded, RateLimited
from engine.store import Store
from engine.store.api_keys import read_usage

FRESH_S = 1.0
"""How old a count of what groups hold may be to let something in."""
RECENT_S = 0.1
"""How old it may be to refuse something."""
HEADERS = "rate_limit_headers"
"""Where a request's state has them."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: int


@dataclass(slots=True)
class _Tally:
    jobs: int
    payload_bytes: int
    read_at: float


class Limits:
    """What the callers of one process have taken.

    1. `take` counts requests, and refuses what comes faster than the caller's rate.
    2. `reserve` counts jobs and bytes, and refuses what would be more than the caller may have.
    3. `headers` say how a caller stands.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}
        self._tallies: dict[str, _Tally] = {}
        self._look = asyncio.Lock()

    def forget_all_but(self, callers: Container[str]) -> None:
        """Keep nothing of callers that are gone."""
        for known in (self._buckets, self._tallies):
            for name in [name for name in known if name not in callers]:
                del known[name]

    def take(self, caller: Caller, now: int) -> None:
        """Count one request. Refuses with RateLimited, counting nothing, one too many."""
        rate = caller.quotas.rate
        if rate is None:
            return
        bucket = self._filled(caller, rate, now)
        if bucket.tokens < 1:
            raise RateLimited(
                "this key has sent all the requests that it may for now; wait, as Retry-After says",
                retry_after_s=math.ceil((1 - bucket.tokens) / rate),
            )
        bucket.tokens -= 1

    def headers(self, caller: Caller, now: int) -> dict[str, str]:
        """Return what tells a caller its rate, and what is left of it (the IETF's draft of
        RateLimit headers); nothing for one without a rate."""
        rate, most = caller.quotas.rate, caller.quotas.most_at_once
        if rate is None:
            return {}
        left = self._filled(caller, rate, now).tokens
        return {
            "RateLimit-Policy": f'"default";q={most};w={math.ceil(most / rate)}',
            "RateLimit": f'"default";r={int(left)};t={math.ceil((most - left) / rate)}',
        }

    async def reserve(self, store: Store, caller: Caller, jobs: int, payload_bytes: int) -> None:
        """Count jobs and bytes of payload that are about to be stored. Refuses with QuotaExceeded
        what its groups may not hold beside what they do."""
        quotas, groups = caller.quotas, caller.groups
        if groups is None or (quotas.max_jobs is None and quotas.max_payload_bytes is None):
            return
        for oldest in (FRESH_S, RECENT_S):
            tally = await self._tally(store, caller, groups, oldest)
            excess = _excess(caller, tally, jobs, payload_bytes)
            if excess is None:
                tally.jobs += jobs
                tally.payload_bytes += payload_bytes
                return
        raise QuotaExceeded(f"{excess}; delete some first, or ask for more")

    async def _tally(
        self, store: Store, caller: Caller, groups: frozenset[str], oldest_s: float
    ) -> _Tally:
        """Return what the groups hold, as it was so long ago at the most, and what was reserved
        since. One look serves all that ask meanwhile: each has to count what the others reserve."""
        async with self._look:
            tally = self._tallies.get(caller.name)
            if tally is None or time.monotonic() - tally.read_at >= oldest_s:
                read_at = time.monotonic()
                usage = await read_usage(store, groups)
                tally = _Tally(usage.jobs, usage.payload_bytes, read_at)
                self._tallies[caller.name] = tally
            return tally

    def _filled(self, caller: Caller, rate: float, now: int) -> _Bucket:
        most = caller.quotas.most_at_once
        bucket = self._buckets.setdefault(caller.name, _Bucket(most, now))
        passed_ms = max(0, now - bucket.at)
        bucket.tokens, bucket.at = min(most, bucket.tokens + passed_ms / 1000 * rate), now
        return bucket


def _excess(caller: Caller, tally: _Tally, jobs: int, payload_bytes: int) -> str | None:
    """Return which quota would be passed, in words; None if none is. What shrinks is let in."""
    most_jobs, most_bytes = caller.quotas.max_jobs, caller.quotas.max_payload_bytes
    if jobs > 0 and most_jobs is not None and tally.jobs + jobs > most_jobs:
        return f"the groups of this key have {most_jobs} jobs at the most"
    total = tally.payload_bytes + payload_bytes
    if payload_bytes > 0 and most_bytes is not None and total > most_bytes:
        return f"the payloads of this key's groups have {most_bytes} bytes at the most, together"
    return None


class LimitHeaders:
    """Adds to every answer, a refusal too, how its caller stands."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = scope.get("state", {}).get(HEADERS)
                if found:
                    MutableHeaders(scope=message).update(found)
            await send(message)

        await self._app(scope, receive, send_with_headers)
