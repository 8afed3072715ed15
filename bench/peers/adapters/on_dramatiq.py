"""dramatiq: messages with a delay; nothing recurs."""

from __future__ import annotations

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AgeLimit, Retries

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs

THREADS = 8

broker = RedisBroker(url=url(), middleware=[AgeLimit(), Retries()])
dramatiq.set_broker(broker)


def _noop(number: int, payload: str) -> None:
    record(number)


noop = dramatiq.actor(_noop, actor_name="noop", max_retries=0)


def register(jobs: Jobs) -> None:
    for number in range(jobs.count):
        left_ms = jobs.due_ms(number) - int(time.time() * 1000)
        delay = max(1, left_ms) if jobs.kind == "once" else None
        noop.send_with_options(args=(number, PAYLOAD), delay=delay)


def work(jobs: Jobs) -> None:
    worker = dramatiq.Worker(broker, worker_threads=THREADS)
    worker.start()
    ready()
    worker.join()
    while True:
        time.sleep(1)
