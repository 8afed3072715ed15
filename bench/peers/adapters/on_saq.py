"""SAQ: jobs enqueued one by one, cron jobs in code."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import saq
import uvloop
from saq.queue.redis import RedisQueue

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs

AT_ONCE = 500
CONCURRENCY = 100


async def noop(ctx: dict[str, Any], *, number: int, payload: str) -> None:
    record(number)


def register(jobs: Jobs) -> None:
    uvloop.run(_enqueue(jobs))


async def _enqueue(jobs: Jobs) -> None:
    queue = await _queue()
    for numbers in jobs.batches(AT_ONCE):
        await asyncio.gather(
            *(
                queue.enqueue(
                    "noop", ttl=-1, number=number, payload=PAYLOAD, scheduled=_due(jobs, number)
                )
                for number in numbers
            )
        )
    await queue.disconnect()


def _due(jobs: Jobs, number: int) -> int:
    """Return the whole second at which a job is due: it knows none between."""
    return math.ceil(jobs.due_ms(number) / 1000) if jobs.kind == "once" else 0


def work(jobs: Jobs) -> None:
    uvloop.run(_work(jobs))


async def _work(jobs: Jobs) -> None:
    due = jobs.due(0)
    crons = [
        saq.CronJob(
            _cron_job(number),
            cron=f"{due.minute} * * * * {due.second}",
            kwargs={"number": number, "payload": PAYLOAD},
            ttl=-1,
        )
        for number in range(jobs.count if jobs.kind == "recurring" else 0)
    ]
    worker = saq.Worker(
        await _queue(),
        functions=[noop],
        concurrency=CONCURRENCY,
        cron_jobs=crons,
        startup=_on_startup,
    )
    await worker.start()


def _cron_job(number: int) -> Callable[..., Awaitable[None]]:
    async def run(ctx: dict[str, Any], *, number: int, payload: str) -> None:
        record(number)

    run.__qualname__ = f"cron-{number}"
    return run


async def _on_startup(ctx: dict[str, Any]) -> None:
    ready()


async def _queue() -> RedisQueue:
    queue = RedisQueue.from_url(url(), max_concurrent_ops=200)
    await queue.connect()
    return queue
