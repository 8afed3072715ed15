"""What tests of the storage layer begin with: jobs, a lease, one pass of the fire loop, deliveries.

Time starts at `NOW`, the start of a minute, and so of a bucket. All jobs of `job_ids` share a
shard, so that one script may be given all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

from engine.backoff import Retry
from engine.execution import DeadReason, Delivery, Outcome, Record, SkipReason, SkipRecord
from engine.keys import Shard
from engine.model import HttpTarget, Job, JobState, Overlap, Rules, Target, WorkerTarget
from engine.names import Priority
from engine.plan import Every, Immediate, Once, Plan, propose
from engine.registration import Registration
from engine.store import Store
from engine.store.due import Fired, Group, Member, fire_attempts, fire_due, peek_due
from engine.store.executions import ensure_groups, read_ready
from engine.store.gates import grant_permits
from engine.store.jobs import create_jobs
from engine.store.leases import acquire_lease
from engine.store.outcomes import Result

NOW = 1_800_000_000_000
MINUTE = 60_000
BUCKET = str(NOW // MINUTE)
QUEUE = "default"
LAPSES_AT = NOW + 5 * MINUTE
"""When the silence of a target that promised to report counts as failure."""

EVERY_MINUTE = Plan.of(Every(MINUTE))
ONE_OFF = Plan.of(Once(NOW))
AT_ONCE = Plan.of(Immediate())


def job_ids(store: Store, number: int) -> list[str]:
    """Return ids that lie in the shard of `job-0`, itself the first."""
    home = store.layout.shard_of("job-0")
    ids = (f"job-{n}" for n in count())
    return list(islice((i for i in ids if store.layout.shard_of(i) is home), number))


def registration(
    job_id: str,
    plan: Plan = EVERY_MINUTE,
    *,
    next_run_at: int | None = NOW,
    run_at: int | None = None,
    queue: str = QUEUE,
    overlap: Overlap = Overlap.SKIP,
    rules: Rules | None = None,
    target: Target | None = None,
    priority: Priority = Priority.NORMAL,
    group: str | None = None,
    tags: tuple[str, ...] = (),
    payload: bytes = b'{"n":1}',
) -> Registration:
    state = JobState.ACTIVE if next_run_at is not None else JobState.COMPLETED
    job = Job(
        id=job_id,
        plan_id=plan.id,
        target=target or WorkerTarget(),
        queue=queue,
        priority=priority,
        group=group,
        tags=tags,
        created_at=NOW,
        anchor_at=NOW,
        payload=payload,
        retry=Retry(),
        overlap=overlap,
        rules=rules or Rules(),
        state=state,
        next_run_at=next_run_at,
    )
    return Registration(job, plan, run_at)


async def seed(store: Store, *registrations: Registration) -> Shard:
    """Create jobs that share a shard; return it."""
    assert all(await create_jobs(store, registrations))
    return store.layout.shard_of(registrations[0].job.id)


async def lease(store: Store, shard: Shard, holder: str = "s1") -> str:
    """Return the token of a lease granted to `holder`."""
    [grant] = await acquire_lease(store, [shard], holder)
    return grant.token


def group(plan: Plan, due_at: int, *ids: str, now: int | None = None) -> Group:
    """Return what a scheduler proposes at `now` (the due time itself unless given)."""
    proposal = propose(plan, due_at, due_at if now is None else now)
    return Group(due_at, 0, proposal, [f"{plan.id}|{job_id}".encode() for job_id in ids])


async def fire(store: Store, shard: Shard, now: int = NOW) -> Fired:
    """Make one pass of the fire loop over all that is due; return the sums."""
    token = await lease(store, shard)
    total = Fired()
    [peek] = await peek_due(store, [shard], now, store.config.batch)
    assert not isinstance(peek, Exception)
    for part in peek.slices:
        groups: dict[tuple[str, int], Group] = {}
        attempts: list[Member] = []
        for member, due_at in part.members:
            plan_id, bar, _ = member.decode().partition("|")
            if not bar:
                attempts.append((member, due_at))
                continue
            plan = Plan.from_canonical(await store.client.hget(shard.plans, plan_id))
            proposed = groups.setdefault((plan_id, due_at), group(plan, due_at, now=now))
            proposed.members.append(member)
        total += await fire_due(store, shard, token, "s1", part.bucket, list(groups.values()))
        total += await fire_attempts(store, shard, token, "s1", part.bucket, attempts)
    return total


async def take(
    store: Store, consumer: str = "w1", count: int = 100, *, stream: str = QUEUE
) -> list[Delivery]:
    """Return what waits in a stream, delivered to `consumer`."""
    await ensure_groups(store, stream)
    return await read_ready(
        store, [(stream, shard) for shard in store.layout.shards], consumer, count, block=False
    )


def at_once(job_id: str, **more: Any) -> Registration:
    """Return a job that runs once, when it is registered."""
    return registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW, **more)


async def start(store: Store, job_id: str, consumer: str = "w1") -> Delivery:
    """Return the delivery of a job that is registered to run at once."""
    await seed(store, at_once(job_id))
    [delivery] = await take(store, consumer)
    return delivery


async def grant(store: Store, shard: Shard, fields: Mapping[str, str], token: str = "1") -> None:
    """Change a shard's gates, as the one that grants permits."""
    assert await grant_permits(store, [(shard, fields)], token) == [None]


