"""Jobs: register, read, list, run, pause, resume, delete."""

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
from engine.store import Store
from engine.store.limits import make_fair
from engine.store.snapshot import read_calendars

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


async def create_jobs(store: Store, registrations: Sequence[Registration]) -> list[bool]:
    """Store jobs; return for each whether it is new. A job whose id exists is left as it is.

    Atomic for the jobs of one shard, not over shards.
    """
    for queue in sorted({r.job.queue for r in registrations if r.job.group is not None}):
        await make_fair(store, queue)
    by_shard: dict[Shard, list[int]] = {}
    for at, registration in enumerate(registrations):
        by_shard.setdefault(store.layout.shard_of(registration.job.id), []).append(at)
    created = [False] * len(registrations)
    for shard, places in by_shard.items():
        reply = await _create_in_shard(store, shard, [registrations[at] for at in places])
        for at, is_new in zip(places, reply, strict=True):
            created[at] = bool(is_new)
    return created


async def _create_in_shard(
    store: Store, shard: Shard, registrations: list[Registration]
) -> list[int]:
    plans = {r.plan.id: r.plan for r in registrations}
    args: list[str | bytes | int] = [
        shard.job_prefix,
        shard.due_prefix,
        shard.ready_prefix,
        shard.dependents_prefix,
        store.max_ready,
        store.config.ledger_limit,
        len(plans),
    ]
    for plan in plans.values():
        args += [plan.id, plan.canonical]
    for registration in registrations:
        job, run_at = registration.job, registration.run_at
        args += [
            job.id,
            job.plan_id,
            "" if job.next_run_at is None else job.next_run_at,
            "" if run_at is None else run_at,
            *codec.dump_defined(job),
        ]
    keys = [shard.jobs, shard.plans, shard.buckets, shard.gates, shard.ledger]
    reply: list[int] = await store.scripts.run("create_jobs", keys, args)
    return reply


async def get_job(store: Store, job_id: str) -> StoredJob:
    """Return a job, after a look at the calendars if its plan names any. Raises NotFound."""
    shard = store.layout.shard_of(job_id)
    fields = await store.client.hgetall(shard.job(job_id))
    if not fields:
        raise _not_found(job_id)
    job, live = codec.load_job(job_id, fields), codec.load_live(fields)
    stored = await _with_plan(store, shard, job, live)
    if stored.plan.calendars:
        await read_calendars(store)
    return stored


async def _with_plan(store: Store, shard: Shard, job: Job, live: list[LiveExecution]) -> StoredJob:
    plan = store.plans.get(job.plan_id)
    if plan is None:
        data = await store.client.hget(shard.plans, job.plan_id)
        if data is None:
            raise NotFound(f"job {job.id} names a plan that this server does not hold")
        plan = store.plans[job.plan_id] = Plan.from_canonical(data)
    return StoredJob(job, plan, live)


async def list_jobs(
    store: Store, *, after: str = "", prefix: str = "", limit: int = 100
) -> tuple[list[StoredJob], str | None]:
    """Return jobs in byte order of their ids, and the id to go on after, None at the end.

    `after` is the last id of the page before. A page holds `limit` jobs, 1,000 at the most.
    """
    limit = min(limit, MAX_PAGE)
    # An id's characters are all below `~`, so prefix + `~` is past every id that begins so.
    start = f"({after}" if after >= prefix and after else (f"[{prefix}" if prefix else "-")
    stop = f"({prefix}~" if prefix else "+"
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.zrange(shard.jobs, start, stop, bylex=True, offset=0, num=limit + 1)
    ids = sorted(job_id.decode() for found in await pipe.execute() for job_id in found)
    page = ids[:limit]
    pipe = store.client.pipeline(transaction=False)
    for job_id in page:
        pipe.hgetall(store.layout.shard_of(job_id).job(job_id))
    jobs = []
    for job_id, fields in zip(page, await pipe.execute() if page else [], strict=True):
        if fields:  # else deleted between the two reads
            job, live = codec.load_job(job_id, fields), codec.load_live(fields)
            jobs.append(await _with_plan(store, store.layout.shard_of(job_id), job, live))
    return jobs, page[-1] if len(ids) > limit else None


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


async def delete_job(store: Store, job_id: str) -> None:
    """Delete a job with its history and all that nobody has started yet. Raises NotFound."""
    shard = store.layout.shard_of(job_id)
    await store.scripts.run(
        "delete_job",
        [
            shard.job(job_id),
            shard.jobs,
            shard.runs(job_id),
            shard.buckets,
            shard.backfills,
            shard.dependents(job_id),
            shard.inputs(job_id),
            shard.gates,
            shard.ledger,
        ],
        [job_id, shard.due_prefix, shard.ready_prefix, store.config.ledger_limit],
    )


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"there is no job {job_id}")
