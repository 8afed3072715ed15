"""Does the index agree with the records? A look at one shard, in bounded batches; it only reads.

From the records: each job and live execution is where the due index, the ready streams and the
lists of jobs must have it. From the index: each member belongs to something. What moves while it is
looked at seems wrong for a moment, so only what is found wrong each time, in the same way, counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from engine import codec
from engine.keys import Shard
from engine.names import split_execution_id
from engine.store import Store
from engine.store.audit_records import Fault, faults_of_jobs, scores_of

BATCH = 200
EXAMPLES = 5
LOOKS = 3
"""How often what seems wrong is looked at before it counts."""


@dataclass(slots=True)
class Audit:
    """What was looked at, and what was wrong."""

    jobs: int = 0
    members: int = 0
    is_whole: bool = True
    """Whether all was looked at, or a sample."""
    faults: Counter[str] = field(default_factory=Counter)
    """Kind of fault → how many."""
    examples: list[str] = field(default_factory=list)

    def add(self, found: Sequence[Fault]) -> None:
        self.faults.update(fault.kind for fault in found)
        self.examples += [f"{fault.what}: {fault.kind}" for fault in found]
        del self.examples[EXAMPLES:]

    def __iadd__(self, other: Audit) -> Audit:
        self.jobs += other.jobs
        self.members += other.members
        self.is_whole = self.is_whole and other.is_whole
        self.faults += other.faults
        self.examples = [*self.examples, *other.examples][:EXAMPLES]
        return self


async def audit_shard(store: Store, shard: Shard, *, most: int | None = None) -> Audit:
    """Return how a shard's index agrees with its records: of all, or of `most` jobs and as many
    members of the index."""
    audit = Audit()
    async for job_ids in _job_batches(store, shard, most):
        audit.jobs += len(job_ids)
        audit.add(await _confirmed(store, shard, job_ids))
    async for bucket, members in _member_batches(store, shard, most):
        audit.members += len(members)
        audit.add(await strangers(store, shard, bucket, members))
    audit.is_whole = most is None or max(audit.jobs, audit.members) < most
    return audit


async def _job_batches(store: Store, shard: Shard, most: int | None) -> AsyncIterator[list[str]]:
    start, left = "-", most
    while left is None or left > 0:
        count = BATCH if left is None else min(BATCH, left)
        found = await store.client.zrange(shard.jobs, start, "+", bylex=True, offset=0, num=count)
        ids = [job_id.decode() for job_id in found]
        if ids:
            yield ids
            start = f"({ids[-1]}"
        if len(ids) < count:
            return
        left = None if left is None else left - len(ids)


async def _confirmed(store: Store, shard: Shard, job_ids: Sequence[str]) -> list[Fault]:
    """Return what is wrong with jobs, and still is when it is looked at again."""
    faults = await faults_of_jobs(store, shard, job_ids)
    for _ in range(LOOKS - 1):
        if not faults:
            break
        again = sorted({fault.what.partition("@")[0] for fault in faults})
        faults &= await faults_of_jobs(store, shard, again)
    return sorted(faults)


async def _member_batches(
    store: Store, shard: Shard, most: int | None
) -> AsyncIterator[tuple[str, list[tuple[str, int]]]]:
    left = most
    for bucket in await store.client.zrange(shard.buckets, 0, -1 if most is None else most):
        place = 0
        while left is None or left > 0:
            count = BATCH if left is None else min(BATCH, left)
            rows = await store.client.zrange(
                shard.due(bucket.decode()), place, place + count - 1, withscores=True
            )
            if rows:
                yield bucket.decode(), [(member.decode(), int(score)) for member, score in rows]
            left = None if left is None else left - len(rows)
            place += len(rows)
            if len(rows) < count:
                break


async def strangers(
    store: Store, shard: Shard, bucket: str, members: Sequence[tuple[str, int]]
) -> list[Fault]:
    """Return the members that belong to nothing. One that moved on meanwhile does not count: its
    record says another time, and the index does not hold it under the old one any more."""
    records = [_record_of(member) for member, _ in members]
    pipe = store.client.pipeline(transaction=False)
    for job_id, name in records:
        pipe.hmget(shard.job(job_id), "head", name)
    replies = await pipe.execute()
    listed = await scores_of(store, {(shard.jobs, job_id) for job_id, _ in records})
    suspects = {}
    for (member, due_at), (job_id, _), (head, value) in zip(members, records, replies, strict=True):
        if head is None:
            suspects[member, due_at] = "is in the index and has no job"
        elif listed[shard.jobs, job_id] is None:
            suspects[member, due_at] = "has a job that is not listed"
        elif value is None or not _is_at(member, value, due_at):
            suspects[member, due_at] = "is in the index and belongs to nothing"
    now_at = await scores_of(store, [(shard.due(bucket), member) for member, _ in suspects])
    return [
        Fault(member.rpartition("|")[2], kind, str(due_at))
        for (member, due_at), kind in suspects.items()
        if now_at[shard.due(bucket), member] == due_at
    ]


def _record_of(member: str) -> tuple[str, str]:
    """Return the job of a member, and the field of its hash that says when it is due."""
    _, bar, job_id = member.partition("|")
    if bar:
        return job_id, "head"
    job_id, nominal_at = split_execution_id(member)
    return job_id, f"x:{nominal_at}"


def _is_at(member: str, value: bytes, due_at: int) -> bool:
    if "|" in member:
        return codec.load_head(value).is_due_at(due_at)
    where, _, at = value.decode().partition(";")[0].split(":")[:3]
    return where != "ready" and at == str(due_at)
