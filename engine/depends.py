"""What a job depends on: upstream jobs, what must have become of them, and for which times.

Pure: the words, their grammar, and the graph's own questions. The graph is a mapping from a job to
what it depends on; jobs that depend on nothing are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import BadInput

MOST_UPSTREAMS = 1_000
LONGEST_GATE_MS = 30 * 86_400_000


class Condition(StrEnum):
    """What must have become of an upstream job's execution."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It is dead-lettered."""
    FINISHED = "finished"
    """It has ended in any way, or will not run because of what is above it."""


class Join(StrEnum):
    """How many upstream conditions must be met."""

    ALL = "all"
    ANY = "any"


class Match(StrEnum):
    """Which executions of the upstream jobs belong together."""

    SAME_TIME = "same_time"
    """Those of one nominal time; the dependent's execution has that time too."""
    LATEST = "latest"
    """The newest of each since the dependent last fired; its execution has a time of its own."""


@dataclass(frozen=True, slots=True)
class Upstream:
    job_id: str
    condition: Condition = Condition.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Depends:
    """What a job depends on. A wrong combination raises BadInput with the field's path."""

    upstreams: tuple[Upstream, ...]
    join: Join = Join.ALL
    match: Match = Match.SAME_TIME
    gate_ms: int | None = None
    """The job has a schedule, and each of its times waits so long for its upstream jobs."""

    def __post_init__(self) -> None:
        ids = [upstream.job_id for upstream in self.upstreams]
        if not ids or len(ids) > MOST_UPSTREAMS:
            raise BadInput(f"a job depends on 1 to {MOST_UPSTREAMS} others", field="depends_on")
        if twice := next((job_id for job_id in ids if ids.count(job_id) > 1), None):
            raise BadInput(f"{twice} is named twice", field="depends_on")
        if self.gate_ms is not None and self.match is Match.LATEST:
            raise BadInput(
                "a gate waits for the upstream jobs' executions of the same time; leave match out",
                field="depends_on.match",
            )


def roots_of(job_ids: Iterable[str], graph: Mapping[str, Depends]) -> set[str]:
    """Return the jobs whose times those of `job_ids` are: those that depend on nothing, have a
    schedule of their own, or start anew because they look at the latest only."""
    roots: set[str] = set()
    seen: set[str] = set()
    left = list(job_ids)
    while left:
        job_id = left.pop()
        if job_id in seen:
            continue
        seen.add(job_id)
        depends = graph.get(job_id)
        if depends is None or depends.match is Match.LATEST or depends.gate_ms is not None:
            roots.add(job_id)
        else:
            left += [upstream.job_id for upstream in depends.upstreams]
    return roots


def usual_match(upstreams: Iterable[str], graph: Mapping[str, Depends]) -> Match:
    """Return how a job matches the executions of its upstream jobs unless it says: by time where
    all of them descend from one root, else the latest."""
    return Match.SAME_TIME if len(roots_of(upstreams, graph)) == 1 else Match.LATEST
