"""Who runs the fleet, and how its shards stand."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest
from fleet import ScriptedRunner, already_set, eventually, hire, keep, settle
from seeding import EVERY_MINUTE, MINUTE, NOW, at_once, fire, job_ids, registration, seed, take

from engine import __version__
from engine.announcer import BEAT_MS, SWEEP_MS, Announcer
from engine.clock import ManualClock
from engine.keys import GROUP, PROCESSES
from engine.roles import scheduler_services, worker_services
from engine.store import Store
from engine.store.fleet import (
    SEEN_MS,
    known_queues,
    read_oldest_due,
    read_schedulers,
    read_shards,
    read_workers,
)
from engine.store.processes import (
    GONE_AFTER_MS,
    Process,
    Role,
    announce_process,
    read_processes,
)
from engine.supervisor import run_services

WORKER = Process(
    name="w1",
    role=Role.WORKER,
    host="here",
    pid=7,
    version="1",
    zones="2026f",
    started_at=NOW - MINUTE,
    seen_at=NOW,
    skew_ms=-3,
    queues=("mail", "slow"),
    concurrency=5,
    running=2,
)


def announcer(store: Store, clock: ManualClock, name: str = "w1") -> Announcer:
    return Announcer(
        store,
        clock,
        Role.WORKER,
        name,
        queues=("mail",),
        concurrency=9,
        running=lambda: 4,
        wall=lambda: NOW + 250,
    )


async def test_what_a_process_says_is_read_back(any_store: Store) -> None:
    await announce_process(any_store, WORKER)
    await announce_process(any_store, replace(WORKER, name="a", running=None))
    assert await read_processes(any_store, NOW) == [
        replace(WORKER, name="a", running=None),
        WORKER,
    ]


async def test_a_beat_says_who_runs_here_and_how_far_its_clock_is_off(any_store: Store) -> None:
    clock = ManualClock(NOW)
    loop = announcer(any_store, clock)
    assert await loop.step() == BEAT_MS
    clock.advance(100)
    await loop.step()
    [process] = await read_processes(any_store, NOW)
    assert (process.name, process.role, process.pid) == ("w1", Role.WORKER, os.getpid())
    assert (process.started_at, process.seen_at) == (NOW, NOW + 100)
    assert (process.skew_ms, process.version) == (150, __version__)
    assert (process.queues, process.concurrency, process.running) == (("mail",), 9, 4)


async def test_a_silent_process_is_gone_and_swept_by_another(any_store: Store) -> None:
    clock = ManualClock(NOW)
    await announcer(any_store, clock, "dead").step()
    alive = announcer(any_store, clock, "alive")
    await alive.step()
    clock.advance(GONE_AFTER_MS - 1)
    assert len(await read_processes(any_store, clock.now_ms())) == 2
    clock.advance(1)
    await alive.step()
    assert [one.name for one in await read_processes(any_store, clock.now_ms())] == ["alive"]
    assert await any_store.client.hlen(PROCESSES) == 2
    clock.advance(SWEEP_MS)
    await alive.step()
    assert await any_store.client.hkeys(PROCESSES) == [b"alive"]


async def test_what_another_version_wrote_is_passed_over(any_store: Store) -> None:
    await announce_process(any_store, WORKER)
    for name, text in (("a", "[1]"), ("b", '{"role":"cook"}'), ("c", "{")):
        await any_store.client.hset(PROCESSES, name, text)
    assert await read_processes(any_store, NOW) == [WORKER]


async def test_a_process_that_stops_is_off_the_list(any_store: Store) -> None:
    loop = announcer(any_store, ManualClock(NOW))
    await loop.step()
    await loop.run(already_set())
    assert await read_processes(any_store, NOW) == []


async def test_schedulers_and_workers_announce_themselves_while_they_run(store: Store) -> None:
    clock, stop = ManualClock(NOW), asyncio.Event()
    services = [*scheduler_services(store, clock), *worker_services(store, clock, {"mail": 1}, 9)]
    running = asyncio.create_task(run_services(services, stop, 100))

    async def are_there() -> bool:
        return len(await read_processes(store, NOW)) == 2

    await eventually(are_there)
    by_role = {process.role: process for process in await read_processes(store, NOW)}
    assert by_role[Role.WORKER].queues == ("mail",)
    assert by_role[Role.WORKER].concurrency == 9
    assert by_role[Role.SCHEDULER].queues == ()
    stop.set()
    await running
    assert await read_processes(store, NOW) == []


async def test_shards_show_holder_token_lag_and_what_is_in_them(any_store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(any_store, clock, "s1")
    await keeper.step()
    first, second, third = job_ids(any_store, 3)
    shard = await seed(
        any_store,
        registration(first, next_run_at=NOW - 700),
        at_once(second, queue="mail"),
        at_once(third, queue="mail"),
    )
    await take(any_store, count=1, stream="mail")
    shards = await read_shards(any_store, ["mail"], NOW)
    assert [one.index for one in shards] == [0, 1, 2, 3]
    found = shards[shard.index]
    assert (found.tag, found.holder) == (shard.tag, "s1")
    assert found.token == int(await any_store.client.hget(shard.fence, "token"))
    assert 0 < found.lease_left_ms <= any_store.config.lease_ttl_ms
    assert (found.oldest_due_at, found.lag_ms) == (NOW - 700, 700)
    assert (found.jobs, found.buckets, found.waiting, found.running) == (3, 1, 1, 1)
    other = shards[(shard.index + 1) % 4]
    assert (other.oldest_due_at, other.lag_ms, other.jobs) == (None, 0, 0)
    [found] = [one for one in await read_shards(any_store, [], NOW - MINUTE) if one.jobs]
    assert (found.lag_ms, found.waiting, found.running) == (0, 0, 0)


async def test_a_shard_that_nobody_ever_held_says_so(any_store: Store) -> None:
    [found, *_] = await read_shards(any_store, [], NOW)
    assert (found.holder, found.token, found.lease_left_ms) == (None, 0, 0)


async def test_what_waits_for_room_is_not_late(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    assert (await read_oldest_due(any_store))[shard.index] == NOW
    member = f"{EVERY_MINUTE.id}|job-0"
    bucket = str(NOW // MINUTE)
    await any_store.client.zrem(shard.buckets, bucket)
    await any_store.client.zadd(shard.buckets, {"@default": "+inf"})
    await any_store.client.rename(shard.due(bucket), shard.due("@default"))
    assert await any_store.client.zscore(shard.due("@default"), member) == NOW
    assert (await read_oldest_due(any_store))[shard.index] is None


async def test_schedulers_are_those_alive_with_the_shards_they_hold(any_store: Store) -> None:
    clock = ManualClock(NOW)
    one, _ = keep(any_store, clock, "s1")
    await one.step()
    two, _ = keep(any_store, clock, "s2")
    await two.step()
    await one.step()
    await two.step()
    await announce_process(any_store, replace(WORKER, name="s2", role=Role.SCHEDULER, queues=()))
    await announce_process(any_store, WORKER)
    found = await read_schedulers(any_store, NOW)
    assert [(one.name, len(one.shards)) for one in found] == [("s1", 2), ("s2", 2)]
    assert sorted(found[0].shards + found[1].shards) == [0, 1, 2, 3]
    assert [one.process is None for one in found] == [True, False]


async def test_a_scheduler_is_gone_when_its_time_and_its_leases_are(any_store: Store) -> None:
    clock = ManualClock(NOW)
    keeper, _ = keep(any_store, clock, "s1")
    await keeper.step()
    for shard in any_store.layout.shards:
        await any_store.client.delete(shard.lease)
    assert [s.name for s in await read_schedulers(any_store, NOW)] == ["s1"]
    assert await read_schedulers(any_store, NOW + any_store.config.lease_ttl_ms + 1) == []


async def test_workers_are_those_that_announce_themselves_and_other_consumers(
    any_store: Store,
) -> None:
    for job_id in job_ids(any_store, 3):
        await seed(any_store, at_once(job_id, queue="mail"))
    await take(any_store, "w1", 1, stream="mail")
    await take(any_store, "driver", 2, stream="mail")
    found = await read_workers(any_store, [WORKER], ["mail", "none"], NOW)
    assert [(one.name, one.running, one.queues) for one in found] == [
        ("driver", 2, ("mail",)),
        ("w1", 1, ("mail", "slow")),
    ]
    assert [one.process for one in found] == [None, WORKER]
    assert NOW - SEEN_MS < found[0].seen_at <= NOW


async def test_a_consumer_that_holds_nothing_is_shown_while_it_asks(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take(any_store, "w1", stream="mail")  # makes the groups
    ready = any_store.layout.shards[0].ready("mail")
    await any_store.client.xgroup_createconsumer(ready, GROUP, "idle")
    found = {one.name: one.running for one in await read_workers(any_store, [], ["mail"], NOW)}
    assert found["idle"] == 0
    monkeypatch.setattr("engine.store.fleet.SEEN_MS", 0)
    assert await read_workers(any_store, [], ["mail"], NOW) == []


async def test_a_queue_that_only_a_worker_reads_is_known(any_store: Store) -> None:
    names = [queue.queue for queue in await known_queues(any_store, [WORKER])]
    assert names == ["default", "http", "shell", "mail", "slow"]


async def test_a_worker_that_runs_says_how_much(any_store: Store) -> None:
    clock, runner = ManualClock(NOW), ScriptedRunner()
    runner.gate.clear()
    worker, _ = hire(any_store, clock, runner)
    await seed(any_store, at_once("job-0"))
    await fire(any_store, any_store.layout.shard_of("job-0"))
    await worker.fetch(block=False)
    assert (worker.running, worker.concurrency) == (1, 100)
    runner.gate.set()
    await settle(worker)
    assert await worker.report() == 1
