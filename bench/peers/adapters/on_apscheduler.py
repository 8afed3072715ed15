"""APScheduler 3: one process that keeps its jobs and runs them, in memory or in Redis."""

from __future__ import annotations

import asyncio
from datetime import UTC
from urllib.parse import urlsplit

import uvloop
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs


async def noop(number: int, payload: str) -> None:
    record(number)


def in_redis(jobs: Jobs) -> None:
    uvloop.run(_run(jobs, RedisJobStore(port=urlsplit(url()).port)))


def in_memory(jobs: Jobs) -> None:
    uvloop.run(_run(jobs, MemoryJobStore()))


async def _run(jobs: Jobs, store: BaseJobStore) -> None:
    scheduler = AsyncIOScheduler(
        jobstores={"default": store},
        executors={"default": AsyncIOExecutor()},
        timezone=UTC,
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 100},
    )
    # Paused, it does not look through all of its jobs at each one that is added.
    scheduler.start(paused=True)
    for number in range(jobs.count):
        args = (number, PAYLOAD)
        if jobs.kind == "recurring":
            scheduler.add_job(noop, "interval", hours=1, start_date=jobs.due(number), args=args)
        elif jobs.kind == "once":
            scheduler.add_job(noop, "date", run_date=jobs.due(number), args=args)
        else:
            scheduler.add_job(noop, args=args)
    ready()
    scheduler.resume()
    await asyncio.Event().wait()
