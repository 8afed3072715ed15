"""New jobs on their way into the store: what many of them share is sent, and worked out, once."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from engine import codec
from engine.keys import Shard
from engine.plan import Plan
from engine.registration import Registration
from engine.scripts import Call
from engine.store import Store
from engine.store.limits import make_fair

MOST_AT_ONCE = 200
"""Jobs of one shard that one call of the script stores: no other client waits longer than a few ms
for it."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What new jobs have in common: all but id, payload and times. Two are the same if they are one
    object."""

    plan: Plan
    queue: str
    is_grouped: bool
    fields: tuple[str | bytes | int, ...]
    """As the script gets them."""

    @classmethod
    def of(cls, registration: Registration) -> Self:
        """Return the shape of a job."""
        job = registration.job
        note = codec.dump_note(**job.pause_note) if job.pause_note else ""
        fields = (job.plan_id, *codec.dump_shape(job), note)
        return cls(registration.plan, job.queue, job.group is not None, fields)


class NewJob(NamedTuple):
    """One job to store; times in ms."""

    id: str
    shape: Shape
    next_run_at: int | None
    run_at: int | None
    """The nominal time of an execution to start at once."""
    payload: bytes

    @classmethod
    def of(cls, registration: Registration, shape: Shape | None = None) -> Self:
        """Return the job of a registration, whose shape is made unless it is known."""
        job = registration.job
        shape = shape or Shape.of(registration)
        return cls(job.id, shape, job.next_run_at, registration.run_at, job.payload)


def new_jobs(registrations: Sequence[Registration]) -> list[NewJob]:
    """Return the jobs of registrations, those that look the same with one shape."""
    shapes: dict[Hashable, Shape] = {}
    found = []
    for registration in registrations:
        job = registration.job
        # What is not compared by value here is compared by being one object: they are usually
        # made from one, and to look closer costs more than a shape too many.
        likeness = (
            job.plan_id,
            id(job.target),
            id(job.retry),
            id(job.rules),
            id(job.depends),
            (job.queue, job.priority, job.group, job.tags, job.overlap, job.runs_left, job.state),
            (job.created_at, job.anchor_at, job.schedule_expr, job.timezone, job.dialect),
        )
        if (shape := shapes.get(likeness)) is None:
            shape = shapes[likeness] = Shape.of(registration)
        found.append(NewJob.of(registration, shape))
    return found


async def store_new(store: Store, jobs: Sequence[NewJob]) -> list[int | Exception]:
    """Store jobs; return for each 1 if it is new and 0 if not, or why it could not be stored. One
    whose id exists is left as it is, and of two with one id the first counts.

    In place of 1 stands the nominal time of the execution that was started, where that is not
    `run_at`: it may be that of an execution whose job, perhaps of the same id, was just deleted.

    Atomic for `MOST_AT_ONCE` jobs of one shard that follow each other, not beyond.
    """
    for queue in sorted({job.shape.queue for job in jobs if job.shape.is_grouped}):
        await make_fair(store, queue)
    shards = store.layout.shards
    by_shard: list[list[int]] = [[] for _ in shards]
    for at, job in enumerate(jobs):
        # As Layout.shard_of does it, without a call for each.
        by_shard[zlib.crc32(job.id.encode()) % len(shards)].append(at)
    calls: list[Call] = []
    called: list[list[int]] = []
    for shard, places in zip(shards, by_shard, strict=True):
        for first in range(0, len(places), MOST_AT_ONCE):
            called.append(places[first : first + MOST_AT_ONCE])
            calls.append(_call(store, shard, [jobs[at] for at in called[-1]]))
    created: list[int | Exception] = [0] * len(jobs)
    for places, reply in zip(called, await store.scripts.run_many(calls), strict=True):
        answers = [reply] * len(places) if isinstance(reply, Exception) else reply
        for at, answer in zip(places, answers, strict=True):
            created[at] = answer
    return created


def _call(store: Store, shard: Shard, jobs: Sequence[NewJob]) -> Call:
    shapes: dict[Shape, int] = {}
    rows: list[str | bytes | int] = []
    for job_id, shape, next_run_at, run_at, payload in jobs:
        number = shapes.get(shape)
        if number is None:
            number = shapes[shape] = len(shapes) + 1
        rows += (
            job_id,
            number,
            "" if next_run_at is None else next_run_at,
            "" if run_at is None else run_at,
            payload,
        )
    plans = {shape.plan.id: shape.plan for shape in shapes}
    args: list[str | bytes | int] = [
        shard.job_prefix,
        shard.due_prefix,
        shard.ready_prefix,
        shard.dependents_prefix,
        store.max_ready,
        store.config.ledger_limit,
        len(plans),
        len(shapes),
    ]
    for plan in plans.values():
        args += (plan.id, plan.canonical)
    for shape in shapes:
        args += shape.fields
    keys = [shard.jobs, shard.plans, shard.buckets, shard.gates, shard.ledger, shard.ran_at]
    return "create_jobs", keys, [*args, *rows]
