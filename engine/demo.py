"""The demo: four jobs that show what Waterclock does, and what became of their attempts.

demo-every-5s      an interval
demo-every-minute  cron
demo-once          a time, ten seconds ahead
demo-flaky         its target fails twice, and retries bring it through
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from engine.backoff import Retry
from engine.codec.positions import Position
from engine.errors import NotFound
from engine.execution import Record
from engine.loop import keep_stepping
from engine.model import HttpTarget
from engine.names import split_execution_id
from engine.registration import Registration, Timing, register
from engine.store import Store
from engine.store.following import behind, read_ends, wait_for_entries
from engine.store.jobs import create_jobs, delete_job
from engine.store.ledger import load_event

ONCE_AFTER_MS = 10_000
COUNT = 100
"""Entries of a shard that one look at the ledger takes at the most."""


def demo_jobs(url: str, now: int) -> list[Registration]:
    """Return the demo's jobs, which call the echo application at `url`, which ends in a slash."""
    once = datetime.fromtimestamp((now + ONCE_AFTER_MS) / 1000, UTC)
    job = partial(register, now=now, target=HttpTarget(url), payload=b'{"hello":"waterclock"}')
    return [
        job(job_id="demo-every-5s", timing=Timing("every 5s")),
        job(job_id="demo-every-minute", timing=Timing("* * * * *")),
        job(job_id="demo-once", timing=Timing(once.isoformat(timespec="milliseconds"))),
        job(
            job_id="demo-flaky",
            timing=Timing("every 20s"),
            target=HttpTarget(url + "flaky"),
            retry=Retry(max_attempts=3, base_ms=1_000, jitter="none"),
        ),
    ]


async def install_demo(store: Store, url: str, now: int) -> None:
    """Register the demo's jobs in place of those of a demo before, which called another port."""
    registrations = demo_jobs(url, now)
    for registration in registrations:
        with suppress(NotFound):
            await delete_job(store, registration.job.id)
    await create_jobs(store, registrations)


class AttemptFeed:
    """Tells of every attempt that ends, anybody's: `show(ended_at, job_id, record)`."""

    name = "attempt-feed"

    def __init__(self, store: Store, show: Callable[[int, str, Record], None]) -> None:
        self._store = store
        self._show = show
        self._position: Position | None = None

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Show what has ended since the last step; the first one only notes where to begin."""
        position = self._position or await read_ends(self._store)
        entries = await wait_for_entries(self._store, position, COUNT)
        self._position = behind(position, entries)
        for event in (load_event(entry.id[0], raw) for entry in entries for raw in entry.events):
            if isinstance(event.record, Record):
                job_id, _ = split_execution_id(event.subject)
                self._show(event.at, job_id, event.record)
        return 0
