"""arq: jobs deferred one by one, cron jobs in code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from arq import cron, func
from arq.connections import RedisSettings, create_pool
from arq.worker import Worker

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs

AT_ONCE = 200
MAX_JOBS = 100


async def noop(ctx: dict[str, Any], number: int, payload: str) -> None:
    record(number)


def register(jobs: Jobs) -> None:
    uvloop.run(_enqueue(jobs))


async def _enqueue(jobs: Jobs) -> None:
    pool = await create_pool(_settings())
    is_timed = jobs.kind == "once"
    for numbers in jobs.batches(AT_ONCE):
        await asyncio.gather(
            *(
                pool.enqueue_job(
                    "noop", number, PAYLOAD, _defer_until=jobs.due(number) if is_timed else None
                )
                for number in numbers
            )
        )
    await pool.aclose()


def work(jobs: Jobs) -> None:
    due = jobs.due(0)
    crons = [
        cron(
            _cron_job(number), name=f"cron-{number}", minute=due.minute, second=due.second,
            microsecond=0, keep_result=0,
        )
        for number in range(jobs.count if jobs.kind == "recurring" else 0)
    ]  # fmt: skip
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.set_event_loop(asyncio.new_event_loop())
    Worker(
        functions=[func(noop, keep_result=0)],
        cron_jobs=crons or None,
        redis_settings=_settings(),
        on_startup=_on_startup,
        max_jobs=MAX_JOBS,
        poll_delay=0.1,
        keep_result=0,
        max_tries=1,
    ).run()


def _cron_job(number: int) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def run(ctx: dict[str, Any]) -> None:
        record(number)

    return run


async def _on_startup(ctx: dict[str, Any]) -> None:
    ready()


def _settings() -> RedisSettings:
    settings = RedisSettings.from_dsn(url())
    settings.max_connections = 300
    return settings
