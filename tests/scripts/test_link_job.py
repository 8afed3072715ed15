"""link_job: what depends on what is noted in one place, and circles are refused, spelled out."""

from __future__ import annotations

import asyncio

import pytest
from linking import depends, make
from seeding import registration

from engine.depends import Match
from engine.errors import BadInput, Conflict, Cycle, NotFound
from engine.keys import GRAPH
from engine.store import Store
from engine.store.dependencies import link_job, match_of, read_graph, unlink_job
from engine.store.jobs import create_jobs


async def graph_of(store: Store) -> dict[str, str]:
    return {job.decode(): on.decode() for job, on in (await store.client.hgetall(GRAPH)).items()}


async def link(store: Store, job_id: str, on: str) -> str:
    return await link_job(store, job_id, depends(on), allow_missing=True)


async def test_edges_stand_in_one_hash_and_are_replaced(any_store: Store) -> None:
    assert await link(any_store, "b", "a") == ""
    assert await graph_of(any_store) == {"b": "same_time a"}
    assert await link(any_store, "b", "a c") == "same_time a"
    assert await graph_of(any_store) == {"b": "same_time a c"}


@pytest.mark.parametrize(
    ("graph", "job_id", "on", "circle"),
    [
        ({"a": "b"}, "b", "a", "b depends on a depends on b"),
        ({}, "a", "a", "a depends on a"),
        ({"b": "a", "c": "b"}, "a", "c", "a depends on c depends on b depends on a"),
        ({"b": "x a", "c": "y b"}, "a", "z c", "a depends on c depends on b depends on a"),
        ({"b": "a", "c": "a", "d": "b c"}, "a", "d", "a depends on d depends on b depends on a"),
    ],
)
async def test_a_circle_is_refused_and_spelled_out(
    any_store: Store, graph: dict[str, str], job_id: str, on: str, circle: str
) -> None:
    for name, above in graph.items():
        await link(any_store, name, above)
    before = await graph_of(any_store)
    with pytest.raises(Cycle) as refused:
        await link(any_store, job_id, on)
    assert str(refused.value) == circle
    assert await graph_of(any_store) == before


async def test_an_edit_may_turn_an_edge_round(any_store: Store) -> None:
    await link(any_store, "b", "a")
    await link(any_store, "b", "c")
    await link(any_store, "a", "b")
    assert await graph_of(any_store) == {"b": "same_time c", "a": "same_time b"}


async def test_a_diamond_is_no_circle(any_store: Store) -> None:
    for name, on in {"b": "a", "c": "a", "d": "b c"}.items():
        await link(any_store, name, on)
    assert len(await graph_of(any_store)) == 3


async def test_of_two_that_close_a_circle_together_one_is_refused(store: Store) -> None:
    for n in range(20):
        one, other = f"one{n}", f"other{n}"
        outcomes = await asyncio.gather(
            link(store, one, other), link(store, other, one), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes].count(Cycle) == 1
        assert len({one, other} & (await graph_of(store)).keys()) == 1


async def test_edges_that_have_changed_since_they_were_read_are_left(any_store: Store) -> None:
    await link(any_store, "b", "a")
    with pytest.raises(Conflict):
        await any_store.scripts.run("link_job", [GRAPH], ["b", "", "same_time", "c"])
    assert await graph_of(any_store) == {"b": "same_time a"}


async def test_more_than_ten_thousand_above_are_refused(store: Store) -> None:
    wide = " ".join(f"u{n}" for n in range(9_999))
    await store.client.hset(GRAPH, "b", f"same_time {wide}")
    await link(store, "c", "b")
    before = await graph_of(store)
    with pytest.raises(BadInput):
        await link(store, "d", "b v")
    assert await graph_of(store) == before


async def test_an_upstream_job_that_is_not_there_is_refused_and_nothing_stays(
    any_store: Store,
) -> None:
    await create_jobs(any_store, [registration("a")])
    with pytest.raises((NotFound, BadInput)) as refused:
        await link_job(any_store, "b", depends("a gone"))
    assert "gone" in str(refused.value)
    assert await graph_of(any_store) == {}
    for name in ("a", "gone"):
        assert not await any_store.client.exists(any_store.layout.shard_of(name).dependents(name))


async def test_taken_away_again_it_leaves_what_stood_before(any_store: Store) -> None:
    await link(any_store, "b", "a c")
    before = await link(any_store, "b", "c d")
    await unlink_job(any_store, "b", depends("c d"), before)
    assert await graph_of(any_store) == {"b": "same_time a c"}
    for name, count in {"a": 1, "c": 1, "d": 0}.items():
        shard = any_store.layout.shard_of(name)
        assert await any_store.client.zcard(shard.dependents(name)) == count
    await unlink_job(any_store, "b", depends("a c"))
    assert await graph_of(any_store) == {}


async def test_one_root_means_the_same_time_and_several_the_latest(any_store: Store) -> None:
    await make(any_store, {"a": "", "x": "", "b": "a", "c": "a", "d": "b c"})
    assert await match_of(any_store, ["b", "c"]) is Match.SAME_TIME
    assert await match_of(any_store, ["a", "d"]) is Match.SAME_TIME
    assert await match_of(any_store, ["d", "x"]) is Match.LATEST
    graph = await read_graph(any_store, ["d"])
    assert graph.keys() == {"b", "c", "d"}


async def test_a_gated_job_is_the_root_of_those_below_it(any_store: Store) -> None:
    await make(any_store, {"a": ""})
    await link_job(any_store, "g", depends("a", gate_ms=5))
    assert await match_of(any_store, ["g"]) is Match.SAME_TIME
    assert await match_of(any_store, ["g", "a"]) is Match.LATEST
