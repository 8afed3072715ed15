"""What the figures are to reach, as a table: on two cores, with the server beside the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Final, Literal

from bench.result import Result
from bench.units import OURSELVES, PEER, Better, better, written

COMPARISONS = {">=": ge, ">": gt, "<=": le, "<": lt}
WORDS = {">=": "{} or more", ">": "more than {}", "<=": "{} or less", "<": "under {}"}

BEST_PEER: Final = "best peer"
"""A bound: what the best of the others has in the same result."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One row of the report. Without a `bound` it is a figure to know, and nothing to reach."""

    scenario: str
    metric: str
    says: str
    comparison: str = ">="
    bound: float | Literal["best peer"] | None = None
    """A number, or BEST_PEER."""
    server: str = ""
    """The only server that it holds for; empty for any."""


def _beside_peers(metric: str, says: str, comparison: str) -> Goal:
    return Goal("peers", f"{metric}{PEER}{OURSELVES}", says, comparison, BEST_PEER)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a goal in a result."""

    goal: Goal
    value: float
    bound: float | None
    bound_name: str
    """Who set the bound, if it is not a number of the table."""

    @property
    def is_reached(self) -> bool | None:
        """Whether it is; None where there is nothing to reach."""
        if self.bound is None:
            return None
        return bool(COMPARISONS[self.goal.comparison](self.value, self.bound))

    def target(self) -> str:
        """Return the goal in words."""
        if self.bound is None:
            return ""
        text = WORDS[self.goal.comparison].format(written(self.bound))
        return f"{text} ({self.bound_name})" if self.bound_name else text


GOALS = (
    Goal("floor", "floor_fires_per_s", "the yardstick: fires a second"),
    Goal("floor", "floor_completions_per_s", "the yardstick: completions a second"),
    Goal("spike", "ratio", "fires, beside the floor's", ">=", 0.85),
    Goal("spike", "ratio_of_1000_plans", "the same, of a thousand plans", ">=", 0.85),
    Goal("spike", "fires_per_s", "fires a second"),
    Goal("spike", "stall_ms_max", "longest stall of another client, ms", "<=", 20),
    Goal("spike", "memory_peak_mb", "memory at its peak, MB"),
    Goal("oneoff", "triggered_per_s", "triggered a second", ">=", 148_000),
    Goal("oneoff", "complete_s", "from due to all complete, s", "<", 4.5),
    Goal("steady", "lag_ms_p50_at_20000", "lag at 20,000 a second, median, ms", "<", 5),
    Goal("steady", "lag_ms_p99_at_20000", "lag at 20,000 a second, p99, ms", "<", 25),
    Goal("steady", "fires_per_s_at_50000", "fires a second, with 50,000 due"),
    Goal("execute", "executions_per_s", "executions a second, one worker process", ">=", 30_000),
    Goal("execute", "executions_per_s_of_two", "the same, two of them"),
    Goal("http", "ratio", "callbacks, beside a bare loop's", ">=", 0.8),
    Goal("http", "callbacks_per_s", "callbacks a second, one worker process"),
    Goal("register", "ratio", "POSTs, beside a bare endpoint's"),
    Goal("register", "bulk_jobs_per_s", "jobs a second in bulk"),
    Goal("memory", "bytes_per_job", "bytes a registered job", "<=", 300, "valkey"),
    Goal("memory", "bytes_per_job", "bytes a registered job", "<=", 430, "redis"),
    Goal("memory", "bytes_per_history_record", "bytes a record of history", "<=", 60),
    Goal("idle", "idle_cpu_percent", "CPU of all with nothing due, % of a core", "<", 2),
    Goal("scale", "flat_ratio", "fires with all jobs, beside those with 100,000", ">=", 0.85),
    Goal("failover", "scheduler_kill_recovery_ms_max", "scheduler killed: well in, ms", "<=", 1e4),
    Goal("failover", "worker_kill_recovery_ms_max", "worker killed: well in, ms"),
    Goal(
        "failover", "server_kill_recovery_ms_max", "server answers again: well in, ms", "<=", 5_000
    ),
    Goal("failover", "lost", "nominal times lost", "<=", 0),
    Goal("failover", "doubled", "executions doubled", "<=", 0),
    _beside_peers("spike_triggers_per_s", "one-off jobs triggered a second", ">"),
    _beside_peers("spike_completed_per_s", "one-off jobs complete a second", ">"),
    _beside_peers("recurring_triggers_per_s", "recurring jobs triggered a second", ">"),
    _beside_peers("steady_lag_ms_p99_at_1000", "lag at 1,000 a second, p99, ms", "<"),
    _beside_peers("steady_lag_ms_p99_at_10000", "lag at 10,000 a second, p99, ms", "<"),
    _beside_peers("immediate_executions_per_s", "immediate executions a second", ">"),
)
"""The table."""


def judge(results: Mapping[str, Result], goals: Iterable[Goal] = GOALS) -> Iterator[Verdict]:
    """Yield a verdict on each goal whose figure is in the results, in the order of the goals."""
    for goal in goals:
        result = results.get(goal.scenario)
        if result is None or goal.metric not in result["metrics"]:
            continue
        if result["environment"]["server"].startswith(goal.server):
            bound, name = _bound(goal, result["metrics"])
            yield Verdict(goal, result["metrics"][goal.metric], bound, name)


def _bound(goal: Goal, metrics: Mapping[str, float]) -> tuple[float | None, str]:
    if goal.bound != BEST_PEER:
        return goal.bound, ""
    name = goal.metric.partition(PEER)[0]
    others = {
        who: value
        for metric, value in metrics.items()
        for what, _, who in [metric.partition(PEER)]
        if what == name and who and not who.startswith(OURSELVES)
    }
    if not others:
        return None, ""
    best = (min if better(goal.metric) is Better.LESS else max)(others, key=others.__getitem__)
    return others[best], best.replace("_", "-")
