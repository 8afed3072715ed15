"""plans: what working out times costs: parsing, the next time uncached, and a cached proposal."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench.stage import Metrics, Scenario, Stage
from engine.plan import Plan, Proposer, parse_schedule

NOW = 1_796_000_000_000
CORPUS = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "15 14 1 * *",
    "0 22 * * 1-5",
    "23 0-23/2 * * *",
    "5 4 * * sun",
    "0 0 1,15 * 5",
    "0 0 1 1 *",
    "0 0 29 2 *",
    "30 4 1,15 * 5",
    "0 0 13 * 5",
    "*/15 6-12 * * 2-5",
    "59 23 31 12 *",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
REPEATS = 200


def cost_us(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the microseconds of one call, the best of three rounds."""
    rounds = []
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        rounds.append((time.perf_counter() - started) / repeats * 1e6)
    return min(rounds)


async def run(stage: Stage) -> Metrics:
    """Return medians over the corpus in each zone, and the cost of one of as many cached jobs as
    the stage has."""
    parse, following = [], []
    for zone in ZONES:
        for expr in CORPUS:
            parse.append(cost_us(lambda e=expr, z=zone: parse_schedule(e, z, now=NOW)))  # type: ignore[misc]
            rule = Plan.of(parse_schedule(expr, zone, now=NOW)).rule
            following.append(cost_us(lambda r=rule: r.first_after(NOW, NOW)))  # type: ignore[misc]
    plan, proposer = Plan.of(parse_schedule("30 2 * * *", "Europe/Berlin", now=NOW)), Proposer()
    due_at = plan.first_after(NOW, NOW)
    assert due_at is not None
    cached = cost_us(lambda: proposer.propose(plan, due_at, due_at), stage.size)
    return {
        "parse_us_median": statistics.median(parse),
        "next_us_median": statistics.median(following),
        "next_us_worst": max(following),
        "cached_proposal_us": cached,
    }


SCENARIO = Scenario(run, size=100_000, quick_size=100_000)
