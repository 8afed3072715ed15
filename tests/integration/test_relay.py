"""Jobs that depend on jobs, from the end of one execution to the start of the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import orjson
import pytest
from conftest import open_real
from fleet import BUSY, REFUSED, eventually, settle
from linking import Flow, became, dependent, depends, make, outbox_of, root
from seeding import MINUTE, NOW, result, take

from engine.depends import Join, Match
from engine.embedded import EmbeddedServer
from engine.execution import Outcome
from engine.model import JobState
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, get_job, run_job
from engine.store.letters import redrive_letters


async def begin(store: Store, **answers: object) -> Flow:
    flow = Flow(store, answers)  # type: ignore[arg-type]
    await flow.begin()
    return flow


def times(*names: str, at: int = NOW) -> dict[str, int]:
    return {f"{name}@{at}": 1 for name in names}


async def test_a_diamond_runs_each_job_once_at_its_roots_time(store: Store) -> None:
    await make(store, {"a": "", "b": "a", "c": "a", "d": "b c"})
    assert (await get_job(store, "d")).job.state is JobState.ACTIVE
    flow = await begin(store)
    await flow.play()
    assert flow.ran == times("a", "b", "c", "d")
    for name in "abcd":
        assert await became(store, name) == ["succeeded"]


async def test_each_time_of_the_root_goes_down_by_itself(store: Store) -> None:
    await make(store, {"a": "", "b": "a", "c": "a", "d": "b c"})
    flow = await begin(store)
    await flow.play()
    by_hand = await run_job(store, "a", NOW + 5)
    await flow.play()
    at = int(by_hand.partition("@")[2])
    assert flow.ran == times("a", "b", "c", "d") | times("a", "b", "c", "d", at=at)


async def test_a_death_stops_all_that_is_below_and_names_itself(store: Store) -> None:
    await make(store, {"a": "", "b": "a", "c": "b", "d": "c", "e": "a/failed"})
    flow = await begin(store, a=[REFUSED])
    await flow.play()
    assert flow.ran == times("a", "e")
    for name in "bcd":
        records = await store.client.lrange(store.layout.shard_of(name).runs(name), 0, -1)
        assert [orjson.loads(line)[5] for line in records] == [f"upstream_failed: a@{NOW}"]


async def test_redriving_what_died_releases_the_whole_chain_once(store: Store) -> None:
    await make(store, {"a": "", "b": "a", "c": "b", "d": "c", "e": "a/finished", "f": "b/finished"})
    flow = await begin(store, a=[REFUSED])
    await flow.play()
    assert flow.ran == times("a", "e", "f")
    await redrive_letters(store, [f"a@{NOW}"], NOW + MINUTE)
    flow.clock.advance(MINUTE)
    await flow.begin()
    await flow.play()
    # Those that had their time keep to it: e and f are not run again.
    assert flow.ran == times("b", "c", "d", "e", "f") | {f"a@{NOW}": 2}
    assert await became(store, "d") == ["upstream_failed", "succeeded"]


async def test_a_death_after_retries_is_told_and_a_failure_before_them_is_not(store: Store) -> None:
    await make(store, {"a": "", "b": "a/failed", "c": "a"})
    flow = await begin(store, a=[BUSY, BUSY, BUSY])
    await flow.play()
    assert await became(store, "c") == []
    for _ in range(2):
        flow.clock.advance(MINUTE)
        await flow.begin()
        await flow.play()
    assert flow.ran == {f"a@{NOW}": 3, f"b@{NOW}": 1}
    assert await became(store, "c") == ["upstream_failed"]


async def test_any_runs_at_the_first_and_not_again_at_the_second(store: Store) -> None:
    await make(store, {"a": "", "b": "", "c": depends("a b", Join.ANY)})
    flow = await begin(store, a=[REFUSED])
    await flow.play()
    assert flow.ran == times("a", "b", "c")
    await redrive_letters(store, [f"a@{NOW}"], NOW)
    await flow.play()
    assert flow.ran == times("b", "c") | {f"a@{NOW}": 2}


async def test_what_is_cancelled_stops_what_is_below(store: Store) -> None:
    await make(store, {"a": "", "b": "a", "c": "a/finished"})
    flow = await begin(store)
    await flow.scheduler.step()
    assert await cancel_executions(store, "a", NOW) == [NOW]
    await flow.play()
    assert flow.ran == times("c")
    assert await became(store, "b") == ["upstream_failed"]


async def test_latest_fires_when_each_has_succeeded_since_it_last_fired(store: Store) -> None:
    await make(store, {"a": "", "b": "", "c": depends("a b", match=Match.LATEST)})
    flow = await begin(store)
    await flow.play()
    assert sorted(flow.ran.values()) == [1, 1, 1]
    for name in ("a", "a", "b"):
        assert len(await became(store, "c")) == 1
        flow.clock.advance(5)
        await run_job(store, name, flow.clock.now_ms())
        await flow.play()
    assert await became(store, "c") == ["succeeded"] * 2
    [*_, last] = [d.execution_id for d in flow.runner.seen]
    assert last == f"c@{flow.clock.now_ms()}"


async def test_results_come_with_the_start_under_the_names_of_their_jobs(store: Store) -> None:
    await make(store, {"a": "", "b": "", "c": "a b"})
    flow = await begin(store)
    await flow.scheduler.step()
    for delivery in await take(store):
        gave = orjson.dumps({"of": delivery.job_id})
        ended = replace(result(delivery, Outcome.SUCCEEDED), gave=gave)
        await complete_executions(store, [ended], NOW)
    await flow.play()
    [delivery] = flow.runner.seen
    assert orjson.loads(delivery.upstream) == {"a": {"of": "a"}, "b": {"of": "b"}}


async def test_a_job_that_nobody_depends_on_tells_nobody(store: Store) -> None:
    await make(store, {"a": "", "b": "a"})
    flow = await begin(store)
    await flow.play()
    assert await outbox_of(store, "a") == []
    assert await outbox_of(store, "b") == []


async def test_a_relay_without_a_shard_tells_nothing(store: Store) -> None:
    await make(store, {"a": "", "b": "a"})
    flow = await begin(store)
    await flow.scheduler.step()
    await flow.work()
    flow.clock.advance(store.config.lease_ttl_ms)
    assert await flow.relay.step(block=False) == store.config.tick_ms
    assert len(await outbox_of(store, "a")) == 1


@pytest.fixture
async def bare_store(server: EmbeddedServer) -> AsyncIterator[Store]:
    """A store whose invariants are not looked at: of so many jobs that takes too long."""
    async with open_real(server) as store:
        yield store


async def test_ten_thousand_hear_of_one_and_one_hears_of_a_thousand(bare_store: Store) -> None:
    # What depends on what is written as link_job writes it, for its time.
    store = bare_store
    wide = [f"w{n}" for n in range(10_000)]
    above = wide[:1_000]
    pipe = store.client.pipeline(transaction=False)
    for at in range(0, len(wide), 1_000):
        members = dict.fromkeys(wide[at : at + 1_000], 0)
        pipe.zadd(store.layout.shard_of("a").dependents("a"), members)
    for name in above:
        pipe.zadd(store.layout.shard_of(name).dependents(name), {"z": 0})
    await pipe.execute()
    await create_jobs(store, [root("a"), dependent("z", depends(" ".join(above)))])
    for at in range(0, len(wide), 1_000):
        on = depends("a")
        await create_jobs(store, [dependent(name, on) for name in wide[at : at + 1_000]])
    flow = await begin(store)
    await flow.play()
    assert flow.ran == times("a", "z", *wide)


async def test_a_step_tells_so_many_at_the_most_and_the_rest_comes_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.relay.MOST_TELLINGS", 5)
    await make(store, {"a": "", "b": "a", "c": "a"})
    flow = await begin(store)
    for n in range(6):
        await run_job(store, "a", NOW + n)
    await flow.work()
    left = []
    while await outbox_of(store, "a"):
        await flow.relay.step(block=False)
        left.append(len(await outbox_of(store, "a")))
    assert left == [4, 2, 0]
    await flow.work()
    assert [len(await became(store, name)) for name in "abc"] == [6, 6, 6]


async def test_one_ending_is_told_to_all_even_if_they_are_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.relay.MOST_TELLINGS", 1)
    await make(store, {"a": "", "b": "a", "c": "a"})
    flow = await begin(store)
    await flow.play()
    assert flow.ran == times("a", "b", "c")


async def test_an_idle_relay_hears_at_once(store: Store) -> None:
    await make(store, {"a": "", "b": "a"})
    flow = await begin(store)
    stop = asyncio.Event()
    running = asyncio.create_task(flow.relay.run(stop))
    await flow.scheduler.step()
    await flow.work()

    async def is_offered() -> bool:
        return bool(await store.client.xlen(store.layout.shard_of("b").ready("default")))

    await eventually(is_offered)
    stop.set()
    await running
    await flow.work()
    await settle(flow.worker)
    assert flow.ran == times("a", "b")
