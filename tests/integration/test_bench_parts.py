"""What the scenarios of the harness share: seeding, the floor, processes, and looking on."""

from __future__ import annotations

import asyncio
import os

import pytest

from bench.firing import Shift, ShiftedClock, counts, fire_all, firing_at, last_added_at
from bench.floor import mean, measure_floor, measure_oneoff_floor
from bench.instant import fire_instant
from bench.scenarios.steady import RATES_PER_S, Window, _entries, _register
from bench.seeding import DAILY, DAY_MS, EVENING_MS, clear, midnight_after, of_1000_plans, seed
from bench.spawned import spawned
from bench.stage import PAYLOAD
from bench.stalls import between, live_as_probe, percentile
from engine.names import HTTP_QUEUE
from engine.store import Store, leases
from engine.store.jobs import get_job, load_jobs
from engine.store.server import time_ms

JOBS = 600


# Seeding


async def test_a_thousand_plans_meet_at_midnight_and_nowhere_else(store: Store) -> None:
    midnight = midnight_after(await time_ms(store.client))
    await seed(store, 1_000, midnight - EVENING_MS, of_1000_plans)
    found = await load_jobs(store, [f"job-{n:012x}" for n in range(1_000)])
    assert {one.job.next_run_at for one in found} == {midnight}
    assert {one.job.payload for one in found} == {PAYLOAD}
    plans: set[str] = set()
    for shard in store.layout.shards:
        plans |= {name.decode() for name in await store.client.hkeys(shard.plans)}
    assert len(plans) == 1_000


async def test_more_jobs_go_on_where_the_others_end(store: Store) -> None:
    now = await time_ms(store.client)
    await seed(store, 30, now, DAILY, prefix="some")
    await seed(store, 20, now, DAILY, prefix="some", first=30)
    total = sum([await store.client.zcard(shard.jobs) for shard in store.layout.shards])
    assert total == 50
    assert (await get_job(store, f"some-{49:012x}")).job.next_run_at == midnight_after(now)


# Firing


async def test_all_fire_in_this_process_and_the_leases_are_free_again(store: Store) -> None:
    now = await time_ms(store.client)
    await seed(store, JOBS, now)
    assert await fire_all(store, JOBS, midnight_after(now)) == JOBS
    assert await counts(store, HTTP_QUEUE) == (JOBS, JOBS)
    assert not any(name for name, _ in await leases.read_holders(store))


async def test_a_scheduler_process_fires_nothing_before_it_is_told_when(store: Store) -> None:
    now = await time_ms(store.client)
    await seed(store, JOBS, now)
    async with firing_at(store, midnight_after(now)) as firing:
        assert all(name for name, _ in await leases.read_holders(store))
        await asyncio.sleep(0.2)
        assert await counts(store, HTTP_QUEUE) == (0, 0)
        begin_at = await firing.begin()
        while await counts(store, HTTP_QUEUE) != (JOBS, JOBS):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await last_added_at(store, HTTP_QUEUE) >= begin_at
    assert not any(name for name, _ in await leases.read_holders(store))


async def test_an_instant_has_all_its_figures(store: Store) -> None:
    now = await time_ms(store.client)
    await seed(store, JOBS, now)
    metrics = await fire_instant(store, JOBS, midnight_after(now), HTTP_QUEUE)
    assert [name for name, value in metrics.items() if not value > 0] == []


async def test_an_instant_is_refused_where_something_is_due_before(store: Store) -> None:
    now = await time_ms(store.client)
    await seed(store, JOBS, now)
    with pytest.raises(RuntimeError, match="of 600 jobs have fired before they were to"):
        await fire_instant(store, JOBS, midnight_after(now) + DAY_MS, HTTP_QUEUE)


# The floor


async def test_the_floor_does_all_jobs_and_leaves_nothing(store: Store) -> None:
    before = await store.client.dbsize()
    recurring = await measure_floor(store.client, JOBS, PAYLOAD)
    oneoff = await measure_oneoff_floor(store.client, JOBS, PAYLOAD)
    assert all(value > 0 for value in (recurring | oneoff).values())
    assert await store.client.dbsize() == before


