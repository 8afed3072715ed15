"""Single creates that come at once: stored together, answered for themselves."""

from __future__ import annotations

import asyncio

import pytest
from seeding import EVERY_MINUTE, registration

from api import gathering
from api.gathering import Gathering
from engine.errors import Conflict
from engine.store import Store
from engine.store.creating import NewJob, store_new
from engine.store.jobs import get_job


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The ids that each call stored."""
    calls: list[list[str]] = []

    async def noting(store: Store, jobs: list[NewJob]) -> list[int | Exception]:
        calls.append([job.id for job in jobs])
        return await store_new(store, jobs)

    monkeypatch.setattr(gathering, "store_new", noting)
    return calls


def job(job_id: str) -> NewJob:
    return NewJob.of(registration(job_id))


async def test_what_comes_during_a_call_goes_in_the_next(
    store: Store, calls: list[list[str]]
) -> None:
    gathering = Gathering(lambda: store)
    first = asyncio.create_task(gathering.create(job("job-0")))
    while not calls:  # noqa: ASYNC110 nothing here could set an event
        await asyncio.sleep(0)
    others = [asyncio.create_task(gathering.create(job(f"job-{n}"))) for n in range(1, 5)]
    assert await asyncio.gather(first, *others) == [True] * 5
    assert calls == [["job-0"], ["job-1", "job-2", "job-3", "job-4"]]


async def test_a_call_carries_no_more_than_it_may(
    store: Store, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MOST_AT_ONCE", 2)
    creating = Gathering(lambda: store)
    assert all(await asyncio.gather(*(creating.create(job(f"job-{n}")) for n in range(5))))
    assert [len(call) for call in calls] == [2, 2, 1]


async def test_one_that_is_alone_later_is_stored_too(store: Store) -> None:
    gathering = Gathering(lambda: store)
    assert await gathering.create(job("job-0")) == 1
    assert await gathering.create(job("job-0")) == 0
    assert await gathering.create(job("job-1")) == 1


async def test_of_two_with_one_id_the_first_counts(store: Store) -> None:
    gathering = Gathering(lambda: store)
    assert await asyncio.gather(*(gathering.create(job("job-0")) for _ in range(3))) == [
        True,
        False,
        False,
    ]


async def test_one_that_is_refused_takes_nobody_with_it(store: Store) -> None:
    bad = store.layout.shard_of("job-0")
    others = [f"job-{n}" for n in range(9) if store.layout.shard_of(f"job-{n}") is not bad]
    await store.client.hset(bad.plans, EVERY_MINUTE.id, '{"kind":"other"}')
    gathering = Gathering(lambda: store)
    ids = ["job-0", *others]
    refusal, *created = await asyncio.gather(
        *(gathering.create(job(job_id)) for job_id in ids), return_exceptions=True
    )
    assert isinstance(refusal, Conflict)
    assert created == [True] * len(others)
    await store.client.delete(bad.plans)


async def test_while_there_is_no_store_each_is_told(store: Store) -> None:
    def none() -> Store:
        raise ConnectionError("no server was reached yet")

    gathering = Gathering(none)
    found = await asyncio.gather(
        *(gathering.create(job(f"job-{n}")) for n in range(3)), return_exceptions=True
    )
    assert [type(error) for error in found] == [ConnectionError] * 3


async def test_a_caller_that_has_gone_holds_up_nobody(store: Store) -> None:
    gathering = Gathering(lambda: store)
    gone = asyncio.create_task(gathering.create(job("job-0")))
    await asyncio.sleep(0)
    gone.cancel()
    assert await gathering.create(job("job-1")) == 1
    assert gone.cancelled()
    # It was on its way, as any request whose caller goes.
    assert (await get_job(store, "job-0")).job.id == "job-0"
