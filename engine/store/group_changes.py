"""One thing done to all jobs of a group: pause, resume, delete.

It is done job by job, in order of ids and a bounded number in a step, which says what became of
them and where the next one goes on. Sent again, a step does what is still to do. A job that joins
the group behind the place where the steps are stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from engine import codec
from engine.access import ANYONE, Caller
from engine.errors import NotFound, WaterclockError, WrongState
from engine.model import JobState
from engine.plan import CatchUp, MisfirePolicy
from engine.store import Store
from engine.store.changes import pause_call, resume_call, what_to_catch_up
from engine.store.groups import no_group
from engine.store.jobs import load_jobs
from engine.store.registering import AT_ONCE, Dependents, remove_job
from engine.store.removing import remove_plain
from engine.store.search import Search, find_ids
from engine.store.snapshot import read_for
from engine.store.visible import check_alone

STEP = 10_000
"""Jobs that one step looks at, at the most."""
BATCH = 100
"""Jobs whose scripts go out together: other clients of the server wait for so many."""
NAMED = 10
"""Failures that a step names."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that stayed as it was, and why."""

    job_id: str
    error: WaterclockError


@dataclass(slots=True)
class Step:
    """What one step did."""

    changed: int = 0
    unchanged: int = 0
    """Jobs that were so already."""
    failed: int = 0
    first_failed: list[Failure] = field(default_factory=list)
    starts: int = 0
    """Executions that a resume starts."""
    skipped: int = 0
    """Nominal times that a resume skips; `skipped_is_exact` says whether these are all."""
    skipped_is_exact: bool = True
    after: str | None = None
    """Where the next step goes on; None at the end."""

    def add(self, job_id: str, reply: object) -> None:
        """Count a job by the reply of its script, or the refusal."""
        match reply:
            case WrongState():
                self.unchanged += 1
            case NotFound():
                pass  # it went meanwhile
            case WaterclockError():
                self.failed += 1
                if len(self.first_failed) < NAMED:
                    self.first_failed.append(Failure(job_id, reply))
            case Exception():
                raise reply
            case _:
                self.changed += 1

    def add_catch_up(self, found: CatchUp) -> None:
        self.starts += len(found.run)
        for skipped in (found.skipped, *found.closed):
            if skipped is not None:
                self.skipped += skipped.count
                self.skipped_is_exact &= skipped.exact


async def pause_group(
    store: Store,
    group: str,
    now: int,
    *,
    note: str = "",
    by: str = "api",
    after: str = "",
    limit: int = STEP,
) -> Step:
    """Pause the active jobs of a group behind `after`, `limit` at the most; return what was done.
    Raises NotFound for a group without jobs."""
    ids, step = await _begin(store, group, after, limit)
    reason = codec.dump_note(by, now, note)
    for batch in _batches(ids):
        calls = [pause_call(store, job_id, reason) for job_id in batch]
        for job_id, reply in zip(batch, await store.scripts.run_many(calls), strict=True):
            step.add(job_id, reply)
    return step


async def resume_group(
    store: Store,
    group: str,
    now: int,
    policy: MisfirePolicy | None = None,
    *,
    dry_run: bool = False,
    note: str = "",
    by: str = "api",
    after: str = "",
    limit: int = STEP,
) -> Step:
    """Resume the paused jobs of a group behind `after`, `limit` at the most, each as `resume_job`
    does; return what was done or, for a dry run, what would be. Raises NotFound for a group without
    jobs."""
    ids, step = await _begin(store, group, after, limit)
    reason = codec.dump_note(by, now, note)
    for batch in _batches(ids):
        found = await load_jobs(store, batch)
        await read_for(store, [stored.plan for stored in found])
        paused = [stored for stored in found if stored.job.state is JobState.PAUSED]
        step.unchanged += len(found) - len(paused)
        missed = [what_to_catch_up(store, stored, now, policy) for stored in paused]
        replies: Sequence[object] = [None] * len(paused)
        if not dry_run:
            jobs = zip(paused, missed, strict=True)
            replies = await store.scripts.run_many(
                [resume_call(store, stored, times, now, reason) for stored, times in jobs]
            )
        for stored, times, reply in zip(paused, missed, replies, strict=True):
            step.add(stored.job.id, reply)
            if not isinstance(reply, Exception):
                step.add_catch_up(times)
    return step


async def delete_group(
    store: Store,
    group: str,
    now: int,
    dependents: Dependents = Dependents.REFUSE,
    *,
    caller: Caller = ANYONE,
    after: str = "",
    limit: int = STEP,
) -> Step:
    """Delete the jobs of a group behind `after`, `limit` at the most, each as `remove_job` does;
    return what was done. Of those in one step, dependent jobs go first.

    One on which jobs depend that are not there for `caller` stays. Raises NotFound for a group
    without jobs.
    """
    ids, step = await _begin(store, group, after, limit)
    linked: dict[str, list[str]] = {}
    for batch in _batches(ids):
        removed = await remove_plain(store, batch)
        for job_id, reply in removed.items():
            step.add(job_id, reply)
        linked |= await _upstreams(store, [one for one in batch if one not in removed])
    order = TopologicalSorter(dict.fromkeys(linked, ()))
    for job_id, upstreams in linked.items():
        for upstream in linked.keys() & upstreams:
            order.add(upstream, job_id)
    order.prepare()
    while order.is_active():
        ready = order.get_ready()
        for start in range(0, len(ready), AT_ONCE):
            part = ready[start : start + AT_ONCE]
            removing = (_remove(store, job_id, now, dependents, caller) for job_id in part)
            for job_id, refusal in zip(part, await asyncio.gather(*removing), strict=True):
                step.add(job_id, refusal)
        order.done(*ready)
    return step


async def _begin(store: Store, group: str, after: str, limit: int) -> tuple[list[str], Step]:
    """Return the ids that a step is about, and the step. Raises NotFound if there are none at
    all."""
    search = Search(groups=frozenset({group}))
    ids, following = await find_ids(store, search, after=after, limit=min(limit, STEP))
    if not ids and not after:
        raise no_group(group)
    return ids, Step(after=following)


def _batches(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))


async def _upstreams(store: Store, job_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return what each of the jobs depends on."""
    pipe = store.client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.hget(store.layout.shard_of(job_id).job(job_id), "upstreams")
    found = await pipe.execute() if job_ids else []
    # Each id stands behind the letter of its condition.
    return {
        job_id: [text[1:] for text in (upstreams or b"").decode().split()]
        for job_id, upstreams in zip(job_ids, found, strict=True)
    }


async def _remove(
    store: Store, job_id: str, now: int, dependents: Dependents, caller: Caller
) -> WaterclockError | None:
    """Delete a job; return the refusal, if any."""
    try:
        await check_alone(store, caller, job_id, cascade=dependents is Dependents.CASCADE)
        await remove_job(store, job_id, now, dependents)
    except WaterclockError as error:
        return error
    return None
