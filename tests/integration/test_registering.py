"""Registering, changing and deleting jobs that depend on jobs, with a crash between any two
commands: what is left is never too little, and the next try mends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from breaking import Cut, Wire, over
from linking import Flow, dependent, depends, make

from engine.depends import MOST_UPSTREAMS, Match
from engine.errors import Conflict, Cycle, NotFound
from engine.keys import GRAPH
from engine.registration import Registration
from engine.store import Store
from engine.store.graph_runs import RunState, read_run, rerun
from engine.store.jobs import create_jobs, get_job
from engine.store.outbox import read_dependents
from engine.store.registering import Dependents, edit_job, register_job, remove_job

NAMES = "abcdxyz"
ROOTS = {"a": "", "x": "", "y": ""}


async def own_edges(store: Store) -> set[tuple[str, str]]:
    """Return (upstream, job) as the jobs themselves say."""
    found = set()
    for name in NAMES:
        with suppress(NotFound):
            on = (await get_job(store, name)).job.depends
            found |= {(up.job_id, name) for up in on.upstreams} if on else set()
    return found


async def noted_edges(store: Store) -> set[tuple[str, str]]:
    rows = (await store.client.hgetall(GRAPH)).items()
    return {(up, job.decode()) for job, row in rows for up in row.decode().split()[1:]}


async def told_edges(store: Store) -> set[tuple[str, str]]:
    found = await read_dependents(store, [*NAMES])
    return {(up, job) for up, jobs in found.items() for job in jobs}


async def is_exact(store: Store) -> bool:
    return await own_edges(store) == await noted_edges(store) == await told_edges(store)


async def crash_at_each_step(
    store: Store,
    begin: Callable[[], Awaitable[None]],
    act: Callable[[Store], Awaitable[object]],
    mend: Callable[[], Awaitable[object]],
) -> int:
    """Break the wire after each command in turn; return how many there are."""
    for step in count():
        await store.client.flushall()
        await begin()
        wire = Wire(left=step)
        try:
            await act(over(store, wire))
        except Cut:
            pass
        own = await own_edges(store)
        assert own <= await noted_edges(store), step
        assert own <= await told_edges(store), step
        await mend()
        assert await is_exact(store), step
        if not wire.was_cut:
            return step
    raise AssertionError


def d_on(text: str) -> Registration:
    return dependent("d", depends(text))


async def diamond(store: Store) -> None:
    await make(store, {**ROOTS, "b": "a", "c": "a"})


async def test_a_registration_that_crashes_anywhere_can_be_made_again(store: Store) -> None:
    async def again() -> None:
        is_new = await register_job(store, d_on("c x"))
        assert is_new or await own_edges(store) >= {("b", "d"), ("c", "d")}

    steps = await crash_at_each_step(
        store, lambda: diamond(store), lambda broken: register_job(broken, d_on("b c")), again
    )
    assert steps > 5


async def test_an_edit_that_crashes_anywhere_can_be_made_again(store: Store) -> None:
    async def begin() -> None:
        await diamond(store)
        await register_job(store, d_on("b c"))

    async def edit(by: Store) -> None:
        await edit_job(by, await get_job(by, "d"), d_on("c x"), 0)

    await crash_at_each_step(store, begin, edit, lambda: edit(store))
    assert ("b", "d") not in await own_edges(store)


async def test_an_edit_to_nothing_that_crashes_anywhere_can_be_made_again(store: Store) -> None:
    async def begin() -> None:
        await diamond(store)
        await register_job(store, d_on("b c"))

    async def edit(by: Store) -> None:
        made = d_on("b")
        await edit_job(
            by, await get_job(by, "d"), replace(made, job=replace(made.job, depends=None)), 0
        )

    await crash_at_each_step(store, begin, edit, lambda: edit(store))


@pytest.mark.parametrize("how", [Dependents.CASCADE, Dependents.DETACH])
async def test_a_deletion_that_crashes_anywhere_is_mended_by_the_next(
    store: Store, how: Dependents
) -> None:
    async def begin() -> None:
        await diamond(store)
        await register_job(store, d_on("b c x"))

    async def mend() -> None:
        # What is left of one that is gone already goes with what it depended on, or when its id
        # is used again.
        for name in "bcax":
            with suppress(NotFound):
                await remove_job(store, name, 0, how)
        for name in "bd":
            await register_job(store, dependent(name, depends("y")))

    await crash_at_each_step(store, begin, lambda broken: remove_job(broken, "b", 0, how), mend)


async def test_a_rerun_that_crashes_anywhere_can_be_asked_for_again(store: Store) -> None:
    for step in count():
        await store.client.flushall()
        await make(store, {"a": "", "b": "a", "c": "a", "d": "b c"})
        flow = Flow(store)
        await flow.begin()
        await flow.play()
        wire, ran = Wire(left=step), flow.ran
        assert len(ran) == 4
        [first] = [execution for execution in ran if execution.startswith("a@")]
        try:
            await rerun(over(store, wire), first, flow.clock.now_ms(), downstream=True)
        except Cut:
            # What waits anew is never above what does not: it would not be heard of there.
            _, runs = await read_run(store, "a", int(first.removeprefix("a@")))
            waits = {run.job_id for run in runs if run.state is RunState.WAITING_FOR_UPSTREAM}
            assert not waits & {"b", "c"} or "d" in waits, step
            await rerun(store, first, flow.clock.now_ms(), downstream=True)
        await flow.play()
        assert flow.ran == dict.fromkeys(ran, 2), step
        if not wire.was_cut:
            return


async def interleave_at_each_step(
    store: Store,
    begin: Callable[[], Awaitable[None]],
    act: Callable[[Store], Awaitable[object]],
    meanwhile: Callable[[], Awaitable[object]],
) -> None:
    """Have `meanwhile` happen after each command of `act` in turn."""
    for step in count():
        await store.client.flushall()
        await begin()
        wire = Wire(left=step, stalls=True)
        acting = asyncio.ensure_future(act(over(store, wire)))
        stalled = asyncio.create_task(wire.has_stalled.wait())
        await asyncio.wait([acting, stalled], return_when=asyncio.FIRST_COMPLETED)
        await meanwhile()
        wire.goes_on.set()
        with suppress(Conflict):
            await acting
        assert await is_exact(store), step
        if not stalled.done():
            stalled.cancel()
            return


async def test_two_edits_that_meet_anywhere_leave_all_of_one_mind(store: Store) -> None:
    async def begin() -> None:
        await diamond(store)
        await register_job(store, d_on("b c"))

    async def edit(by: Store, to: str) -> None:
        await edit_job(by, await get_job(by, "d"), d_on(to), 0)

    await interleave_at_each_step(
        store, begin, lambda by: edit(by, "c x"), lambda: edit(store, "b y")
    )


async def test_two_registrations_that_meet_anywhere_leave_all_of_one_mind(store: Store) -> None:
    await interleave_at_each_step(
        store,
        lambda: diamond(store),
        lambda by: register_job(by, d_on("b c")),
        lambda: register_job(store, d_on("c x")),
    )
    assert len(await own_edges(store)) == 4


async def test_edges_of_a_registration_that_never_came_go_with_the_next_one(store: Store) -> None:
    await diamond(store)
    wire = Wire(left=6)
    with pytest.raises(Cut):
        await register_job(over(store, wire), d_on("b c"))
    assert await noted_edges(store) > await own_edges(store)
    assert await register_job(store, d_on("x"))
    assert await is_exact(store)


async def test_a_fan_in_of_a_thousand_jobs_is_registered_and_edited(store: Store) -> None:
    names = [f"u{n}" for n in range(MOST_UPSTREAMS)]
    await make(store, dict.fromkeys(names, ""))
    made = dependent("d", depends(" ".join(names), match=Match.LATEST))
    assert await register_job(store, made)
    fewer = dependent("d", depends(" ".join(names[1:]), match=Match.LATEST))
    await edit_job(store, await get_job(store, "d"), fewer, 0)
    assert len(await noted_edges(store)) == MOST_UPSTREAMS - 1


async def test_a_circle_through_an_edit_in_flight_is_refused(store: Store) -> None:
    """Until the edit is written, what stands counts as well as what is to come."""
    await diamond(store)
    await register_job(store, d_on("b"))
    stored = await get_job(store, "d")
    wire = Wire(left=4, stalls=True)
    editing = edit_job(over(store, wire), stored, d_on("x"), 0)
    task = asyncio.create_task(editing)
    await wire.has_stalled.wait()
    with pytest.raises(Cycle):
        await edit_job(store, await get_job(store, "b"), dependent("b", depends("d")), 0)
    wire.goes_on.set()
    await task
    assert await own_edges(store) == {("a", "b"), ("a", "c"), ("x", "d")}
    assert await create_jobs(store, [dependent("z", depends("a"))]) == [True]
