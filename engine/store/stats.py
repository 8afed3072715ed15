"""Rates and lateness of the last seconds, from the end of the ledger."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.execution import Outcome, Record
from engine.store import Store
from engine.store.ledger import LedgerEvent
from engine.store.tail import Tail, read_tails

WINDOW_MS = 10_000
MOST_EVENTS = 10_000
"""Events that one look reads, about: rates above a thousand a second come from a shorter time."""
MOST_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed, as the ledger has it."""

    at: int
    execution_id: str
    record: Record


@dataclass(frozen=True, slots=True)
class Stats:
    """How a deployment went in the last seconds. Rates are per second."""

    at: int
    window_ms: int
    """The time that was looked at, in the shard for which it was the shortest."""
    is_sampled: bool
    """Whether more happened than one look reads, so that rates are those of a shorter time."""
    fires: float
    """Attempts that were offered to workers; retries among them."""
    completions: float
    """Executions that succeeded."""
    failures: float
    """Attempts that failed, their execution's last one or not."""
    skips: float
    """Records of times that were not fired."""
    lag_p50_ms: int | None
    """With `lag_p99_ms`: how late first attempts came into their streams. None if there was
    none."""
    lag_p99_ms: int | None
    last_failures: list[Failure]
    """Newest first."""


async def read_stats(store: Store, now: int) -> Stats:
    """Return how the last ten seconds went; `now` is the server's time."""
    since = now - WINDOW_MS
    return summed(await read_tails(store, since, most=MOST_EVENTS), since, now)


def summed(tails: Sequence[Tail], since: int, now: int) -> Stats:
    """Return the sums over all shards. Each has a window of its own: a busy one a shorter one."""
    rates = dict.fromkeys(("fired", "succeeded", "failed", "skipped"), 0.0)
    for tail in tails:
        window_s = max(1, now - tail.since) / 1000
        for event in tail.events:
            if word := _kind(event):
                rates[word] += 1 / window_s
    events = [event for tail in tails for event in tail.events]
    lags = sorted(lag for event in events if (lag := event.lag_ms) is not None)
    begins = max((tail.since for tail in tails), default=since)
    return Stats(
        at=now,
        window_ms=now - begins,
        is_sampled=begins > since,
        fires=rates["fired"],
        completions=rates["succeeded"],
        failures=rates["failed"],
        skips=rates["skipped"],
        lag_p50_ms=percentile(lags, 50),
        lag_p99_ms=percentile(lags, 99),
        last_failures=_failures(events),
    )


def percentile(sorted_values: Sequence[int], percent: int) -> int | None:
    """Return the value that so many percent of all are not above (nearest rank); None for none."""
    if not sorted_values:
        return None
    return sorted_values[math.ceil(len(sorted_values) * percent / 100) - 1]


def _kind(event: LedgerEvent) -> str | None:
    """Return the rate that an event counts for."""
    match event.word:
        case "fired" | "succeeded" | "skipped" as word:
            return word
        case "failed" | "dead":
            return "failed"
    return None


def _failures(events: Iterable[LedgerEvent]) -> list[Failure]:
    found = [
        Failure(event.at, event.subject, event.record)
        for event in events
        if isinstance(event.record, Record)
        and event.record.outcome in (Outcome.FAILED, Outcome.DEAD)
    ]
    return sorted(found, key=lambda failure: failure.at, reverse=True)[:MOST_FAILURES]
