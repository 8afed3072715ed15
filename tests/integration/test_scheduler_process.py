"""What a scheduler process runs, all of it together: a job that ends starts those below it."""

from __future__ import annotations

import asyncio

from fleet import ScriptedRunner, eventually, hire, outcomes
from linking import make

from engine.clock import ManualClock, ServerClock
from engine.execution import Outcome
from engine.roles import scheduler_services
from engine.store import Store
from engine.store.jobs import run_job
from engine.store.server import time_ms
from engine.supervisor import run_services


async def test_a_scheduler_process_carries_ends_to_dependents(store: Store) -> None:
    await make(store, {"a": "", "b": "a", "c": "b"})
    clock = ServerClock()
    clock.sample(await time_ms(store.client))
    worker, _ = hire(store, ManualClock(clock.now_ms()), ScriptedRunner())
    stop = asyncio.Event()
    services = [*scheduler_services(store, clock), worker]
    running = asyncio.create_task(run_services(services, stop, 1_000))

    async def is_done() -> bool:
        return await outcomes(store, "c") == [(1, Outcome.SUCCEEDED)]

    await run_job(store, "a", clock.now_ms())
    await eventually(is_done)
    stop.set()
    await running
    assert [await outcomes(store, name) for name in "ab"] == [[(1, Outcome.SUCCEEDED)]] * 2
