"""The search in jobs: what it finds, in which order, page by page, and how much it looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from seeding import NOW, registration

from engine.model import JobState
from engine.names import Priority
from engine.registration import Registration
from engine.store import Store, search
from engine.store.changes import pause_job
from engine.store.jobs import create_jobs
from engine.store.search import Search, find_ids, search_jobs

Page = tuple[list[str], str | None]


async def page_of(store: Store, wanted: Search | None = None, **place: Any) -> Page:
    found, after = await search_jobs(store, wanted or Search(), **place)
    return [stored.job.id for stored in found], after


async def all_of(store: Store, wanted: Search, limit: int) -> list[str]:
    """Return what all pages hold."""
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page, after = await page_of(store, wanted, after=after, limit=limit)
        assert len(page) <= limit
        seen += page
    return seen


async def make(store: Store, *made: Registration) -> None:
    assert all(await create_jobs(store, made))


async def test_pages_go_through_all_shards_in_order_of_ids(any_store: Store) -> None:
    ids = sorted(f"job-{n}" for n in range(10))
    await make(any_store, *map(registration, ids))
    seen: list[str] = []
    after: str | None = ""
    sizes = []
    while after is not None:
        page, after = await page_of(any_store, after=after, limit=4)
        seen += page
        sizes.append(len(page))
    assert seen == ids
    assert sizes == [4, 4, 2]


@pytest.mark.parametrize("limit", [1, 7, 100, 1_000])
async def test_a_shard_that_holds_much_of_a_page_costs_no_job(store: Store, limit: int) -> None:
    """Ids of which one shard has a long run that comes before those of the others."""
    home = store.layout.shard_of("job-0")
    near = [f"a-{n:04}" for n in range(400) if store.layout.shard_of(f"a-{n:04}") is home]
    others = [f"b-{n:04}" for n in range(100)]
    await make(store, *map(registration, near + others))
    assert await all_of(store, Search(), limit) == near + others


async def test_a_last_page_that_is_full_has_nothing_after_it(any_store: Store) -> None:
    await make(any_store, *(registration(f"job-{n}", group="acme") for n in range(4)))
    assert (await page_of(any_store, limit=4))[1] is None
    assert (await page_of(any_store, Search(groups=frozenset({"acme"})), limit=4))[1] is None
    assert (await page_of(any_store, Search(state=JobState.ACTIVE), limit=4))[1] is None


async def test_a_prefix_narrows_the_list_and_its_pages(any_store: Store) -> None:
    ids = ["a", "b", "b.1", "b.2", "b:3", "bb", "c"]
    await make(any_store, *map(registration, ids))
    assert await page_of(any_store, Search("b.")) == (["b.1", "b.2"], None)
    assert await page_of(any_store, Search("b"), limit=2) == (["b", "b.1"], "b.1")
    rest = await page_of(any_store, Search("b"), after="b.1")
    assert rest == (["b.2", "b:3", "bb"], None)
    assert (await page_of(any_store, Search("b"), after="a"))[0][0] == "b"
    assert await page_of(any_store, Search("b"), after="c") == ([], None)


async def test_no_job_is_a_page(any_store: Store) -> None:
    assert await page_of(any_store) == ([], None)
    assert await page_of(any_store, Search(tags=("a",))) == ([], None)
    assert await page_of(any_store, Search(groups=frozenset({"acme"}))) == ([], None)


JOBS = (
    registration("a", group="acme", tags=("eu", "nightly")),
    registration("b", group="acme", tags=("eu",), queue="mail"),
    registration("c", group="umbra", tags=("eu",), next_run_at=NOW + 5),
    registration("d", tags=("nightly",), queue="mail", priority=Priority.HIGH),
    registration("e", next_run_at=NOW + 9),
    registration("f", group="acme", next_run_at=None),
)
"""`e` is to be paused, and `f` is completed."""
FOUND: dict[str, tuple[Search, str]] = {
    "all": (Search(), "abcdef"),
    "a group": (Search(groups=frozenset({"acme"})), "abf"),
    "groups": (Search(groups=frozenset({"acme", "umbra", "nobody"})), "abcf"),
    "no group at all": (Search(groups=frozenset()), ""),
    "a tag": (Search(tags=("eu",)), "abc"),
    "two tags": (Search(tags=("eu", "nightly")), "a"),
    "tags that never meet": (Search(tags=("eu", "nobody")), ""),
    "group and tag": (Search(groups=frozenset({"acme"}), tags=("nightly",)), "a"),
    "group and tag of another": (Search(groups=frozenset({"umbra"}), tags=("nightly",)), ""),
    "active": (Search(state=JobState.ACTIVE), "abcd"),
    "paused": (Search(state=JobState.PAUSED), "e"),
    "completed": (Search(state=JobState.COMPLETED), "f"),
    "completed of a group": (Search(groups=frozenset({"acme"}), state=JobState.COMPLETED), "f"),
    "a queue, whatever the priority": (Search(queue="mail"), "bd"),
    "due by a time": (Search(due_until=NOW), "abd"),
    "due from a time on": (Search(due_from=NOW + 1), "c"),
    "due within a range, ends included": (Search(due_from=NOW, due_until=NOW + 5), "abcd"),
    "due before all": (Search(due_until=NOW - 1), ""),
    "prefix and tag": (Search("b", tags=("eu",)), "b"),
    "prefix and group": (Search("c", groups=frozenset({"acme"})), ""),
}


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize("name", FOUND)
async def test_what_is_found_is_what_all_filters_take(
    any_store: Store, name: str, limit: int
) -> None:
    await make(any_store, *JOBS)
    await pause_job(any_store, "e", NOW)
    wanted, ids = FOUND[name]
    assert "".join(await all_of(any_store, wanted, limit)) == ids


@contextmanager
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Give how many jobs were looked into by each round of scripts meanwhile."""
    counts: list[int] = []
    find = search.find_jobs

    async def counted(*args: Any) -> list[list[Any]]:
        replies = await find(*args)
        counts.append(sum(looked for looked, *_ in replies))
        return replies

    with monkeypatch.context() as patch:
        patch.setattr(search, "find_jobs", counted)
        yield counts


