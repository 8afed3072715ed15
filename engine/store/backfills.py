"""Backfills: look at what one would do, order it, go on with it, cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine import codec
from engine.backfill import (
    Backfill,
    Batch,
    Known,
    Order,
    Passed,
    Range,
    nominal_times,
)
from engine.errors import BadInput, NotFound, NotSupported
from engine.keys import Shard
from engine.plan import Plan
from engine.plan.rules import Rule
from engine.store import Store
from engine.store.backfill_fields import (
    FIELDS,
    dump_covered,
    dump_definition,
    load_backfill,
)
from engine.store.due import read_plans
from engine.store.jobs import StoredJob, get_job
from engine.store.snapshot import read_calendars

LISTED = 100
"""Nominal times that a preview names."""
OPEN_LIMIT = 10
"""Backfills of one shard that one look returns."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a backfill would do now."""

    times: int
    """Nominal times in the range."""
    run: int
    """Those of them that would be run."""
    first: list[int]
    """The first `LISTED` of those, in the order in which they would be started."""
    passed: Mapping[Passed, int]
    """How many would be passed over, by reason."""


async def preview_backfill(store: Store, job_id: str, order: Order, now: int) -> Preview:
    """Return what a backfill would do. Changes nothing. Raises NotFound, or BadInput for a range
    that ends after now or has no times or too many."""
    _refuse_future(order, now)
    stored = await get_job(store, job_id)
    newest = await find_backfill(store, job_id)
    covered = newest.all_covered() if newest else ()
    known = await read_known(store, stored, stored.plan, covered)
    rule, anchor_at = stored.plan.rule_under(store.calendars), stored.job.anchor_at
    # A range of 100,000 times takes a third of a second.
    return await asyncio.to_thread(_preview, rule, anchor_at, order, known)


def _preview(rule: Rule, anchor_at: int, order: Order, known: Known) -> Preview:
    times = nominal_times(rule, anchor_at, order)
    run: list[int] = []
    passed = dict.fromkeys(Passed, 0)
    for at in times:
        verdict = known.judge(at, order.reprocess)
        if isinstance(verdict, Passed):
            passed[verdict] += 1
        else:
            run.append(at)
    return Preview(len(times), len(run), run[:LISTED], passed)


async def create_backfill(store: Store, job_id: str, order: Order, now: int) -> Backfill:
    """Order a backfill; return it. A scheduler starts its executions.

    Raises NotFound, Conflict while the job has one that is not at its end, and BadInput for a range
    that ends after now or has no times or too many.
    """
    _refuse_future(order, now)
    stored = await get_job(store, job_id)
    newest = await find_backfill(store, job_id)
    rule, anchor_at = stored.plan.rule_under(store.calendars), stored.job.anchor_at
    times = await asyncio.to_thread(nominal_times, rule, anchor_at, order)
    backfill = Backfill(
        job_id=job_id,
        number=newest.number + 1 if newest else 1,
        order=order,
        plan_id=stored.job.plan_id,
        anchor_at=anchor_at,
        created_at=now,
        first_at=min(times[0], times[-1]),
        times=len(times),
        covered=newest.all_covered() if newest else (),
        next_at=times[0],
    )
    shard = store.layout.shard_of(job_id)
    await store.scripts.run(
        "create_backfill",
        [shard.job(job_id), shard.backfills, shard.ledger],
        [
            job_id,
            backfill.number - 1,
            dump_definition(backfill),
            order.concurrency,
            dump_covered(backfill.covered),
            times[0],
            store.config.ledger_limit,
        ],
    )
    return backfill


def _refuse_future(order: Order, now: int) -> None:
    if order.to_at > now:
        raise BadInput(
            "`to` lies in the future; a backfill is of times that have passed", field="to"
        )


async def find_backfill(store: Store, job_id: str) -> Backfill | None:
    """Return the newest backfill of a job, None if there is none."""
    shard = store.layout.shard_of(job_id)
    return load_backfill(job_id, await store.client.hmget(shard.job(job_id), FIELDS))


