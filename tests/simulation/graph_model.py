"""Random graphs of jobs, and what is to become of their executions: a plain model, without Redis,
messages or crashes.

A job's fate is what its attempts answer, should it run at all. `play` walks a graph from its roots
down; `revive` says what a redriven success of a dead job changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from engine.depends import Condition, Depends, Join, Upstream

Graph = Mapping[str, Depends | None]
"""Jobs in an order in which each comes after what it depends on; roots depend on None."""

SUCCEEDED, DEAD, UPSTREAM_FAILED = "succeeded", "dead", "upstream_failed"

WAYS = ("ok", "ok", "ok", "ok", "retried", "retried", "exhausted", "final")
"""How executions go, as often as they stand here. `exhausted` and `final` end dead."""


@dataclass
class Played:
    """What became of each job's execution."""

    became: dict[str, str]
    causes: dict[str, set[str]]
    """For each that did not run: the jobs of which its record may name one."""


def random_graph(rng: Random, size: int) -> dict[str, Depends | None]:
    """Return a graph of so many jobs, `j0` on; the first is a root, and a few others are."""
    graph: dict[str, Depends | None] = {"j0": None}
    widest = rng.choice([1, 2, 3, 5])
    reach = rng.choice([3, 10, size])
    for n in range(1, size):
        if rng.random() < 0.05:
            graph[f"j{n}"] = None
            continue
        near = range(max(0, n - reach), n)
        above = rng.sample(near, min(len(near), rng.randint(1, widest)))
        graph[f"j{n}"] = Depends(
            tuple(Upstream(f"j{up}", _condition(rng)) for up in above),
            rng.choice([Join.ALL, Join.ALL, Join.ANY]),
        )
    return graph


def _condition(rng: Random) -> Condition:
    return rng.choice([Condition.SUCCEEDED] * 6 + [Condition.FINISHED] * 2 + [Condition.FAILED])


def random_ways(rng: Random, graph: Graph) -> dict[str, str]:
    return {job_id: rng.choice(WAYS) for job_id in graph}


def is_met(condition: Condition, outcome: str) -> bool:
    match condition:
        case Condition.SUCCEEDED:
            return outcome == SUCCEEDED
        case Condition.FAILED:
            return outcome == DEAD
        case Condition.FINISHED:
            return True


def _runs(depends: Depends, became: Mapping[str, str]) -> bool:
    met = [is_met(up.condition, became[up.job_id]) for up in depends.upstreams]
    return all(met) if depends.join is Join.ALL else any(met)


def _end(way: str) -> str:
    return DEAD if way in ("exhausted", "final") else SUCCEEDED


def play(graph: Graph, ways: Mapping[str, str]) -> Played:
    """Return what becomes of each job, if each goes its way."""
    played = Played({}, {})
    for job_id, depends in graph.items():
        if depends is None or _runs(depends, played.became):
            played.became[job_id] = _end(ways[job_id])
            continue
        played.became[job_id] = UPSTREAM_FAILED
        causes = played.causes[job_id] = set()
        for up in depends.upstreams:
            if not is_met(up.condition, played.became[up.job_id]):
                causes |= played.causes.get(up.job_id, {up.job_id})
    return played


def can_revive(graph: Graph, played: Played) -> list[str]:
    """Return the dead jobs of which a redriven success leaves nothing to chance: none that depends
    on their death may hear late that it is taken back."""
    wanted_dead = {
        up.job_id
        for depends in graph.values()
        if depends
        for up in depends.upstreams
        if up.condition is Condition.FAILED
    }
    return [j for j, was in played.became.items() if was == DEAD and j not in wanted_dead]


def revive(graph: Graph, ways: Mapping[str, str], played: Played, job_id: str) -> Played:
    """Return what becomes of all if a dead job is redriven and succeeds: who has run stays as it
    is, and who was waiting in vain runs if it can now."""
    became = dict(played.became) | {job_id: SUCCEEDED}
    for other, depends in graph.items():
        if became[other] == UPSTREAM_FAILED and depends and _runs(depends, became):
            became[other] = _end(ways[other])
    return Played(became, played.causes)
