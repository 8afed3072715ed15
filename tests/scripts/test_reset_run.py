"""reset_run: a dependent job waits anew for one time, with what is not run again as heard."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from linking import Teller, became, dependent, depends
from seeding import NOW, fire, registration, result, small, take

from engine.errors import NotFound, WrongState
from engine.store import Store
from engine.store.executions import complete_executions
from engine.store.jobs import create_jobs, get_job

LATER = NOW + 5_000


async def reset(store: Store, job_id: str, attempt: int, *heard: tuple[str, str, str, str]) -> None:
    shard = store.layout.shard_of(job_id)
    keys = [shard.job(job_id), shard.arrivals(job_id, NOW), shard.awaiting]
    args: list[str | int] = [job_id, NOW, attempt, LATER]
    for row in heard:
        args += row
    await store.scripts.run("reset_run", keys, args)


async def begin(store: Store, on: str) -> Teller:
    await create_jobs(store, [dependent("z", depends(on))])
    return Teller(store)


async def run_z(store: Store) -> None:
    [delivery] = await take(store)
    await complete_executions(store, [result(delivery)], NOW)


async def test_it_waits_for_those_alone_that_run_again(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    await teller.tell("z", "a")
    await teller.tell("z", "b")
    await run_z(any_store)
    shard = any_store.layout.shard_of("z")
    before = await read_shard(any_store, shard)
    await reset(any_store, "z", 2, ("b", "+", "succeeded", "7"))
    assert changes(before, await read_shard(any_store, shard)) == {
        f"arrivals:z@{NOW}": {
            "b": "+succeeded 7",
            "@met": "1",
            "@missed": "0",
            "@attempt": "2",
        },
        "awaiting": {f"z@{NOW}": LATER},
    }
    assert await teller.tell("z", "a", again=True, result=b"8") == "fired"
    [delivery] = await take(any_store)
    assert (delivery.execution_id, delivery.attempt, delivery.base) == (f"z@{NOW}", 2, 1)
    assert sorted(delivery.upstream) == sorted(b'{"a":8,"b":7}')


async def test_what_was_heard_before_is_not_kept(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    await teller.tell("z", "a", "dead")
    await teller.tell("z", "b")
    await reset(any_store, "z", 1)
    assert await teller.tell("z", "a", again=True) == "noted"
    assert await teller.tell("z", "b", again=True) == "fired"


async def test_its_attempt_stays_what_it_is_while_it_waits_for_room(any_store: Store) -> None:
    store = small(any_store, 1)
    teller = await begin(store, "a")
    await teller.tell("z", "a", time=NOW + 1)
    await reset(store, "z", 4)
    assert await teller.tell("z", "a") == "fired"
    [live] = [live for live in (await get_job(store, "z")).live if live.nominal_at == NOW]
    assert live.attempt == 4
    await run_z(store)
    await fire(store, store.layout.shard_of("z"))
    [delivery] = await take(store)
    assert (delivery.execution_id, delivery.attempt, delivery.base) == (f"z@{NOW}", 4, 3)


async def test_what_is_not_run_again_may_have_failed(any_store: Store) -> None:
    teller = await begin(any_store, "a b/failed")
    await reset(any_store, "z", 3, ("b", "+", "dead", ""))
    assert await teller.tell("z", "a") == "fired"
    assert [live.attempt for live in (await get_job(any_store, "z")).live] == [3]
    # That death may still be redriven, and starts nothing then.
    assert await teller.tell("z", "b", again=True) == "noted"
    assert "awaiting" not in await read_shard(any_store, any_store.layout.shard_of("z"))


async def test_a_miss_that_stands_stops_it_when_the_other_comes(any_store: Store) -> None:
    teller = await begin(any_store, "a b")
    await reset(any_store, "z", 2, ("b", "-", "dead", ""))
    assert await teller.tell("z", "a") == "blocked"
    assert await became(any_store, "z") == ["upstream_failed"]


async def test_what_is_live_is_refused(any_store: Store) -> None:
    teller = await begin(any_store, "a")
    await teller.tell("z", "a")
    shard = any_store.layout.shard_of("z")
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState, match=f"execution z@{NOW} is live"):
        await reset(any_store, "z", 2)
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_job_that_depends_on_none_is_refused(any_store: Store, is_there: bool) -> None:
    if is_there:
        await create_jobs(any_store, [registration("z")])
    shard = any_store.layout.shard_of("z")
    before = await read_shard(any_store, shard)
    with pytest.raises(NotFound):
        await reset(any_store, "z", 2)
    assert await read_shard(any_store, shard) == before
