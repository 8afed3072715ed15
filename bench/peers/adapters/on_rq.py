"""RQ: jobs scheduled in pipelines, cron jobs by a scheduler of its own."""

from __future__ import annotations

import redis
from rq import Queue, SimpleWorker
from rq.cron import CronScheduler

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs

AT_ONCE = 1_000


def noop(number: int, payload: str) -> None:
    record(number)


def register(jobs: Jobs) -> None:
    queue = Queue(connection=redis.Redis.from_url(url()))
    for numbers in jobs.batches(AT_ONCE):
        if jobs.kind == "once":
            with queue.connection.pipeline(transaction=False) as pipe:
                for n in numbers:
                    queue.enqueue_at(jobs.due(n), noop, n, PAYLOAD, result_ttl=0, pipeline=pipe)
                pipe.execute()
        else:
            queue.enqueue_many(
                [Queue.prepare_data(noop, (n, PAYLOAD), result_ttl=0) for n in numbers]
            )


def work(jobs: Jobs) -> None:
    connection = redis.Redis.from_url(url())
    worker = SimpleWorker([Queue(connection=connection)], connection=connection)
    ready()
    worker.work(with_scheduler=True, logging_level="WARNING")


def cron(jobs: Jobs) -> None:
    due = jobs.due(0)
    scheduler = CronScheduler(connection=redis.Redis.from_url(url()), logging_level="WARNING")
    for number in range(jobs.count):
        scheduler.register(
            noop,
            "default",
            args=(number, PAYLOAD),
            cron=f"{due.minute} * * * * {due.second}",
            name=f"cron-{number}",
            result_ttl=0,
        )
    ready()
    scheduler.start()
