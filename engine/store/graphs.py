"""The graph of jobs: what is above one and below it, level by level and within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from engine import codec
from engine.depends import Condition, Match
from engine.errors import NotFound
from engine.execution import LiveExecution
from engine.model import Job
from engine.store import Store
from engine.store.outbox import read_dependents

MOST_SHOWN = 1_000
"""Jobs that a picture of the graph has."""
MOST_BELOW = 10_000
"""Jobs below one that a cascade deletes, or a re-run runs again."""


Sees = Callable[[str | None], bool]
"""Whether jobs of a group, None for those of none, are there for who asks; others are missing."""


def all_seen(_: str | None) -> bool:
    """Of somebody for whom all jobs are there."""
    return True


@dataclass(frozen=True, slots=True)
class Node:
    """A job as the graph shows it."""

    job: Job
    live: list[LiveExecution]


@dataclass(frozen=True, slots=True)
class Edge:
    """`below` depends on `above`."""

    above: str
    below: str
    condition: Condition


@dataclass(slots=True)
class Graph:
    """Jobs, the nearest first, and what of them depends on what."""

    nodes: dict[str, Node | None] = field(default_factory=dict)
    """None for a job that others name and that is not there."""
    is_cut: bool = False
    """There are more jobs than it may have."""

    def edges(self) -> Iterator[Edge]:
        """Yield the edges between the jobs that it has."""
        for below, node in self.nodes.items():
            for up in node.job.depends.upstreams if node and node.job.depends else ():
                if up.job_id in self.nodes:
                    yield Edge(up.job_id, below, up.condition)

    def room_for(self, job_ids: Iterable[str], most: int) -> list[str]:
        """Return those that it does not have, as far as there is room for them."""
        new = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in self.nodes]
        room = most - len(self.nodes)
        self.is_cut = self.is_cut or len(new) > room
        return new[:room]


@dataclass(frozen=True, slots=True)
class Below:
    """Jobs below one, and the one itself: each with the jobs that depend on it."""

    dependents: dict[str, list[str]]
    is_cut: bool


async def read_around(
    store: Store, job_id: str, depth: int = MOST_SHOWN, sees: Sees = all_seen
) -> Graph:
    """Return a job with what is above it and below it, `depth` levels each way, `MOST_SHOWN` jobs
    in all. Raises NotFound."""
    graph = Graph({job_id: await read_node(store, job_id, sees)})
    above, below = [job_id], [job_id]
    for _ in range(depth):
        above = graph.room_for(_upstreams_of(graph, above), MOST_SHOWN)
        graph.nodes |= await read_nodes(store, above, sees)
        below = await _read_level(store, graph, below, MOST_SHOWN, sees)
        if not above and not below:
            break
    return graph


async def read_descent(
    store: Store,
    job_id: str,
    most: int = MOST_SHOWN,
    *,
    gated: bool = True,
    sees: Sees = all_seen,
) -> Graph:
    """Return a job with those below it whose executions have the times of its own, `most` in all;
    without those that a schedule of their own runs unless `gated`. Raises NotFound."""

    def descends(job: Job) -> bool:
        depends = job.depends
        has_times = depends is not None and depends.match is Match.SAME_TIME
        return has_times and (gated or job.schedule_expr is None)

    graph = Graph({job_id: await read_node(store, job_id, sees)})
    level = [job_id]
    while level:
        level = await _read_level(store, graph, level, most, sees, descends)
    return graph


async def read_below(store: Store, job_id: str, most: int) -> Below:
    """Return all that depends on a job, directly or through others, and the job itself."""
    dependents: dict[str, list[str]] = {}
    level = [job_id]
    while level and len(dependents) <= most:
        dependents |= await read_dependents(store, level)
        level = sorted({one for at in level for one in dependents[at]} - dependents.keys())
    return Below(dependents, is_cut=bool(level))


async def read_node(store: Store, job_id: str, sees: Sees = all_seen) -> Node:
    """Return a job. Raises NotFound."""
    node = (await read_nodes(store, [job_id], sees))[job_id]
    if node is None:
        raise NotFound(f"there is no job {job_id}")
    return node


async def read_nodes(
    store: Store, job_ids: Iterable[str], sees: Sees = all_seen
) -> dict[str, Node | None]:
    """Return jobs by id, None for each that is not there."""
    asked = list(job_ids)
    pipe = store.client.pipeline(transaction=False)
    for job_id in asked:
        pipe.hgetall(store.layout.shard_of(job_id).job(job_id))
    nodes: dict[str, Node | None] = dict.fromkeys(asked)
    for job_id, fields in zip(asked, await pipe.execute() if asked else [], strict=True):
        if fields and sees((job := codec.load_job(job_id, fields)).group):
            nodes[job_id] = Node(job, codec.load_live(fields))
    return nodes


async def _read_level(
    store: Store,
    graph: Graph,
    level: list[str],
    most: int,
    sees: Sees,
    is_wanted: Callable[[Job], bool] = lambda _: True,
) -> list[str]:
    """Add to a graph the jobs that depend on those of a level; return them."""
    found = await read_dependents(store, level)
    named = graph.room_for((one for ids in found.values() for one in ids), most)
    # One that is gone, or depends on it no longer, may still be listed.
    new = {
        job_id: node
        for job_id, node in (await read_nodes(store, named, sees)).items()
        if node and is_wanted(node.job) and _depends_on_any(node.job, found)
    }
    graph.nodes |= new
    return list(new)


def _depends_on_any(job: Job, above: Mapping[str, object]) -> bool:
    return any(up.job_id in above for up in job.depends.upstreams) if job.depends else False


def _upstreams_of(graph: Graph, job_ids: Iterable[str]) -> Iterator[str]:
    for job_id in job_ids:
        node = graph.nodes[job_id]
        for up in node.job.depends.upstreams if node and node.job.depends else ():
            yield up.job_id