async def get_backfill(store: Store, job_id: str) -> Backfill:
    """Return the newest backfill of a job. Raises NotFound if it has none."""
    backfill = await find_backfill(store, job_id)
    if backfill is None:
        await get_job(store, job_id)
        raise NotFound(f"job {job_id} has had no backfill")
    return backfill


async def cancel_backfill(store: Store, job_id: str) -> None:
    """Have a backfill start nothing more; what is live of it goes on. Raises NotFound, or
    WrongState unless it is running."""
    shard = store.layout.shard_of(job_id)
    await store.scripts.run(
        "cancel_backfill",
        [shard.job(job_id), shard.ledger],
        [job_id, store.config.ledger_limit],
    )


async def read_open(
    store: Store, shards: Sequence[Shard]
) -> list[tuple[Shard, str, Backfill | None]]:
    """Return backfills of `shards` that are not at their end: shard, job id, backfill.

    Of many in a shard it takes `OPEN_LIMIT` at random, so that each has its turn. The backfill is
    None where a deletion has left the job's id behind.
    """
    pipe = store.client.pipeline(transaction=False)
    for shard in shards:
        pipe.srandmember(shard.backfills, OPEN_LIMIT)
    found = [
        (shard, job_id.decode())
        for shard, ids in zip(shards, await pipe.execute() if shards else [], strict=True)
        for job_id in sorted(ids)
    ]
    pipe = store.client.pipeline(transaction=False)
    for shard, job_id in found:
        pipe.hmget(shard.job(job_id), FIELDS)
    rows = await pipe.execute() if found else []
    return [
        (*place, load_backfill(place[1], values)) for place, values in zip(found, rows, strict=True)
    ]


async def read_known(
    store: Store, stored: StoredJob, plan: Plan, covered: tuple[Range, ...]
) -> Known:
    """Return what is known of a job's nominal times by a plan of it.

    `stored` was read before: what ended since then counts as live still, never as unheard of.
    """
    job = stored.job
    lines = await store.client.lrange(store.layout.shard_of(job.id).runs(job.id), 0, -1)
    return Known(
        created_at=job.created_at,
        next_nominal_at=stored.next_nominal_at,
        live=frozenset([*(execution.nominal_at for execution in stored.live), *job.queued]),
        covered=covered,
        records=[codec.load_record(line) for line in lines],
        opening=plan.opening(store.calendars) if plan.calendars else None,
    )


async def plan_of(store: Store, backfill: Backfill) -> Plan:
    """Return the plan by which a backfill was ordered, after a look at the calendars if it names
    any. Raises NotSupported if it is of a newer version."""
    shard = store.layout.shard_of(backfill.job_id)
    await read_plans(store, shard, {backfill.plan_id})
    plan = store.plans.get(backfill.plan_id)
    if plan is None:
        raise NotSupported(
            f"the backfill of job {backfill.job_id} has a plan that is not stored or of a newer"
            " version"
        )
    if plan.calendars:
        await read_calendars(store)
    return plan


async def advance_backfill(
    store: Store,
    shard: Shard,
    token: str,
    holder: str,
    job_id: str,
    backfill: Backfill | None,
    batch: Batch,
    now: int,
) -> int:
    """Start what was proposed for a backfill, as far as it has places and its queue has room; end
    it if nothing is left of it. Return how many executions were started.

    Changes nothing if the backfill is not at the place that was read. Raises Fenced if the lease
    has gone to another.
    """
    place = backfill.next_at if backfill else None
    args: list[str | bytes | int] = [
        token,
        holder,
        job_id,
        backfill.number if backfill else 0,
        now,
        "" if place is None else place,
        "" if batch.next_at is None else batch.next_at,
        shard.ready_prefix,
        shard.letter_prefix,
        store.max_ready,
        store.config.ledger_limit,
    ]
    for nominal_at, attempt in batch.times:
        args += [nominal_at, "" if attempt is None else attempt]
    started: int = await store.scripts.run(
        "advance_backfill",
        [
            shard.fence,
            shard.job(job_id),
            shard.jobs,
            shard.runs(job_id),
            shard.backfills,
            shard.dead,
            shard.gates,
            shard.ledger,
        ],
        args,
    )
    return started
