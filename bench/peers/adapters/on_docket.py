"""docket: tasks added in bulk, and perpetual ones."""

from __future__ import annotations

from datetime import timedelta

import uvloop
from docket import Docket, Perpetual, Worker

from bench.peers.adapters.recording import ready, record, url
from bench.peers.contract import PAYLOAD, Jobs

HOUR = timedelta(hours=1)
CHECK = timedelta(milliseconds=250)
EACH_HOUR = Perpetual(every=HOUR)


async def noop(number: int, payload: str) -> None:
    record(number)


async def hourly(number: int, payload: str, perpetual: Perpetual = EACH_HOUR) -> None:
    record(number)


def register(jobs: Jobs) -> None:
    uvloop.run(_add(jobs))


async def _add(jobs: Jobs) -> None:
    async with _docket() as docket:
        if jobs.kind == "immediate":
            calls = (docket.call(noop)(n, PAYLOAD) for n in range(jobs.count))
        elif jobs.kind == "once":
            calls = (docket.call(noop, when=jobs.due(n))(n, PAYLOAD) for n in range(jobs.count))
        else:
            calls = (
                docket.call(hourly, when=jobs.due(n), key=f"hourly-{n}")(n, PAYLOAD)
                for n in range(jobs.count)
            )
        await docket.add_many(calls)


def work(jobs: Jobs) -> None:
    uvloop.run(_work())


async def _work() -> None:
    async with _docket() as docket:
        docket.register(noop)
        docket.register(hourly)
        async with Worker(
            docket, concurrency=1_000, minimum_check_interval=CHECK, scheduling_resolution=CHECK
        ) as worker:
            ready()
            await worker.run_forever()


def _docket() -> Docket:
    # With the client's usual hundred connections most tasks of a burst would fail to get one.
    return Docket(
        name="peers", url=f"{url()}?max_connections=4000", execution_ttl=timedelta(seconds=0)
    )
