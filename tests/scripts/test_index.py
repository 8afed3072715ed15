"""lib/index: the lists of jobs by group and by tag say what the jobs say, whoever writes."""

from __future__ import annotations

from typing import Any

import pytest
from filling import advance, begin, order
from invariants import Keyspace, read_shard
from seeding import NOW, at_once, job_ids, registration, result, seed, take

from engine.model import Rules
from engine.registration import Registration
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.changes import replace_job
from engine.store.executions import complete_executions, reclaim_executions
from engine.store.jobs import create_jobs, delete_job, get_job, run_job

LISTED: dict[str, Any] = {"group": "acme", "tags": ("a", "b"), "payload": b'"12345"'}
FLEETING = Rules(delete_after_completion=True)


def lists(space: Keyspace) -> Keyspace:
    """Return the lists of a shard: ids by name, and the bytes by group."""
    found: Keyspace = {
        name.removeprefix("jobs:"): sorted(value)
        for name, value in space.items()
        if name.startswith(("jobs:group:", "jobs:tag:"))
    }
    found.update(space.get("jobs:groups", {}))
    return found


async def lists_of(store: Store) -> Keyspace:
    return lists(await read_shard(store, store.layout.shard_of("job-0")))


async def test_a_job_is_listed_by_its_group_and_by_each_tag(any_store: Store) -> None:
    first, second = job_ids(any_store, 2)
    await seed(any_store, registration(first, **LISTED), registration(second, tags=("b",)))
    assert await lists_of(any_store) == {
        "group:acme": [first],
        "tag:a": [first],
        "tag:b": sorted([first, second]),
        "acme": "7",
    }


async def test_a_job_without_group_and_tags_is_in_no_list(any_store: Store) -> None:
    await seed(any_store, registration("job-0"))
    assert await lists_of(any_store) == {}


async def test_a_groups_bytes_are_those_of_all_its_payloads(any_store: Store) -> None:
    first, second = job_ids(any_store, 2)
    umlaut = '"ü"'.encode()
    await seed(any_store, registration(first, group="acme", payload=b"null"))
    await seed(any_store, registration(second, group="acme", payload=umlaut))
    assert (await lists_of(any_store))["acme"] == str(len(umlaut) + 4)


async def test_a_job_that_exists_is_not_counted_again(any_store: Store) -> None:
    await seed(any_store, registration("job-0", **LISTED))
    before = await lists_of(any_store)
    other = registration("job-0", group="umbra", tags=("c",))
    assert await create_jobs(any_store, [other, registration("job-0", **LISTED)]) == [False] * 2
    assert await lists_of(any_store) == before


@pytest.mark.parametrize(
    ("wanted", "then"),
    [
        (
            registration("job-0", group="umbra", tags=("b", "c"), payload=b"null"),
            {"group:umbra": ["job-0"], "tag:b": ["job-0"], "tag:c": ["job-0"], "umbra": "4"},
        ),
        (
            registration("job-0", **{**LISTED, "payload": b"1"}),
            {"group:acme": ["job-0"], "tag:a": ["job-0"], "tag:b": ["job-0"], "acme": "1"},
        ),
        (registration("job-0"), {}),
    ],
    ids=["other ones", "another payload", "none"],
)
async def test_a_replacement_moves_the_job_between_lists(
    any_store: Store, wanted: Registration, then: Keyspace
) -> None:
    await seed(any_store, registration("job-0", **LISTED))
    await replace_job(any_store, await get_job(any_store, "job-0"), wanted, NOW)
    assert await lists_of(any_store) == then


async def test_a_job_joins_lists_by_a_replacement(any_store: Store) -> None:
    await seed(any_store, registration("job-0"))
    wanted = registration("job-0", **LISTED)
    await replace_job(any_store, await get_job(any_store, "job-0"), wanted, NOW)
    assert (await lists_of(any_store)).keys() == {"group:acme", "tag:a", "tag:b", "acme"}


async def test_a_deletion_takes_the_job_off_and_leaves_the_others(any_store: Store) -> None:
    first, second = job_ids(any_store, 2)
    await seed(any_store, registration(first, **LISTED), registration(second, **LISTED))
    await delete_job(any_store, first)
    assert await lists_of(any_store) == {
        "group:acme": [second],
        "tag:a": [second],
        "tag:b": [second],
        "acme": "7",
    }
    await delete_job(any_store, second)
    assert await lists_of(any_store) == {}


async def test_a_job_that_goes_with_its_last_execution_goes_off_the_lists(
    any_store: Store,
) -> None:
    first, second = job_ids(any_store, 2)
    await seed(any_store, at_once(first, rules=FLEETING, **LISTED), at_once(second, **LISTED))
    await complete_executions(any_store, [result(one) for one in await take(any_store)], NOW)
    found = await lists_of(any_store)
    assert (found["group:acme"], found["tag:a"], found["acme"]) == ([second], [second], "7")


async def test_cancelling_the_last_execution_takes_the_job_off(any_store: Store) -> None:
    await seed(any_store, at_once("job-0", rules=FLEETING, **LISTED))
    await cancel_executions(any_store, "job-0", NOW)
    assert await lists_of(any_store) == {}


async def test_a_poisoned_last_execution_takes_the_job_off(any_store: Store) -> None:
    any_store.config = any_store.config.model_copy(update={"max_deliveries": 1})
    shard = await seed(any_store, at_once("job-0", rules=FLEETING, **LISTED))
    [held] = await take(any_store)
    await any_store.client.xclaim(
        shard.ready("default"), "workers", "w1", 0, [held.entry_id], idle=60_000, justid=True
    )
    await reclaim_executions(any_store, "default", shard, "w2", NOW)
    assert await lists_of(any_store) == {}


async def test_the_end_of_its_last_backfill_takes_the_job_off(any_store: Store) -> None:
    made = registration("job-0", next_run_at=None, rules=FLEETING, **LISTED)
    shard = await begin(any_store, order(-1, -1), made)
    await advance(any_store, shard)
    await run_job(any_store, "job-0", NOW)
    deliveries = await take(any_store)
    await complete_executions(any_store, [result(one) for one in deliveries[::-1]], NOW)
    assert "group:acme" in await lists_of(any_store)
    await advance(any_store, shard)
    assert await lists_of(any_store) == {}


async def test_the_end_of_a_job_that_no_list_had_takes_nothing_off_the_sum(
    any_store: Store,
) -> None:
    """One that an older release made."""
    shard = await seed(any_store, *(registration(one, **LISTED) for one in job_ids(any_store, 2)))
    for member in (shard.jobs_of_group("acme"), shard.jobs_with_tag("a")):
        await any_store.client.zrem(member, "job-0")
    await any_store.client.hincrby(shard.groups, "acme", -7)
    await delete_job(any_store, "job-0")
    assert (await lists_of(any_store))["acme"] == "7"
