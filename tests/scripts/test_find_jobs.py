"""find_jobs: of the next jobs of one list, those that all filters take; and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest
from invariants import read_shard
from seeding import NOW, job_ids, registration, seed

from engine.keys import Shard
from engine.model import JobState
from engine.names import Priority
from engine.store import Store
from engine.store.changes import pause_job
from engine.store.search import Search, find_jobs


async def find(
    store: Store, shard: Shard, count: int = 10, start: str = "-", stop: str = "+", **wanted: Any
) -> list[Any]:
    [reply] = await find_jobs(store, [(shard, shard.jobs)], Search(**wanted), start, stop, count)
    return [part.decode() if isinstance(part, bytes) else part for part in reply]


async def test_it_says_how_far_it_looked_and_what_it_found(any_store: Store) -> None:
    ids = sorted(job_ids(any_store, 5))
    shard = await seed(any_store, *map(registration, ids))
    await pause_job(any_store, ids[1], NOW)
    before = await read_shard(any_store, shard)
    paused = JobState.PAUSED
    assert await find(any_store, shard, 3, state=paused) == [3, ids[2], ids[1]]
    assert await find(any_store, shard, 3, f"({ids[2]}", state=paused) == [2, ids[4]]
    assert await find(any_store, shard, 3, f"({ids[4]}", state=paused) == [0, ""]
    assert await find(any_store, shard, stop=f"({ids[2]}") == [2, ids[1], *ids[:2]]
    assert await read_shard(any_store, shard) == before


TAKEN: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"state": JobState.ACTIVE}, True),
    ({"state": JobState.COMPLETED}, False),
    ({"queue": "mail"}, True),
    ({"queue": "mai"}, False),
    ({"queue": "mail.x"}, False),
    ({"queue": "high"}, False),
    ({"due_from": NOW}, True),
    ({"due_from": NOW + 1}, False),
    ({"due_until": NOW}, True),
    ({"due_until": NOW - 1}, False),
    ({"due_from": NOW, "due_until": NOW}, True),
    ({"groups": frozenset({"acme"})}, True),
    ({"groups": frozenset({"umbra", "acme"})}, True),
    ({"groups": frozenset({"acm", "cme", "acme.x"})}, False),
    ({"tags": ("a.b",)}, True),
    ({"tags": ("x", "a.b")}, True),
    ({"tags": ("axb",)}, False),
    ({"tags": ("c-d",)}, True),
    ({"tags": ("x.y",)}, False),
    ({"tags": ("a.b", "y")}, False),
    ({"tags": ("a",)}, False),
    ({"state": JobState.ACTIVE, "queue": "mail", "due_until": NOW, "tags": ("x",)}, True),
    ({"state": JobState.ACTIVE, "queue": "mail", "due_until": NOW - 1, "tags": ("x",)}, False),
]


@pytest.mark.parametrize(("wanted", "is_taken"), TAKEN)
async def test_a_job_is_taken_if_all_that_is_asked_holds(
    any_store: Store, wanted: dict[str, Any], is_taken: bool
) -> None:
    made: dict[str, Any] = {
        "queue": "mail",
        "priority": Priority.HIGH,
        "group": "acme",
        "tags": ("x", "a.b", "c-d", "xzy"),
    }
    shard = await seed(any_store, registration("job-0", **made))
    assert (await find(any_store, shard, **wanted))[2:] == ["job-0"] * is_taken


@pytest.mark.parametrize(
    "wanted", [{"groups": frozenset({"acme"})}, {"tags": ("a",)}, {"state": JobState.PAUSED}]
)
async def test_a_job_that_asks_for_nothing_is_taken_by_none_of_these(
    any_store: Store, wanted: dict[str, Any]
) -> None:
    shard = await seed(any_store, registration("job-0"))
    assert await find(any_store, shard, **wanted) == [1, "job-0"]


@pytest.mark.parametrize("wanted", [{"due_from": 0}, {"due_until": NOW + 1}])
async def test_only_active_jobs_are_due(any_store: Store, wanted: dict[str, Any]) -> None:
    """A paused one keeps the time of its pause, and will not fire then."""
    paused, done, due = job_ids(any_store, 3)
    shard = await seed(
        any_store, registration(paused), registration(done, next_run_at=None), registration(due)
    )
    await pause_job(any_store, paused, NOW)
    assert (await find(any_store, shard, **wanted))[2:] == [due]


async def test_an_id_without_its_job_is_passed_over(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    await any_store.client.zadd(shard.jobs, {"job-0": 0})
    assert await find(any_store, shard) == [1, "job-0"]
    await any_store.client.zrem(shard.jobs, "job-0")
