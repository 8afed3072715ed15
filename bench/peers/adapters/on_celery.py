"""Celery: tasks with an ETA, and RedBeat for what recurs."""

from __future__ import annotations

from datetime import timedelta

from celery import Celery, signals
from celery.schedules import schedule
from redbeat import RedBeatSchedulerEntry

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs

HOUR = timedelta(hours=1)

app = Celery("peers", broker=url())
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
    worker_send_task_events=False,
    timezone="UTC",
    # An ETA beyond it would be delivered again.
    broker_transport_options={"visibility_timeout": 36_000},
    redbeat_redis_url=url(),
    redbeat_lock_key=None,
)


def _noop(number: int, payload: str) -> None:
    record(number)


noop = app.task(_noop, name="noop", ignore_result=True)


def register(jobs: Jobs) -> None:
    if jobs.kind == "recurring":
        for number in range(jobs.count):
            RedBeatSchedulerEntry(
                f"entry-{number}",
                "noop",
                schedule(HOUR),
                args=(number, PAYLOAD),
                app=app,
                last_run_at=jobs.due(number) - HOUR,
            ).save()
        return
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(jobs.count):
            eta = jobs.due(number) if jobs.kind == "once" else None
            noop.apply_async((number, PAYLOAD), eta=eta, producer=producer)


def solo(jobs: Jobs) -> None:
    _work("-P", "solo")


def prefork(jobs: Jobs) -> None:
    _work("-P", "prefork", "-c", "2")


def _work(*pool: str) -> None:
    signals.worker_ready.connect(_ready, weak=False)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
    app.worker_main(["worker", *pool, *quiet])


def beat(jobs: Jobs) -> None:
    signals.beat_init.connect(_ready, weak=False)
    app.Beat(
        max_interval=1, loglevel="WARNING", scheduler_cls="redbeat.RedBeatScheduler", quiet=True
    ).run()


def _ready(**_: object) -> None:
    ready()
