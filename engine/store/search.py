"""The search in jobs: which are meant, and how they are found, in byte order of their ids.

Of the lists that a search may walk (all jobs, those of its groups, those with one of its tags) it
takes the shortest. Where no list decides, it looks into a bounded number of jobs, and then says
where to go on, whatever it found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.keys import Shard
from engine.model import JobState
from engine.scripts import Call
from engine.store import Store
from engine.store.jobs import MAX_PAGE, StoredJob, load_jobs

LOOK = 4_000
"""Jobs that scripts sent together look into: other clients of the server wait for so many."""
MOST_LOOK = 500
"""Jobs that one script looks into."""
LOOK_LIMIT = 100_000
"""Jobs that one search looks into."""

Lists = Callable[[Shard], Sequence[str]]
"""The keys of a shard that are walked together: zsets of names, all scores 0."""
Part = tuple[list[str], int, str | None]
"""Names in byte order, how many were looked at for them, and the name to go on after, None at the
end."""


@dataclass(frozen=True, slots=True)
class Search:
    """Which jobs are meant: those for which all holds that is given."""

    prefix: str = ""
    """What the id begins with."""
    groups: frozenset[str] | None = None
    """Of one of these groups; None for all, those of no group included."""
    keeps_to_groups: bool = False
    """Whether no other group's list is walked, so that not even the place to go on after names one
    of its jobs."""
    tags: tuple[str, ...] = ()
    """With all of these tags."""
    state: JobState | None = None
    queue: str | None = None
    """In whichever priority."""
    due_from: int | None = None
    """With `due_until`, when an active job is due next; both are included."""
    due_until: int | None = None

    @property
    def looks_inside(self) -> bool:
        """Whether more decides than the lists in which a job is."""
        asked = (self.state, self.queue, self.due_from, self.due_until)
        return any(one is not None for one in asked)


async def search_jobs(
    store: Store, search: Search, *, after: str = "", limit: int = 100
) -> tuple[list[StoredJob], str | None]:
    """Return the next jobs that are meant, and the id to go on after, None at the end.

    A page holds `limit` jobs, 1,000 at the most; fewer, or none, where `LOOK_LIMIT` others came
    before. `after` is what the page before said.
    """
    ids, following = await find_ids(store, search, after=after, limit=min(limit, MAX_PAGE))
    found = await load_jobs(store, ids)
    # A job may have changed groups since the look at it: nobody is shown what is not theirs.
    groups = search.groups
    return [one for one in found if groups is None or one.job.group in groups], following


async def find_ids(
    store: Store, search: Search, *, after: str = "", limit: int = MAX_PAGE
) -> tuple[list[str], str | None]:
    """Return the ids of the next `limit` jobs that are meant, as `search_jobs` does."""
    if search.groups is not None and not search.groups:
        return [], None
    lists, is_exact = await _shortest(store, search, after)
    if is_exact:
        return await find_names(store, lists, prefix=search.prefix, after=after, limit=limit)
    return await _gather(partial(_look, store, lists, search), after, limit)


async def find_names(
    store: Store, lists: Lists, *, prefix: str = "", after: str = "", limit: int
) -> tuple[list[str], str | None]:
    """Return the next `limit` names of lists, each once, and the name to go on after, None at the
    end."""
    return await _gather(partial(_walk, store, lists, prefix), after, limit)


async def _gather(
    part: Callable[[str, int], Awaitable[Part]], after: str, limit: int
) -> tuple[list[str], str | None]:
    found: list[str] = []
    looked = 0
    place: str | None = after
    # One more than asked for tells whether there is a next page.
    while place is not None and len(found) <= limit and looked < LOOK_LIMIT:
        names, count, place = await part(place, limit + 1 - len(found))
        looked += count
        found += names
    return (found[:limit], found[limit - 1]) if len(found) > limit else (found, place)


async def _shortest(store: Store, search: Search, after: str) -> tuple[Lists, bool]:
    """Return the lists to walk, and whether all jobs in them are meant."""
    choices: list[Lists] = [partial(_with_tag, tag) for tag in search.tags]
    if (groups := search.groups) is not None:
        choices.append(lambda shard: [shard.jobs_of_group(group) for group in groups])
    if not choices:
        choices.append(lambda shard: [shard.jobs])
    is_exact = len(choices) == 1 and not search.looks_inside
    if len(choices) == 1 or search.keeps_to_groups:
        return choices[-1], is_exact
    start, stop = _bounds(search.prefix, after)
    lengths = []
    for lists in choices:
        pipe = store.client.pipeline(transaction=False)
        for shard in store.layout.shards:
            for key in lists(shard):
                pipe.zlexcount(key, start, stop)
        lengths.append(sum(await pipe.execute()))
    return choices[lengths.index(min(lengths))], is_exact


def _with_tag(tag: str, shard: Shard) -> list[str]:
    return [shard.jobs_with_tag(tag)]


async def _walk(store: Store, lists: Lists, prefix: str, after: str, count: int) -> Part:
    """Return the next names of lists in all shards, `count` at the most."""
    start, stop = _bounds(prefix, after)
    keys = [key for shard in store.layout.shards for key in lists(shard)]
    # Names spread evenly over shards; a list that has more than its share ends the part early.
    share = min(count, count // len(keys) + 16)
    pipe = store.client.pipeline(transaction=False)
    for key in keys:
        pipe.zrange(key, start, stop, bylex=True, offset=0, num=share)
    rows = await pipe.execute()
    names, place = _merged([(row, row[-1] if len(row) == share else None) for row in rows])
    page = names[:count]
    return page, len(page), page[-1] if len(names) > count else place


async def _look(store: Store, lists: Lists, search: Search, after: str, _: int) -> Part:
    """Return which of the next jobs of lists in all shards the search takes."""
    start, stop = _bounds(search.prefix, after)
    keys = [(shard, key) for shard in store.layout.shards for key in lists(shard)]
    share = min(LOOK // len(keys) + 1, MOST_LOOK)
    replies = await find_jobs(store, keys, search, start, stop, share)
    rows = [(ids, last if looked == share else None) for looked, last, *ids in replies]
    names, place = _merged(rows)
    return names, sum(looked for looked, *_ in replies), place


async def find_jobs(
    store: Store,
    keys: Sequence[tuple[Shard, str]],
    search: Search,
    start: str,
    stop: str,
    count: int,
) -> list[list[Any]]:
    """Return for each list how many of its next `count` jobs there are, the last of them, and those
    that the search takes, whatever its prefix."""
    asked = [search.state, search.queue, search.due_from, search.due_until]
    fields = ["" if one is None else one for one in asked]
    fields += [" ".join(search.groups or ()), " ".join(search.tags)]
    calls: list[Call] = [
        ("find_jobs", [key], [shard.job_prefix, start, stop, count, *fields]) for shard, key in keys
    ]
    return await store.scripts.run_all(calls)


def _merged(rows: Sequence[tuple[Sequence[bytes], bytes | None]]) -> tuple[list[str], str | None]:
    """Return the names of lists as one, and the name to go on after, None at the end. A list comes
    with the last name that was looked at, if it may have more."""
    ends = [end for _, end in rows if end is not None]
    # Behind that end the names of other lists are not known to be next.
    end = min(ends, default=None)
    names = sorted({name for row, _ in rows for name in row if end is None or name <= end})
    return [name.decode() for name in names], None if end is None else end.decode()


def _bounds(prefix: str, after: str) -> tuple[str, str]:
    """Return the range of names that begin with `prefix` and come behind `after`."""
    start = f"({after}" if after >= prefix and after else (f"[{prefix}" if prefix else "-")
    # A name's characters are all below `~`, so prefix + `~` is past every name that begins so.
    return start, f"({prefix}~" if prefix else "+"
