"""How the last seconds went: rates, lateness, and the newest failures."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.backend import backend_of
from api.operations import contract
from api.wire import JsonResponse, rfc_3339
from engine.store.server import time_ms
from engine.store.stats import Failure, Stats, read_stats


class FailureOut(TypedDict):
    at: str
    execution_id: str
    attempt: int
    outcome: str
    status_code: int | None
    error: str | None


class StatsOut(TypedDict):
    """Rates are per second."""

    at: str
    window_ms: int
    """The time that was looked at; in the busiest shard, if it is shorter there."""
    is_sampled: bool
    """Whether more happened in ten seconds than one look reads: rates are those of less time."""
    fires_per_s: float
    """Attempts that went into the queues, retries included."""
    completions_per_s: float
    failures_per_s: float
    """Attempts that failed, whether the last of their execution or not."""
    skips_per_s: float
    lag_p50_ms: int | None
    """How late first attempts went into their queues; null if none did."""
    lag_p99_ms: int | None
    last_failures: list[FailureOut]
    """Newest first."""


@contract(gives=StatsOut)
async def show(request: Request) -> Response:
    """Answer rates and lateness of the last ten seconds, from the end of the ledger."""
    store = backend_of(request).store
    return JsonResponse(stats_out(await read_stats(store, await time_ms(store.client))))


def stats_out(stats: Stats) -> StatsOut:
    return {
        "at": rfc_3339(stats.at),
        "window_ms": stats.window_ms,
        "is_sampled": stats.is_sampled,
        "fires_per_s": round(stats.fires, 1),
        "completions_per_s": round(stats.completions, 1),
        "failures_per_s": round(stats.failures, 1),
        "skips_per_s": round(stats.skips, 1),
        "lag_p50_ms": stats.lag_p50_ms,
        "lag_p99_ms": stats.lag_p99_ms,
        "last_failures": [_failure_out(failure) for failure in stats.last_failures],
    }


def _failure_out(failure: Failure) -> FailureOut:
    record = failure.record
    return {
        "at": rfc_3339(failure.at),
        "execution_id": failure.execution_id,
        "attempt": record.attempt,
        "outcome": record.outcome,
        "status_code": record.status_code,
        "error": record.error,
    }
