"""What tests of backfills begin with: a job that has run for an hour, an order, a history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seeding import MINUTE, NOW, lease, registration, seed

from engine import codec
from engine.backfill import Backfill, Batch, Order, Reprocess, propose_batch
from engine.execution import Outcome, Record, SkipRecord
from engine.keys import Shard
from engine.registration import Registration
from engine.store import Store
from engine.store.backfills import (
    advance_backfill,
    create_backfill,
    find_backfill,
    plan_of,
    read_known,
)
from engine.store.jobs import get_job

HOUR = 60 * MINUTE
CREATED = NOW - HOUR
"""When `old_job` was registered: it has had nominal times each minute since."""


def old_job(job_id: str = "job-0", *, created_at: int = CREATED, **more: Any) -> Registration:
    """Return a job that fires each minute, next at NOW + 1 minute, and was created an hour ago."""
    made = registration(job_id, next_run_at=NOW + MINUTE, **more)
    return replace(made, job=replace(made.job, created_at=created_at))


def times(first: int, last: int) -> list[int]:
    """Return minutes, counted from NOW, as nominal times: both ends are included."""
    return [NOW + n * MINUTE for n in range(first, last + 1)]


def order(first: int, last: int, reprocess: str = "none", **more: Any) -> Order:
    """Return an order for the minutes from `first` to `last`, counted from NOW."""
    return Order(NOW + first * MINUTE, NOW + last * MINUTE, Reprocess(reprocess), **more)


def ended(minute: int, outcome: Outcome = Outcome.SUCCEEDED, attempt: int = 1) -> Record:
    """Return the record of an attempt that ended 40 ms after its nominal time."""
    return Record(NOW + minute * MINUTE, outcome, attempt, 1, "w1", NOW + minute * MINUTE, 40)


async def write_history(store: Store, shard: Shard, *records: Record | SkipRecord) -> None:
    """Make these job-0's history, oldest first."""
    await store.client.lpush(shard.runs("job-0"), *map(codec.dump_record, records))


async def begin(store: Store, asked: Order, made: Registration | None = None) -> Shard:
    """Create job-0 and order a backfill of it; return its shard."""
    shard = await seed(store, made or old_job())
    await create_backfill(store, "job-0", asked, NOW)
    return shard


async def backfill_of(store: Store, job_id: str = "job-0") -> Backfill:
    backfill = await find_backfill(store, job_id)
    assert backfill is not None
    return backfill


async def propose(store: Store, most: int = 100) -> tuple[Backfill, Batch]:
    """Return what a scheduler reads of job-0's backfill, and what it proposes."""
    backfill = await backfill_of(store)
    stored = await get_job(store, "job-0")
    plan = await plan_of(store, backfill)
    known = await read_known(store, stored, plan, backfill.covered)
    return backfill, propose_batch(plan.rule, backfill, known, most)


async def advance(
    store: Store, shard: Shard, proposed: tuple[Backfill, Batch] | None = None
) -> int:
    """Go on with job-0's backfill as a scheduler does; return how many were started."""
    backfill, batch = proposed or await propose(store)
    token = await lease(store, shard)
    return await advance_backfill(store, shard, token, "s1", "job-0", backfill, batch, NOW)
