"""What the harness knows of a peer: what it runs on, how it is set, how much work it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.peers.contract import Jobs
from bench.peers.runtimes import Runtime

Commands = Callable[[Jobs], list[tuple[str, ...]]]
"""Commands to a server that are answered with numbers, to be added up."""


def _nothing(jobs: Jobs) -> list[tuple[str, ...]]:
    return []


def lengths(*commands: str) -> Commands:
    """Return commands that are the same for all jobs, each given as a text: `"LLEN some:list"`."""
    split = [tuple(command.split()) for command in commands]
    return lambda jobs: split


def due_in(zset: str, per_ms: float = 1) -> Commands:
    """Return what counts the jobs in a sorted set by time that are due by the last one's time."""
    return lambda jobs: [("ZCOUNT", zset, "-inf", _last(jobs, per_ms))]


def due_later_in(zset: str, per_ms: float = 1) -> Commands:
    """Return what counts the jobs in a sorted set by time that are due after the last one's time:
    those that recur and have their next time."""
    return lambda jobs: [("ZCOUNT", zset, f"({_last(jobs, per_ms)}", "+inf")]


def _last(jobs: Jobs, per_ms: float) -> str:
    return str((jobs.at_ms + jobs.over_ms + 1) * per_ms)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Jobs of each workload, such that a run takes seconds; 0 where a peer has no such thing."""

    spike: int
    recurring: int
    immediate: int
    rates: tuple[int, ...] = (1_000,)
    """Of the steady workload: jobs a second."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One row of the table."""

    name: str
    runtime: Runtime
    settings: str
    """How it is set, for readers."""
    sizes: Sizes
    registers_per_s: int
    """Jobs that it stores in a second, at the least: how long before they are due it must begin."""

    waiting: Commands = _nothing
    """Counts what is not triggered yet. Without these no moment of triggering can be seen: jobs run
    right from their timers, and are triggered when their handlers begin."""
    unfinished: Commands = _nothing
    """Counts what is triggered and not finished."""
    recurred: Commands | None = None
    """Counts recurring jobs that are triggered, and have their next time; else `waiting` tells."""

    roles: tuple[str, ...] = ("work",)
    """Processes that run jobs that are due."""
    recurring_roles: tuple[str, ...] = ("work",)
    immediate_roles: tuple[str, ...] = ("work",)
    registers_itself: bool = False
    """Whether the process that runs the jobs stores them, too: there is no other way in."""
    recurs_without_worker: bool = False
    """Whether a process of its own triggers what recurs, which is measured without a worker."""
    recurring_in_code: bool = False
    """Whether what recurs is part of the program, so that there is nothing to store."""
    startup_s: float = 2
    """How long its processes take to begin; twice as long if that was too short."""
    is_embedded: bool = False
    """Whether it runs on the embedded server, in place of the peers' own."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def roles_of(self, jobs: Jobs) -> tuple[str, ...]:
        """Return the processes that run these jobs."""
        if jobs.kind == "recurring":
            return self.recurring_roles
        return self.immediate_roles if jobs.kind == "immediate" else self.roles

    def registers(self, jobs: Jobs) -> bool:
        """Return whether these jobs are stored by a process of its own."""
        in_code = jobs.kind == "recurring" and self.recurring_in_code
        return not (self.registers_itself or in_code)
