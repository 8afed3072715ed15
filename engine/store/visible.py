"""What is there for a caller that is restricted to groups, of what others share with it.

Such a caller meets everything else as if it were not there: the same answers, in the same words.
The group is looked at before the thing is: a job that changes its group in between was this
caller's when it asked.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from engine.access import Caller
from engine.errors import Conflict, HasDependents, NotFound
from engine.store import Store
from engine.store.graphs import MOST_BELOW, read_below
from engine.store.outbox import read_dependents
from engine.store.registering import refuse_missing


async def check_seen(store: Store, caller: Caller, job_id: str) -> None:
    """Refuse with NotFound a job that is not there for the caller. Costs nothing for one who sees
    all: the operation itself then tells."""
    if caller.groups is not None and not await seen_jobs(store, caller, [job_id]):
        raise NotFound(f"there is no job {job_id}")


async def seen_jobs(store: Store, caller: Caller, job_ids: Iterable[str]) -> set[str]:
    """Return those of the jobs that are there for a restricted caller."""
    groups = await groups_of(store, job_ids)
    return {job_id for job_id, group in groups.items() if caller.sees(group)}


async def groups_of(store: Store, job_ids: Iterable[str]) -> Mapping[str, str | None]:
    """Return the group of each job; None if it has none, or is gone."""
    asked = list(dict.fromkeys(job_ids))
    pipe = store.client.pipeline(transaction=False)
    for job_id in asked:
        pipe.hget(store.layout.shard_of(job_id).job(job_id), "group")
    found = await pipe.execute() if asked else []
    return {
        job_id: group.decode() if group else None
        for job_id, group in zip(asked, found, strict=True)
    }


async def check_alone(store: Store, caller: Caller, job_id: str, *, cascade: bool) -> None:
    """Refuse with HasDependents to delete a job on which others depend that are not the caller's:
    they would be deleted, or changed, or named. With `cascade` those on any level count."""
    if caller.groups is None:
        return
    if cascade:
        below = await read_below(store, job_id, MOST_BELOW)
        if below.is_cut:
            raise Conflict(f"more than {MOST_BELOW} jobs depend on job {job_id}")
        named = below.dependents.keys() - {job_id}
    else:
        named = {*(await read_dependents(store, [job_id]))[job_id]}
    if await _hidden(store, caller, named):
        raise HasDependents(
            f"jobs that this key does not see depend on job {job_id}; have it deleted by somebody"
            " whose key sees them"
        )


async def check_upstreams(
    store: Store, caller: Caller, named: Sequence[str], standing: Container[str]
) -> None:
    """Refuse with BadInput upstream jobs, but for those that the job depends on already, which are
    not there for the caller: all at once and as `register_job` does, so that nothing tells those of
    others from those that are not there at all."""
    asked = {job_id: at for at, job_id in enumerate(named) if job_id not in standing}
    seen = await seen_jobs(store, caller, asked)
    refuse_missing([job_id for job_id in asked if job_id not in seen], asked)


async def _hidden(store: Store, caller: Caller, job_ids: Iterable[str]) -> bool:
    """Return whether any of the jobs is there, and not for the caller."""
    pipe = store.client.pipeline(transaction=False)
    for job_id in job_ids:
        pipe.hmget(store.layout.shard_of(job_id).job(job_id), "head", "group")
    return any(
        head is not None and not caller.sees(group.decode() if group else None)
        for head, group in await pipe.execute()
    )
