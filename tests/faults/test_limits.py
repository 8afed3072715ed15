"""Limits end to end: the loops of a whole deployment, on the server's clock, and real calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fleet import LOOPBACK, eventually, http_job, outcomes

from engine.clock import ServerClock
from engine.embedded import EmbeddedServer
from engine.execution import Outcome
from engine.model import JobState
from engine.plan import Immediate, Plan
from engine.registration import Registration
from engine.roles import all_services
from engine.store import Store
from engine.store.jobs import create_jobs
from engine.store.leases import read_holders
from engine.store.limits import Limit, read_limits, write_host
from engine.store.server import time_ms
from engine.supervisor import run_services

pytestmark = pytest.mark.faults

AT_ONCE = Plan.of(Immediate())


class Target:
    """A server that notes when it is called, and by how many at once."""

    def __init__(self) -> None:
        self.url = ""
        self.delay_s = 0.0
        self.refusals = 0
        """So many calls are answered with 429 and told to come back in a second."""
        self.times: list[float] = []
        self.open = 0
        self.most = 0

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").rstrip("/")

    async def answer(self, request: web.Request) -> web.Response:
        self.times.append(time.monotonic())
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(self.delay_s)
        self.open -= 1
        if self.refusals:
            self.refusals -= 1
            return web.Response(status=429, headers={"Retry-After": "1"})
        return web.Response()


@asynccontextmanager
async def serve() -> AsyncIterator[Target]:
    target = Target()
    app = web.Application()
    app.router.add_post("/", target.answer)
    async with TestServer(app) as server:
        target.url = str(server.make_url("/"))
        yield target


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with serve() as target:
        yield target


@pytest.fixture
async def deployment(store: Store, server: EmbeddedServer) -> AsyncIterator[None]:
    """Run scheduler and worker, with a connection of their own, until the test ends."""
    stop = asyncio.Event()
    config = store.config.model_copy(update={"allow_networks": LOOPBACK})
    async with await Store.open(config) as own:
        services = all_services(own, ServerClock(), {"http": 1}, 200)
        running = asyncio.create_task(run_services(services, stop, 2_000))

        async def is_up() -> bool:
            return all(holder for holder, _ in await read_holders(store))

        await eventually(is_up)
        yield
        stop.set()
        await running


async def offer(store: Store, target: Target, ids: Sequence[str]) -> None:
    """Register jobs that call a target at once."""
    now = await time_ms(store.client)
    made = [http_job(name, target.url, AT_ONCE, now) for name in ids]
    await create_jobs(
        store,
        [
            Registration(replace(r.job, next_run_at=None, state=JobState.COMPLETED), r.plan, now)
            for r in made
        ],
    )


async def limit(store: Store, target: Target, limit: Limit) -> None:
    """Limit a host, and return when all its gates are up."""
    await write_host(store, target.host, limit)
    kind = "slots" if limit.concurrency is not None else "tokens"

    async def is_limited() -> bool:
        found = [
            await store.client.hexists(shard.gates, f"{kind}:h/{target.host}")
            for shard in store.layout.shards
        ]
        return all(found)

    await eventually(is_limited)


async def wait_for_calls(target: Target, count: int) -> None:
    async def is_called() -> bool:
        return len(target.times) >= count

    await eventually(is_called, within_s=20)


async def all_succeeded(store: Store, ids: Sequence[str]) -> bool:
    """Return whether each job has succeeded; never more than once."""
    ends = [[o for _, o in await outcomes(store, name) if o is Outcome.SUCCEEDED] for name in ids]
    assert all(len(end) <= 1 for end in ends)
    return all(ends)


async def test_a_host_is_never_called_by_more_at_once_than_its_limit_and_another_is_at_once(
    store: Store, deployment: None, target: Target
) -> None:
    target.delay_s = 0.005
    limited, free = [f"limited-{n}" for n in range(200)], [f"free-{n}" for n in range(100)]
    await limit(store, target, Limit(concurrency=3))
    async with serve() as other:
        await offer(store, target, limited)
        await offer(store, other, free)
        await wait_for_calls(other, 100)
        assert len(target.times) < 100
        await wait_for_calls(target, 200)
    assert target.most == 3
    await eventually(lambda: all_succeeded(store, [*limited, *free]))
    assert len(target.times) == 200


async def test_a_host_is_called_at_its_rate_and_no_faster(
    store: Store, deployment: None, target: Target
) -> None:
    rate, burst = 20, 5
    await limit(store, target, Limit(rate=rate, burst=burst))
    await offer(store, target, [f"job-{n}" for n in range(60)])
    await wait_for_calls(target, 60)
    for first, start in enumerate(target.times):
        for last in range(first, len(target.times)):
            # What a few ticks have let in may arrive together on a busy machine.
            time_s = target.times[last] - start + 0.3
            assert last - first + 1 <= burst + rate * time_s + 1
    assert target.times[-1] - target.times[0] < 2 * (60 - burst) / rate


async def test_a_host_that_asks_for_less_is_left_alone_for_as_long_as_it_said(
    store: Store, deployment: None, target: Target
) -> None:
    target.refusals, target.delay_s = 1, 0.03
    await offer(store, target, ["first"])
    await wait_for_calls(target, 1)
    await asyncio.sleep(0.6)
    ids = [f"job-{n}" for n in range(60)]
    await offer(store, target, ids)
    await eventually(lambda: all_succeeded(store, ["first", *ids]), within_s=20)
    refused_at, *others = target.times
    assert min(others) - refused_at >= 1
    # One at a time in the first second, and two in the next.
    assert sum(at < min(others) + 0.9 for at in others) < 40

    async def is_forgotten() -> bool:
        return not (await read_limits(store)).pushbacks

    await eventually(is_forgotten, within_s=15)
