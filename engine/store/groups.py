"""Groups of jobs: which there are, and what they hold.

A group has no record of its own: it is there while a job names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine import codec
from engine.errors import NotFound
from engine.model import JobState
from engine.store import Store
from engine.store.search import Search, find_ids, find_names

COUNTED = 10_000
"""Jobs of a group whose states are counted."""
CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class GroupSize:
    """How much there is of a group."""

    name: str
    jobs: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class GroupStates:
    """How many jobs of a group are in each state, as far as they were counted."""

    jobs: Counter[JobState]
    is_cut: bool
    """Whether there are more jobs than were looked at."""


async def list_groups(
    store: Store, *, names: frozenset[str] | None = None, after: str = "", limit: int = 100
) -> tuple[list[GroupSize], str | None]:
    """Return groups in byte order, and the name to go on after, None at the end. With `names` these
    alone."""
    if names is None:
        found, following = await find_names(
            store, lambda shard: [shard.group_names], after=after, limit=limit
        )
    else:
        rest = sorted(name for name in names if name > after)
        found = rest[:limit]
        following = found[-1] if len(rest) > limit else None
    sizes = await read_sizes(store, found)
    # One whose last job went since, or that nobody has used yet.
    return [size for size in sizes if size.jobs], following


async def read_sizes(store: Store, names: Sequence[str]) -> list[GroupSize]:
    """Return the size of each of these groups: no jobs for one that is not there."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards if names else ():
        pipe.hmget(shard.groups, names)
        for name in names:
            pipe.zcard(shard.jobs_of_group(name))
    replies = await pipe.execute() if names else []
    jobs, sums = Counter[str](), Counter[str]()
    for start in range(0, len(replies), len(names) + 1):
        sizes, *counts = replies[start : start + len(names) + 1]
        for name, size, count in zip(names, sizes, counts, strict=True):
            sums[name] += int(size or 0)
            jobs[name] += count
    return [GroupSize(name, jobs[name], sums[name]) for name in names]


async def get_group(store: Store, name: str) -> tuple[GroupSize, GroupStates]:
    """Return how much there is of a group, and how its jobs stand: the first 10,000 of them, in
    order of their ids. Raises NotFound for a group without jobs."""
    [size] = await read_sizes(store, [name])
    if not size.jobs:
        raise no_group(name)
    ids, following = await find_ids(store, Search(groups=frozenset({name})), limit=COUNTED)
    states = Counter[JobState]()
    for start in range(0, len(ids), CHUNK):
        pipe = store.client.pipeline(transaction=False)
        for job_id in ids[start : start + CHUNK]:
            pipe.hget(store.layout.shard_of(job_id).job(job_id), "head")
        states.update(codec.load_head(head).state for head in await pipe.execute() if head)
    return size, GroupStates(states, is_cut=following is not None)


async def count_left(store: Store, name: str, after: str) -> int:
    """Return how many jobs of a group come behind an id."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.zlexcount(shard.jobs_of_group(name), f"({after}", "+")
    return sum(await pipe.execute())


def no_group(name: str) -> NotFound:
    return NotFound(f"there is no group {name}: no job names it")