async def limit(store: Store, **permits: int) -> Shard:
    """Limit lanes of job-0's shard, `slots__q_mail` for `slots:q/mail`; return the shard."""
    shard = store.layout.shard_of("job-0")
    named = {
        name.replace("__", ":").replace("_", "/"): str(count) for name, count in permits.items()
    }
    await grant(store, shard, named)
    return shard


def lanes_of(space: Mapping[str, Any], job_id: str = "job-0", nominal_at: int = NOW) -> str:
    """Return the lanes through which a live execution came into its stream, by its job's hash."""
    where, _, lanes = space[f"job:{job_id}"][f"x:{nominal_at}"].partition(";")
    assert where.startswith("ready:")
    return str(lanes)


def due_member(job_id: str) -> str:
    """Return the member of the due index for a job that is due each minute."""
    return f"{EVERY_MINUTE.id}|{job_id}"


def http(host: str) -> HttpTarget:
    return HttpTarget(f"https://{host}/x")


def result(
    delivery: Delivery,
    outcome: Outcome = Outcome.SUCCEEDED,
    retry_at: int | None = None,
    *,
    reason: DeadReason = DeadReason.EXHAUSTED,
    lapses_at: int = LAPSES_AT,
) -> Result:
    """Return how a delivery ended, half a second after its nominal time and within 40 ms;
    or, if it is skipped, that it had expired."""
    if outcome is Outcome.SKIPPED:
        at = delivery.nominal_at
        return Result(delivery, SkipRecord(at, at, 1, SkipReason.EXPIRED))
    record = Record(
        nominal_at=delivery.nominal_at,
        outcome=outcome,
        attempt=delivery.attempt,
        deliveries=delivery.deliveries,
        worker=delivery.consumer,
        started_at=delivery.nominal_at + 500,
        duration_ms=40,
    )
    return Result(
        delivery,
        record,
        retry_at,
        reason if outcome is Outcome.DEAD else None,
        lapses_at if outcome is Outcome.ACCEPTED else None,
    )


def letter(
    *records: Sequence[object], reason: str = "exhausted", attempt: int = 1, stream: str = QUEUE
) -> dict[str, str]:
    """Return the hash of a dead letter of a job that is as `registration` makes them; the records
    are newest first."""
    return {
        "reason": reason,
        "attempt": str(attempt),
        "queue": stream,
        "target": '{"type":"worker"}',
        "payload": '{"n":1}',
        "retry": "",
        "attempts": "\n".join(json.dumps(record, separators=(",", ":")) for record in records),
        "born": str(NOW),
    }


def small(store: Store, max_ready: int) -> Store:
    """Return the same store, with room for so many entries of a queue in each shard."""
    config = store.config.model_copy(update={"max_ready": max_ready * len(store.layout.shards)})
    return replace(store, config=config)


async def run_at_exactly(store: Store, job_id: str, at: int) -> bytes:
    """Run the script of `run_job` with a nominal time that its function would not choose."""
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.buckets, shard.gates, shard.ledger]
    args: list[str | int] = [
        job_id,
        at,
        shard.due_prefix,
        shard.ready_prefix,
        store.max_ready,
        1_000,
    ]
    reply: bytes = await store.scripts.run("run_job", keys, args)
    return reply
