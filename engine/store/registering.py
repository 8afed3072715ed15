"""Jobs together with what they depend on: register, change, delete.

What a job depends on stands in its own hash, and that is the truth. The graph and the upstream jobs
know it too, and the two are never written in one step, so:

1. They get what stands and what is to come, both; circles are refused here.
2. The hash is written.
3. They are told what the hash now says, and nothing else.

A crash, or another writer, between two of these leaves somebody told too much, which a job that
does not ask for it passes over; never too little.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from graphlib import TopologicalSorter

from engine.depends import MOST_UPSTREAMS, Depends, Upstream
from engine.errors import BadInput, Conflict, Cycle, HasDependents, NotFound, WrongState
from engine.keys import GRAPH
from engine.registration import Registration
from engine.store import Store
from engine.store.changes import replace_job
from engine.store.dependencies import TRIES, link_job, noted, unlink_job
from engine.store.graphs import MOST_BELOW, read_below
from engine.store.jobs import StoredJob, create_jobs, delete_job, get_job
from engine.store.outbox import read_dependents
from engine.store.secrets import forget_secrets

AT_ONCE = 50
"""Jobs that a cascade, or a detachment, works on at a time."""
NAMED = 5
"""Ids that a refusal names."""


class Dependents(StrEnum):
    """What becomes of the jobs that depend on one that is deleted."""

    REFUSE = "refuse"
    CASCADE = "cascade"
    """They are deleted too, and those that depend on them."""
    DETACH = "detach"
    """They depend on what else they depend on; with nothing left they are ordinary jobs."""


async def register_job(
    store: Store, registration: Registration, *, allow_missing: bool = False
) -> int:
    """Store a job; return 1 if it is new and 0 if not, or in place of 1 what `store_new` says. One
    whose id exists is left as it is.

    Raises Cycle, and BadInput for an upstream job that is not there unless that is allowed; both
    leave nothing behind.
    """
    job = registration.job
    if job.depends is None:
        [made] = await create_jobs(store, [registration])
        return made
    if await store.client.exists(store.layout.shard_of(job.id).job(job.id)):
        return 0
    wide = await _link(store, job.id, None, job.depends, allow_missing)
    try:
        [made] = await create_jobs(store, [registration])
    except Exception:
        with suppress(Exception):
            await _settle(store, job.id, wide)
        raise
    if not made or wide != job.depends:
        await _settle(store, job.id, wide)
    return made


async def edit_job(
    store: Store,
    stored: StoredJob,
    registration: Registration,
    now: int,
    *,
    allow_missing: bool = False,
) -> int:
    """Give the job that was read as `stored` another definition; return its new version.

    Raises as `replace_job` and `register_job` do; an upstream job that it depends on already may be
    missing.
    """
    job_id, old, new = stored.job.id, stored.job.depends, registration.job.depends
    known = await _noted_row(store, job_id)
    if known == noted(old) == noted(new):
        return await replace_job(store, stored, registration, now)
    if new is None:
        wide = Depends(_joined(() if old is None else old.upstreams, _upstreams_in(known)))
    else:
        wide = await _link(store, job_id, old, new, allow_missing)
    try:
        return await replace_job(store, stored, registration, now)
    finally:
        await _settle(store, job_id, wide)


async def remove_job(
    store: Store,
    job_id: str,
    now: int,
    dependents: Dependents = Dependents.REFUSE,
    version: int | None = None,
) -> None:
    """Delete a job with its history and all that nobody has started yet; `dependents` says what
    becomes of the jobs that depend on it.

    Raises NotFound, HasDependents where that is to refuse, and Conflict for a cascade that is too
    large, and if another `version` stands than the one that is named. A cascade that is interrupted
    has deleted from the far end.
    """
    stored = await get_job(store, job_id)
    if version is not None and stored.job.version != version:
        raise Conflict(f"job {job_id} has changed since it was read; read it again")
    if dependents is Dependents.CASCADE:
        await _cascade(store, job_id, version)
        return
    below = (await read_dependents(store, [job_id]))[job_id]
    if below and dependents is Dependents.REFUSE:
        raise HasDependents(
            f"{_named(below)} depend{'s' if len(below) == 1 else ''} on job {job_id}; delete with"
            " dependents=cascade or dependents=detach"
        )
    await _all(below, lambda dependent: _detach(store, dependent, job_id, now))
    await _delete(store, job_id, version=version)


async def _cascade(store: Store, job_id: str, version: int | None) -> None:
    below = await read_below(store, job_id, MOST_BELOW)
    if below.is_cut:
        raise Conflict(
            f"more than {MOST_BELOW} jobs depend on job {job_id}; delete some of them first"
        )
    above: defaultdict[str, list[str]] = defaultdict(list)
    for one, dependents in below.dependents.items():
        for dependent in dependents:
            above[dependent].append(one)
    order = TopologicalSorter(below.dependents)
    order.prepare()
    while order.is_active():
        ready = order.get_ready()
        await _all(
            ready,
            lambda one: _delete(store, one, above.get(one, ()), version if one == job_id else None),
        )
        order.done(*ready)


async def _delete(
    store: Store, job_id: str, above: Sequence[str] = (), version: int | None = None
) -> None:
    """Delete a job, and what graph and upstream jobs hold of it. One that some of these, `above`,
    list may be gone already."""
    depends = await _stored_depends(store, job_id)
    known = _upstreams_in(await _noted_row(store, job_id))
    try:
        await delete_job(store, job_id, version)
    except NotFound:
        if not above:
            raise
    await forget_secrets(store, [job_id])
    doubtful = _joined(() if depends is None else depends.upstreams, [*known, *above])
    if doubtful:
        await _settle(store, job_id, Depends(doubtful[:MOST_UPSTREAMS]))


async def _detach(store: Store, job_id: str, upstream: str, now: int) -> None:
    """Have a job depend on `upstream` no longer."""
    for _ in range(TRIES):
        stored = None
        with suppress(NotFound):
            stored = await get_job(store, job_id)
        depends = stored.job.depends if stored else None
        left = tuple(up for up in depends.upstreams if up.job_id != upstream) if depends else ()
        if stored is None or depends is None or left == depends.upstreams:
            await _settle(store, job_id, Depends((Upstream(upstream),)))
            return
        job = replace(stored.job, depends=replace(depends, upstreams=left) if left else None)
        try:
            await edit_job(store, stored, Registration(job, stored.plan), now, allow_missing=True)
        except WrongState:
            raise
        except Conflict:
            continue
        return
    raise Conflict(f"job {job_id} changes too fast to be detached; try again")


# Graph and upstream jobs


async def _link(
    store: Store, job_id: str, old: Depends | None, new: Depends, allow_missing: bool
) -> Depends:
    """Note what a job is to depend on beside what stands; return both together."""
    standing = [] if old is None else [up.job_id for up in old.upstreams]
    known = _upstreams_in(await _noted_row(store, job_id))
    upstreams = _joined(new.upstreams, [*standing, *known])
    if len(upstreams) > MOST_UPSTREAMS:
        raise BadInput(
            f"old and new upstream jobs are more than {MOST_UPSTREAMS} together; drop some first",
            field="depends_on",
        )
    wide = replace(new, upstreams=upstreams)
    asked = {up.job_id: at for at, up in enumerate(new.upstreams) if up.job_id not in standing}
    if not allow_missing:
        refuse_missing(await _missing(store, asked), asked)
    try:
        await link_job(store, job_id, wide, allow_missing=True)
    except Cycle as error:
        raise Cycle(error.message, field="depends_on") from None
    # Once more: only from here on can a job that is there not be deleted any more.
    if not allow_missing and (missing := await _missing(store, asked)):
        await _settle(store, job_id, wide)
        refuse_missing(missing, asked)
    return wide


def refuse_missing(missing: Sequence[str], asked: Mapping[str, int]) -> None:
    """Refuse with BadInput upstream jobs that are not there; `asked` says where each stands."""
    if missing:
        raise BadInput(
            f"not there: {_named(missing)}; register upstream jobs first, or allow_missing",
            field=f"depends_on.{asked[missing[0]]}",
        )


async def _settle(store: Store, job_id: str, doubtful: Depends) -> None:
    """Have the graph and the upstream jobs say what the job itself says; `doubtful` is what they
    may say beside that."""
    for turn in range(TRIES):
        stands = await _stored_depends(store, job_id)
        with suppress(Conflict):
            if turn and stands:
                await link_job(store, job_id, stands, allow_missing=True)
            await unlink_job(store, job_id, doubtful, noted(stands))
            if await _stored_depends(store, job_id) == stands:
                return


async def _stored_depends(store: Store, job_id: str) -> Depends | None:
    try:
        return (await get_job(store, job_id)).job.depends
    except NotFound:
        return None


async def _noted_row(store: Store, job_id: str) -> str:
    row: bytes | None = await store.client.hget(GRAPH, job_id)
    return row.decode() if row else ""


def _upstreams_in(row: str) -> list[str]:
    return row.split()[1:]


async def _missing(store: Store, job_ids: Iterable[str]) -> list[str]:
    asked = list(job_ids)
    pipe = store.client.pipeline(transaction=False)
    for job_id in asked:
        pipe.exists(store.layout.shard_of(job_id).job(job_id))
    found = await pipe.execute() if asked else []
    return [job_id for job_id, is_there in zip(asked, found, strict=True) if not is_there]


def _joined(upstreams: Sequence[Upstream], more: Iterable[str]) -> tuple[Upstream, ...]:
    known = {up.job_id for up in upstreams}
    return (*upstreams, *(Upstream(one) for one in dict.fromkeys(more) if one not in known))


async def _all(job_ids: Sequence[str], act: Callable[[str], Awaitable[None]]) -> None:
    for start in range(0, len(job_ids), AT_ONCE):
        await asyncio.gather(*map(act, job_ids[start : start + AT_ONCE]))


def _named(job_ids: Sequence[str]) -> str:
    """Return `job a`, or `jobs a, b and 3 more`."""
    more = len(job_ids) - NAMED
    text = ", ".join(job_ids[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"job{'s' if len(job_ids) > 1 else ''} {text}"
