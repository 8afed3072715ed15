"""Outcomes on their way from a worker to the server: judged, sent in batches, and sent again until
there is an answer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace

from engine import codec
from engine.clock import Clock
from engine.execution import Delivery, Record
from engine.holding import Held
from engine.model import HttpTarget
from engine.store import Store, outcomes
from engine.store.executions import Answer, complete_executions
from engine.store.outcomes import Result
from engine.targets import Attempted, time_allowed

REPORT_MOST = 500
"""Outcomes that go out in one report."""

log = logging.getLogger("waterclock.worker")


def judge(
    delivery: Delivery,
    attempted: Attempted,
    started_at: int,
    duration_ms: int,
    now: int,
    rng: random.Random,
) -> Result:
    """Return what is recorded of an attempt."""
    if attempted.accepted:
        target = codec.load_target(delivery.target)
        assert isinstance(target, HttpTarget)  # no other one is asked to respond later
        allowed_ms, _ = time_allowed(delivery, duration_ms + target.heartbeat_ms, started_at)
        return outcomes.accepted(
            delivery,
            started_at=started_at,
            duration_ms=duration_ms,
            status_code=attempted.status_code or 202,
            lapses_at=max(now, started_at + allowed_ms),
        )
    return outcomes.ended(
        delivery,
        succeeded=attempted.succeeded,
        started_at=started_at,
        duration_ms=duration_ms,
        now=now,
        rng=rng,
        is_final=attempted.is_final,
        status_code=attempted.status_code,
        error=attempted.error,
        kind=attempted.kind,
        retry_after_ms=attempted.retry_after_ms,
        exit_status=attempted.exit_status,
        output=attempted.output,
        gave=attempted.gave,
    )


class Reports:
    """Outcomes that the server has not confirmed. `release` is called for each that it has."""

    def __init__(self, store: Store, clock: Clock, release: Callable[[Held], None]) -> None:
        self._store = store
        self._clock = clock
        self._release = release
        self._waiting: list[tuple[Held, Result]] = []
        self.are_there = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, held: Held, result: Result) -> None:
        """Take the outcome of what is held; it goes out with the next report."""
        held.has_ended = True
        self._waiting.append((held, result))
        self.are_there.set()

    async def send(self) -> int:
        """Send the oldest outcomes; return how many. They stay if the server is away."""
        batch = self._waiting[:REPORT_MOST]
        if not batch:
            self.are_there.clear()
            return 0
        sent = [_under_proof(result, held.delivery) for held, result in batch]
        answers = await complete_executions(self._store, sent, self._clock.now_ms())
        again = []
        for (held, result), told, answer in zip(batch, sent, answers, strict=True):
            if answer is Answer.STALE and held.delivery is not told.delivery:
                again.append((held, result))  # this worker took it over anew meanwhile
                continue
            self._release(held)
            if answer is Answer.STALE:
                log.warning(
                    "execution %s: its lease was lost before its end was recorded",
                    held.delivery.execution_id,
                )
        self._waiting[: len(batch)] = again
        return len(batch)


def _under_proof(result: Result, delivery: Delivery) -> Result:
    """Return an outcome under the proof that holds now: its entry may have been delivered again."""
    if result.delivery is delivery:
        return result
    record = result.record
    if isinstance(record, Record):
        record = replace(record, deliveries=delivery.deliveries, worker=delivery.consumer)
    return replace(result, delivery=delivery, record=record)