async def test_what_the_floor_counts_is_what_it_was_given(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    async def cost(client: object, work: object) -> tuple[float, float]:
        counted.append(await work())  # type: ignore[operator]
        return 1.0, 1.0

    monkeypatch.setattr("bench.floor._cost", cost)
    await measure_floor(store.client, JOBS, PAYLOAD)
    await measure_oneoff_floor(store.client, JOBS, PAYLOAD)
    assert counted == [JOBS, JOBS, JOBS]
    assert mean({"a_ms": 1.0}, {"a_ms": 3.0}) == {"a_ms": 2.0}


# Steady


async def test_each_rate_has_jobs_of_its_own_in_a_window_of_its_own(store: Store) -> None:
    now = await time_ms(store.client)
    first_at = midnight_after(now)
    windows = [
        Window(at, rate, at + 200, at + 1_000)
        for n, rate in enumerate(RATES_PER_S)
        for at in [first_at + n * 1_000]
    ]
    # A hundredth of the jobs that the rates take.
    assert await _register(store, 760, now, windows) == 760
    found = await load_jobs(store, [f"job-{n:012x}" for n in range(760)])
    for window, first, count in zip(windows, (0, 10, 60, 260), (10, 50, 200, 500), strict=True):
        due = [one.job.next_run_at or 0 for one in found[first : first + count]]
        assert window.first_at <= min(due) <= max(due) <= window.end_at
        assert len({*due}) > count / 2


async def test_entries_are_all_read_with_when_they_came_and_were_due(store: Store) -> None:
    now = await time_ms(store.client)
    await seed(store, 2_500, now)
    await fire_all(store, 2_500, midnight_after(now))
    found = [pair async for pair in _entries(store)]
    assert len(found) == 2_500
    assert {due_at for _, due_at in found} == {midnight_after(now)}
    assert max(at for at, _ in found) == await last_added_at(store, HTTP_QUEUE)


def test_a_window_says_what_was_reached() -> None:
    window = Window(750, 20_000, 1_000, 2_000, redis_s=0.5, python_s=0.25, last_at=3_000)
    window.lags_ms.extend(range(1, 101))
    assert window.metrics() == {
        "lag_ms_p50_at_20000": 50,
        "lag_ms_p99_at_20000": 99,
        "lag_ms_max_at_20000": 100,
        "fires_per_s_at_20000": 50,
        "redis_us_per_fire_at_20000": 5_000,
        "python_us_per_fire_at_20000": 2_500,
    }


# Looking on


async def test_a_probe_counts_each_reply_and_sees_a_stall(store: Store) -> None:
    with spawned(live_as_probe, store.config.redis_url) as probe:
        probe.cpu_s()
        await asyncio.sleep(0.3)
        busy = "local n = 0 for i = 1, 2e7 do n = n + i end return n"
        began_at = await time_ms(store.client)
        await store.client.eval(busy, 0)
        took_ms = await time_ms(store.client) - began_at
        await asyncio.sleep(0.1)
        waits = probe.stop()
    assert len(waits) > 20
    assert percentile(between(waits, 0, float("inf")), 100) > took_ms / 2


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile(range(1, 1_001), 99) == 990
    assert percentile([7], 50) == 7
    assert percentile([1, 2], 50) == 1
    assert percentile([], 50) != percentile([], 50), "nan"
    assert between([(1, 9.0), (2, 8.0), (3, 7.0)], 1, 3) == [8.0, 9.0]


# Processes


async def add(stop: asyncio.Event, first: int, second: int) -> int:
    await stop.wait()
    return first + second


async def die(stop: asyncio.Event) -> None:
    os._exit(7)


async def test_a_process_returns_what_its_life_did_when_it_is_told_to_stop() -> None:
    with spawned(add, 2, 3) as process:
        first = process.cpu_s()
        assert 0 < first <= process.cpu_s()
        assert process.stop() == 5
        assert process.stop() is None


async def test_a_process_that_has_ended_is_told_by_name_and_status() -> None:
    ended = pytest.raises(RuntimeError, match="die: its process ended with status 7")
    with ended, spawned(die) as process:
        process.stop()


async def test_a_process_does_not_outlive_what_went_wrong() -> None:
    pids: list[int] = []

    def go_wrong() -> None:
        with spawned(add, 2, 3) as process:
            pids.append(process.pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


# And the clock


def test_a_shifted_clock_runs_as_the_servers_does_and_is_moved_by_who_shares_it() -> None:
    shift = Shift(0)
    clock = ShiftedClock(shift)
    clock.sample(1_000_000)
    shift.value = 5_000
    assert 1_005_000 <= clock.now_ms() < 1_006_000


async def test_nothing_is_left_after_clearing(store: Store) -> None:
    await seed(store, 10, await time_ms(store.client))
    assert await store.client.dbsize() > 10
    await clear(store.client)
    assert await store.client.dbsize() == 0
