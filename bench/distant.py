"""Registers jobs that are not due for long: what a deployment is full of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bench.seeding import seed
from engine.registration import Timing
from engine.store import Store
from engine.store.server import time_ms

AHEAD = timedelta(days=180)
PLANS = 1_000


async def seed_distant(store: Store, count: int, *, first: int = 0) -> None:
    """Register `count` jobs, numbered from `first`, that are due once a year, next in half a year,
    spread over a thousand minutes of a day."""
    now = await time_ms(store.client)
    day = datetime.fromtimestamp(now / 1000, UTC) + AHEAD

    def timing(n: int) -> Timing:
        hour, minute = divmod(n % PLANS, 60)
        return Timing(f"{minute} {hour} {day.day} {day.month} *")

    await seed(store, count, now, timing, prefix="distant", first=first)
