"""freeze_shard.lua: scripts refuse, and ready streams hand nothing out."""

from __future__ import annotations

import pytest
from invariants import changes, read_shard
from seeding import NOW, QUEUE, at_once, job_ids, lease, registration, result, seed, take

from engine.errors import Frozen
from engine.keys import CALENDARS, Shard
from engine.scripts import FOLDER, GUARDS, load
from engine.store import Store
from engine.store.executions import Answer, complete_executions
from engine.store.jobs import create_jobs, run_job

LAST_ID = "18446744073709551615-18446744073709551614"


async def freeze_shard(store: Store, shard: Shard, phase: str, *streams: str) -> int:
    stopped: int = await store.scripts.run(
        "freeze_shard", [shard.frozen], [phase, shard.ready_prefix, *streams]
    )
    return stopped


async def position(store: Store, shard: Shard) -> str:
    [group] = await store.client.xinfo_groups(shard.ready(QUEUE))
    return str(group["last-delivered-id"].decode())


async def test_a_stream_stops_and_where_it_stood_is_noted_once(any_store: Store) -> None:
    store = any_store
    shard = await seed(store, *map(at_once, job_ids(store, 3)))
    [first] = await take(store, count=1)
    assert await freeze_shard(store, shard, "draining", QUEUE) == 1
    assert await position(store, shard) == LAST_ID
    noted = {"phase": "draining", f"group:{QUEUE}": first.entry_id}
    assert (await read_shard(store, shard))["frozen"] == noted
    assert await freeze_shard(store, shard, "frozen", QUEUE) == 0
    assert (await read_shard(store, shard))["frozen"] == {**noted, "phase": "frozen"}
    assert await take(store, "w2") == []


async def test_a_stream_that_nobody_has_read_gets_a_group_that_hands_nothing_out(
    any_store: Store,
) -> None:
    store = any_store
    shard = await seed(store, at_once("job-0"))
    assert await freeze_shard(store, shard, "frozen", QUEUE, "no-such-stream") == 1
    assert (await read_shard(store, shard))["frozen"][f"group:{QUEUE}"] == "0-0"
    assert await take(store) == []


async def test_nothing_but_the_mark_changes(any_store: Store) -> None:
    store = any_store
    shard = await seed(store, at_once("job-0"))
    await take(store)
    before = await read_shard(store, shard)
    await freeze_shard(store, shard, "frozen", QUEUE)
    assert changes(before, await read_shard(store, shard)).keys() == {"frozen"}


@pytest.mark.parametrize("phase", ["draining", "frozen", "importing", "opening"])
async def test_a_script_that_begins_work_is_refused_and_changes_nothing(
    any_store: Store, phase: str
) -> None:
    store = any_store
    shard = await seed(store, registration("job-0"))
    await freeze_shard(store, shard, phase)
    before = await read_shard(store, shard)
    with pytest.raises(Frozen, match="is moving to another server"):
        await run_job(store, "job-0", NOW)
    with pytest.raises(Frozen):
        await lease(store, shard)
    [other] = [i for i in job_ids(store, 2) if i != "job-0"]
    with pytest.raises(Frozen):
        await create_jobs(store, [registration(other)])
    assert await read_shard(store, shard) == before


@pytest.mark.parametrize(("phase", "is_let"), [("draining", True), ("frozen", False)])
async def test_what_runs_ends_while_a_shard_drains_and_not_after(
    any_store: Store, phase: str, is_let: bool
) -> None:
    store = any_store
    shard = await seed(store, at_once("job-0"))
    [delivery] = await take(store)
    await freeze_shard(store, shard, phase, QUEUE)
    if is_let:
        assert await complete_executions(store, [result(delivery)], NOW) == [Answer.DONE]
    else:
        with pytest.raises(Frozen):
            await complete_executions(store, [result(delivery)], NOW)


def test_every_script_looks_whether_its_shard_is_frozen_unless_it_is_named() -> None:
    names = {path.stem for path in FOLDER.glob("*.lua")}
    assert names >= GUARDS.keys()
    for name in names:
        guard = GUARDS.get(name, "lib/frozen")
        first = load(name, shebang=False).origins[0]
        assert first == (f"lua/{guard}.lua:1" if guard else f"lua/{name}.lua:1")


async def test_a_script_whose_first_key_is_of_no_shard_looks_nowhere(store: Store) -> None:
    for shard in store.layout.shards:
        await freeze_shard(store, shard, "frozen")
    assert await store.scripts.run("put_calendar", [CALENDARS], ["a", "", "{}"]) == 1
