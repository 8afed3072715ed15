"""Jobs: register, read, run, delete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine import codec
from engine.errors import NotFound
from engine.execution import LiveExecution
from engine.keys import Shard
from engine.model import Job
from engine.plan import Plan
from engine.registration import Registration
from engine.scripts import Call
from engine.store import Store
from engine.store.creating import new_jobs, store_new
from engine.store.snapshot import read_for

MAX_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as it stands, with its plan and what is live of it."""

    job: Job
    plan: Plan
    live: list[LiveExecution]

    @property
    def offset_ms(self) -> int:
        """How much later than its nominal times the job is due."""
        return self.plan.offset_of(self.job.id)

    @property
    def next_nominal_at(self) -> int | None:
        """The nominal time of `next_run_at`."""
        due_at = self.job.next_run_at
        return None if due_at is None else due_at - self.offset_ms


async def create_jobs(store: Store, registrations: Sequence[Registration]) -> list[int]:
    """Store jobs; return what `store_new` does. A job whose id exists is left as it is.

    Atomic as `store_new` is. Raises what the first one was refused with that was; the others are
    stored nevertheless.
    """
    created: list[int] = []
    for answer in await store_new(store, new_jobs(registrations)):
        if isinstance(answer, Exception):
            raise answer
        created.append(answer)
    return created


async def get_job(store: Store, job_id: str) -> StoredJob:
    """Return a job, after a look at what its times depend on, calendars say. Raises NotFound."""
    shard = store.layout.shard_of(job_id)
    fields = await store.client.hgetall(shard.job(job_id))
    if not fields:
        raise _not_found(job_id)
    job, live = codec.load_job(job_id, fields), codec.load_live(fields)
    stored = await _with_plan(store, shard, job, live)
    await read_for(store, [stored.plan])
    return stored


async def _with_plan(store: Store, shard: Shard, job: Job, live: list[LiveExecution]) -> StoredJob:
    plan = store.plans.get(job.plan_id)
    if plan is None:
        data = await store.client.hget(shard.plans, job.plan_id)
        if data is None:
            raise NotFound(f"job {job.id} names a plan that this server does not hold")
        plan = store.plans[job.plan_id] = Plan.from_canonical(data)
    return StoredJob(job, plan, live)


async def load_jobs(store: Store, job_ids: Sequence[str]) -> list[StoredJob]:
    """Return the jobs of these ids, without those that are gone."""
    pipe = store.client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.hgetall(store.layout.shard_of(job_id).job(job_id))
    jobs = []
    for job_id, fields in zip(job_ids, await pipe.execute() if job_ids else [], strict=True):
        if fields:
            job, live = codec.load_job(job_id, fields), codec.load_live(fields)
            jobs.append(await _with_plan(store, store.layout.shard_of(job_id), job, live))
    return jobs


async def run_job(store: Store, job_id: str, now: int) -> str:
    """Start an execution now; return its id. Raises NotFound.

    Its nominal time is now, or the first millisecond after that the job's schedule does not hold: a
    run by hand never stands for a scheduled one.
    """
    stored = await get_job(store, job_id)
    plan, anchor_at = stored.plan, stored.job.anchor_at
    while plan.first_after(now - 1, anchor_at, store.calendars) == now:
        now += 1
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.buckets, shard.gates, shard.ledger]
    limits = [store.max_ready, store.config.ledger_limit]
    reply: bytes = await store.scripts.run(
        "run_job", keys, [job_id, now, shard.due_prefix, shard.ready_prefix, *limits]
    )
    return reply.decode()


async def delete_job(store: Store, job_id: str, version: int | None = None) -> None:
    """Delete a job with its history and all that nobody has started yet. Raises NotFound, and
    Conflict if another `version` stands than the one that is named."""
    await store.scripts.run(*delete_call(store, job_id, version))


def delete_call(store: Store, job_id: str, version: int | None = None) -> Call:
    """Return the call that deletes a job."""
    shard = store.layout.shard_of(job_id)
    keys = [
        shard.job(job_id),
        shard.jobs,
        shard.runs(job_id),
        shard.buckets,
        shard.backfills,
        shard.dependents(job_id),
        shard.inputs(job_id),
        shard.gates,
        shard.ledger,
        shard.ran_at,
    ]
    wanted, limit = "" if version is None else version, store.config.ledger_limit
    return "delete_job", keys, [job_id, wanted, shard.due_prefix, shard.ready_prefix, limit]


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id}")
