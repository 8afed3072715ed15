"""Waterclock itself: jobs stored in bulk, a scheduler process, a worker process with a handler."""

from __future__ import annotations

import time

import uvloop

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs
from engine import Context, Worker
from engine.cli import main
from engine.config import Config
from engine.model import WorkerTarget
from engine.registration import Timing
from engine.registration import register as make
from engine.store import Store
from engine.store.jobs import create_jobs

AT_ONCE = 2_000
CONCURRENCY = 1_000
TARGET = WorkerTarget()
QUOTED = f'"{PAYLOAD[2:]}"'.encode()
"""The payload as JSON, of the same length."""


def register(jobs: Jobs) -> None:
    uvloop.run(_register(jobs))


async def _register(jobs: Jobs) -> None:
    async with await Store.open(Config(redis_url=url())) as store:
        for numbers in jobs.batches(AT_ONCE):
            now = time.time_ns() // 1_000_000
            await create_jobs(
                store,
                [
                    make(
                        now=now,
                        target=TARGET,
                        job_id=str(number),
                        timing=_timing(jobs, number),
                        payload=QUOTED,
                    )
                    for number in numbers
                ],
            )


def _timing(jobs: Jobs, number: int) -> Timing:
    due = jobs.due(number)
    match jobs.kind:
        case "once":
            return Timing(due.isoformat(timespec="milliseconds"))
        case "recurring":
            return Timing(f"{due.second} {due.minute} * * * ?", dialect="quartz")
        case "immediate":
            return Timing()


def work(jobs: Jobs) -> None:
    worker = Worker(url(), concurrency=CONCURRENCY)

    async def noop(ctx: Context) -> None:
        record(int(ctx.job_id))

    worker.handler(default=True)(noop)
    ready()
    worker.main()


def scheduler(jobs: Jobs) -> None:
    ready()
    main(["scheduler", "--redis-url", url()])