async def test_the_shortest_list_is_walked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [registration(f"m-{n}", tags=("common",), group="acme") for n in range(200)]
    rare = registration("r", tags=("common", "rare"), group="acme")
    await make(store, *many, rare)
    wanted = Search(groups=frozenset({"acme"}), tags=("common", "rare"))
    with looks(monkeypatch) as counts:
        assert await page_of(store, wanted) == (["r"], None)
    assert counts == [1]


async def test_where_to_go_on_names_no_job_of_other_groups_if_that_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOK_LIMIT", 1)
    others = [registration(f"m-{n}", tags=("rare",), group="umbra") for n in range(50)]
    own = [registration(f"o-{n:03}", group="acme") for n in range(100)]
    await make(store, *others, *own, registration("z", group="acme", tags=("rare",)))
    monkeypatch.setattr(search, "LOOK", 16)
    wanted = Search(groups=frozenset({"acme"}), tags=("rare",))
    assert (await page_of(store, wanted))[1] in {other.job.id for other in others}
    kept = replace(wanted, keeps_to_groups=True)
    assert (await page_of(store, kept))[1] in {one.job.id for one in own}
    assert await all_of(store, kept, 10) == ["z"]


async def test_a_job_that_a_list_alone_decides_about_is_not_looked_at_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(store, registration("a", tags=("eu",)), registration("b", group="acme"))
    with looks(monkeypatch) as counts:
        await page_of(store, Search(tags=("eu",)))
        await page_of(store, Search(groups=frozenset({"acme"})))
    assert counts == []


async def test_one_search_looks_at_a_bounded_number_and_says_where_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOK_LIMIT", 50)
    monkeypatch.setattr(search, "LOOK", 20)
    ids = [f"job-{n:03}" for n in range(120)]
    await make(store, *map(registration, ids))
    await pause_job(store, ids[-1], NOW)
    wanted = Search(state=JobState.PAUSED)
    with looks(monkeypatch) as counts:
        page, after = await page_of(store, wanted)
    assert page == []
    assert 50 <= sum(counts) < 80
    assert after in ids[30:79]
    assert await all_of(store, wanted, 100) == [ids[-1]]


async def test_a_full_page_says_there_is_a_next_one_only_if_that_has_a_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOK", 16)
    ids = [f"job-{n:03}" for n in range(100)]
    await make(store, *map(registration, ids))
    for job_id in ids[:2]:
        await pause_job(store, job_id, NOW)
    assert await page_of(store, Search(state=JobState.PAUSED), limit=2) == (ids[:2], None)


async def test_a_job_that_changes_groups_meanwhile_is_not_shown(store: Store) -> None:
    """As for a caller who sees only some groups: the list is older than the job."""
    await make(store, registration("a", group="umbra"), registration("b", group="acme"))
    await store.client.zadd(store.layout.shard_of("a").jobs_of_group("acme"), {"a": 0})
    assert (await page_of(store, Search(groups=frozenset({"acme"}))))[0] == ["b"]
    await store.client.zrem(store.layout.shard_of("a").jobs_of_group("acme"), "a")


async def test_a_job_that_is_gone_is_passed_over(store: Store) -> None:
    await make(store, registration("a", tags=("eu",)))
    shard = store.layout.shard_of("a")
    await store.client.zadd(shard.jobs_with_tag("eu"), {"b": 0})
    wanted = Search(tags=("eu",))
    assert await find_ids(store, wanted, limit=2) == (["a", "b"], None)
    assert await page_of(store, wanted) == (["a"], None)
    await store.client.zrem(shard.jobs_with_tag("eu"), "b")
