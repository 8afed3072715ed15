"""What depends on what: note it, ask it, and keep circles out.

Three things say that job B depends on A, and they are written in an order in which a crash between
two of them leaves nothing silent:

1. `wc:graph` has for B the jobs that it depends on. It is one hash, so circles are seen.
2. A's `dependents` has B. What A tells a B that is not there is passed over.
3. B's own hash has its upstream jobs and their conditions.

Taking a dependency away goes the other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from engine.depends import Depends, Match, Upstream, usual_match
from engine.errors import Conflict, Cycle, NotFound
from engine.keys import GRAPH
from engine.scripts import Call
from engine.store import Store

MOST_ANCESTORS = 10_000
TRIES = 5


async def read_graph(store: Store, job_ids: Iterable[str]) -> dict[str, Depends]:
    """Return what jobs depend on, and those in turn, up to the roots. Conditions and gates are not
    in it."""
    graph: dict[str, Depends] = {}
    seen: set[str] = set()
    level = sorted(set(job_ids))
    while level and len(seen) < MOST_ANCESTORS:
        seen.update(level)
        rows = await store.client.hmget(GRAPH, level)
        for job_id, row in zip(level, rows, strict=True):
            if row:
                match, *upstreams = row.decode().split()
                graph[job_id] = Depends(tuple(map(Upstream, upstreams)), match=Match(match))
        above = {u.job_id for job_id in level if job_id in graph for u in graph[job_id].upstreams}
        level = sorted(above - seen)
    return graph


async def match_of(store: Store, upstreams: Sequence[str]) -> Match:
    """Return how a job that depends on `upstreams` matches their executions unless it says."""
    return usual_match(upstreams, await read_graph(store, upstreams))


async def link_job(
    store: Store, job_id: str, depends: Depends, *, allow_missing: bool = False
) -> str:
    """Note what a job depends on, before it is stored itself; return what was noted before.

    Raises Cycle, changing nothing, if that closes a circle, and NotFound for an upstream job that
    is not there, unless that is allowed.
    """
    before = await _link(store, job_id, depends)
    try:
        await _add(store, job_id, [u.job_id for u in depends.upstreams], allow_missing)
    except NotFound:
        with suppress(Conflict):
            await unlink_job(store, job_id, depends, before)
        raise
    return before


async def _link(store: Store, job_id: str, depends: Depends) -> str:
    """Write a job's edges in place of those that stand; return these."""
    upstreams = [upstream.job_id for upstream in depends.upstreams]
    for _ in range(TRIES):
        stands = await _noted(store, job_id)
        args = [job_id, stands, _noted_match(depends), *upstreams]
        try:
            await store.scripts.run("link_job", [GRAPH], args)
        except Cycle:
            raise
        except Conflict:
            continue
        return stands
    raise Conflict(f"what job {job_id} depends on is being changed by others; try again")


def noted(depends: Depends | None) -> str:
    """Return what the graph holds for a job that depends on this, '' for nothing."""
    if depends is None:
        return ""
    return " ".join([_noted_match(depends), *(up.job_id for up in depends.upstreams)])


def _noted_match(depends: Depends) -> Match:
    # A gated job has times of its own, so those below it descend from it.
    return Match.LATEST if depends.gate_ms is not None else depends.match


async def _add(store: Store, job_id: str, upstreams: Sequence[str], allow_missing: bool) -> None:
    calls: list[Call] = []
    for upstream in upstreams:
        shard = store.layout.shard_of(upstream)
        keys = [shard.job(upstream), shard.dependents(upstream)]
        calls.append(("add_dependent", keys, [upstream, job_id, int(allow_missing)]))
    missing = []
    for upstream, reply in zip(upstreams, await store.scripts.run_many(calls), strict=True):
        if isinstance(reply, NotFound):
            missing.append(upstream)
        elif isinstance(reply, Exception):
            raise reply
    if missing:
        named = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        raise NotFound(
            f"there is no job {named} to depend on; register it first, or allow_missing",
            field="depends_on",
        )


async def unlink_job(store: Store, job_id: str, depends: Depends, before: str = "") -> None:
    """Take away what `link_job` noted: the job is not there, or depends on something else now.

    `before` is what the graph is to hold again.
    """
    kept = set(before.split()[1:])
    calls: list[Call] = []
    for upstream in depends.upstreams:
        if upstream.job_id not in kept:
            shard = store.layout.shard_of(upstream.job_id)
            keys = [shard.job(upstream.job_id), shard.dependents(upstream.job_id)]
            calls.append(("remove_dependent", keys, [job_id]))
    await store.scripts.run_all(calls)
    match, *upstreams = before.split() or [""]
    args = [job_id, await _noted(store, job_id), match, *upstreams]
    await store.scripts.run("link_job", [GRAPH], args)


async def _noted(store: Store, job_id: str) -> str:
    known = await store.client.hget(GRAPH, job_id)
    return known.decode() if known else ""
