"""Groups: how much there is of each, and what becomes of their jobs when all are changed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from invariants import read_shard
from linking import dependent, depends
from redis.exceptions import OutOfMemoryError
from seeding import MINUTE, NOW, registration, take

from engine.access import Caller, Scope
from engine.depends import Depends
from engine.errors import HasDependents, NotFound, NotSupported
from engine.model import JobState
from engine.registration import Registration
from engine.store import Store, group_changes
from engine.store.changes import pause_job, preview_resume
from engine.store.group_changes import Step, delete_group, pause_group, resume_group
from engine.store.groups import GroupSize, count_left, get_group, list_groups, read_sizes
from engine.store.jobs import create_jobs, get_job
from engine.store.registering import Dependents, edit_job, register_job, remove_job
from engine.store.search import Search, find_ids

LATER = NOW + 3 * MINUTE


async def make(store: Store, *made: Registration) -> None:
    assert all(await create_jobs(store, made))


async def make_group(store: Store, count: int, group: str = "acme") -> list[str]:
    """Return the ids of the jobs, in their order."""
    ids = [f"{group}-{n:03}" for n in range(count)]
    await make(store, *(registration(job_id, group=group) for job_id in ids))
    return ids


async def link(store: Store, job_id: str, on: str, group: str | None = "acme") -> None:
    """Register a job that depends on others."""
    made = dependent(job_id, depends(on), group=group)
    assert await register_job(store, made)


async def states(store: Store) -> dict[str, str]:
    ids, _ = await find_ids(store, Search())
    return {job_id: (await get_job(store, job_id)).job.state.value for job_id in ids}


def counts(step: Step) -> tuple[int, int, int]:
    return step.changed, step.unchanged, step.failed


# What there is


async def test_groups_are_listed_in_order_with_their_jobs_and_bytes(any_store: Store) -> None:
    await make(
        any_store,
        registration("a", group="umbra", payload=b"1"),
        registration("b", group="acme", payload=b"22"),
        registration("c", group="acme", payload=b"333"),
        registration("d"),
    )
    found = [GroupSize("acme", 2, 5), GroupSize("umbra", 1, 1)]
    assert await list_groups(any_store) == (found, None)
    assert await list_groups(any_store, limit=1) == (found[:1], "acme")
    assert await list_groups(any_store, after="acme") == (found[1:], None)
    assert await read_sizes(any_store, ["nobody", "umbra"]) == [
        GroupSize("nobody", 0, 0),
        found[1],
    ]


async def test_a_group_is_there_while_a_job_names_it(any_store: Store) -> None:
    await make(any_store, registration("a", group="acme"), registration("b", group="umbra"))
    await remove_job(any_store, "a", NOW)
    stored = await get_job(any_store, "b")
    other = Registration(replace(stored.job, group="sun"), stored.plan)
    await edit_job(any_store, stored, other, NOW)
    assert [size.name for size in (await list_groups(any_store))[0]] == ["sun"]


async def test_a_caller_of_some_groups_is_shown_those(any_store: Store) -> None:
    await make(any_store, *(registration(name, group=name) for name in "abcd"))

    async def listed(*names: str, **place: Any) -> tuple[list[str], str | None]:
        sizes, after = await list_groups(any_store, names=frozenset(names), **place)
        return [size.name for size in sizes], after

    assert await listed("d", "b", "nobody") == (["b", "d"], None)
    assert await listed("d", "b", "c", limit=1, after="b") == (["c"], "c")
    assert await listed() == ([], None)


async def test_a_group_says_how_its_jobs_stand(any_store: Store) -> None:
    first, *_ = await make_group(any_store, 3)
    await make(any_store, registration("z", group="acme", next_run_at=None))
    await pause_job(any_store, first, NOW)
    size, found = await get_group(any_store, "acme")
    assert (size.jobs, found.is_cut) == (4, False)
    assert found.jobs == {JobState.ACTIVE: 2, JobState.PAUSED: 1, JobState.COMPLETED: 1}


async def test_a_large_group_says_that_not_all_were_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.store.groups.COUNTED", 4)
    await make_group(store, 5)
    size, found = await get_group(store, "acme")
    assert (size.jobs, found.jobs.total(), found.is_cut) == (5, 4, True)


async def test_a_group_without_jobs_is_none(any_store: Store) -> None:
    await make(any_store, registration("a"))
    with pytest.raises(NotFound, match="acme"):
        await get_group(any_store, "acme")
    with pytest.raises(NotFound, match="acme"):
        await pause_group(any_store, "acme", NOW)
    with pytest.raises(NotFound, match="acme"):
        await resume_group(any_store, "acme", NOW)
    with pytest.raises(NotFound, match="acme"):
        await delete_group(any_store, "acme", NOW)


# Pause and resume


async def test_pausing_a_group_pauses_its_active_jobs_with_the_note(any_store: Store) -> None:
    first, *_ = await make_group(any_store, 3)
    await make(any_store, registration("other"), registration("x", group="umbra"))
    await make(any_store, registration("z", group="acme", next_run_at=None))
    await pause_job(any_store, first, NOW, note="mine")
    step = await pause_group(any_store, "acme", NOW, note="a bill", by="ana")
    assert (counts(step), step.after) == ((2, 2, 0), None)
    assert await states(any_store) == {
        "acme-000": "paused",
        "acme-001": "paused",
        "acme-002": "paused",
        "other": "active",
        "x": "active",
        "z": "completed",
    }
    notes = [(await get_job(any_store, f"acme-00{n}")).job.pause_note for n in (0, 1)]
    assert notes[0] is not None
    assert notes[0]["note"] == "mine"
    assert notes[1] == {"by": "ana", "at": NOW, "note": "a bill"}


async def test_steps_of_a_group_come_to_its_end_and_each_job_is_changed_once(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_changes, "BATCH", 2)
    ids = await make_group(any_store, 10)
    seen, after, sums = [], "", Counter[str]()
    while True:
        step = await pause_group(any_store, "acme", NOW, after=after, limit=4)
        sums.update(changed=step.changed, unchanged=step.unchanged)
        seen.append(step.after)
        if step.after is None:
            break
        assert await count_left(any_store, "acme", step.after) == 10 - 4 * len(seen)
        after = step.after
    assert seen == [ids[3], ids[7], None]
    assert sums == {"changed": 10, "unchanged": 0}


async def test_a_step_sent_again_does_what_is_still_to_do(any_store: Store) -> None:
    await make_group(any_store, 3)
    assert counts(await pause_group(any_store, "acme", NOW)) == (3, 0, 0)
    assert counts(await pause_group(any_store, "acme", NOW)) == (0, 3, 0)


async def test_resuming_a_group_catches_up_job_by_job(any_store: Store) -> None:
    await make_group(any_store, 3)
    await pause_group(any_store, "acme", NOW - 1)
    dry = await resume_group(any_store, "acme", LATER, "fire_all", dry_run=True)
    assert (await states(any_store))["acme-000"] == "paused"
    single = await preview_resume(any_store, "acme-000", LATER, "fire_all")
    assert dry.starts == 3 * len(single.run) == 12
    done = await resume_group(any_store, "acme", LATER, "fire_all", note="paid")
    assert (done.starts, done.skipped, counts(done)) == (dry.starts, dry.skipped, (3, 0, 0))
    assert set((await states(any_store)).values()) == {"active"}
    resumed = (await get_job(any_store, "acme-002")).job
    assert resumed.next_run_at == LATER + MINUTE
    assert resumed.resume_note == {"by": "api", "at": LATER, "note": "paid"}


async def test_what_a_resume_skips_is_summed_up(any_store: Store) -> None:
    await make_group(any_store, 2)
    await pause_group(any_store, "acme", NOW - 1)
    done = await resume_group(any_store, "acme", LATER, "skip")
    assert (done.starts, done.skipped, done.skipped_is_exact) == (0, 8, True)


async def test_resuming_leaves_what_is_not_paused(any_store: Store) -> None:
    ids = await make_group(any_store, 3)
    await pause_job(any_store, ids[1], NOW)
    assert counts(await resume_group(any_store, "acme", NOW)) == (1, 2, 0)


# Delete


async def test_deleting_a_group_leaves_nothing_of_it(any_store: Store) -> None:
    await make_group(any_store, 5)
    await make(any_store, registration("other", group="umbra"), registration("z"))
    step = await delete_group(any_store, "acme", NOW)
    assert (counts(step), step.after) == ((5, 0, 0), None)
    assert [*await states(any_store)] == ["other", "z"]
    assert [size.name for size in (await list_groups(any_store))[0]] == ["umbra"]
    assert await take(any_store) == []


async def test_dependents_in_the_group_go_before_what_they_depend_on(any_store: Store) -> None:
    """In whatever order their ids stand."""
    await make(any_store, registration("m", group="acme"))
    await link(any_store, "a", "m")
    await link(any_store, "z", "m a")
    await link(any_store, "c", "z")
    assert counts(await delete_group(any_store, "acme", NOW)) == (4, 0, 0)
    assert await states(any_store) == {}
    for shard in any_store.layout.shards:
        assert not [key for key in await read_shard(any_store, shard) if "dependents" in key]


async def test_a_job_on_which_others_depend_stays_and_is_named(any_store: Store) -> None:
    await make_group(any_store, 3)
    await link(any_store, "other", "acme-001", group=None)
    step = await delete_group(any_store, "acme", NOW)
    assert counts(step) == (2, 0, 1)
    [failure] = step.first_failed
    assert failure.job_id == "acme-001"
    assert isinstance(failure.error, HasDependents)
    assert [*await states(any_store)] == ["acme-001", "other"]


@pytest.mark.parametrize(
    ("dependents", "left"), [(Dependents.CASCADE, []), (Dependents.DETACH, ["other"])]
)
async def test_what_becomes_of_dependents_is_as_for_one_job(
    any_store: Store, dependents: Dependents, left: list[str]
) -> None:
    await make_group(any_store, 2)
    await link(any_store, "other", "acme-001", group="umbra")
    assert counts(await delete_group(any_store, "acme", NOW, dependents)) == (2, 0, 0)
    assert [*await states(any_store)] == left


@pytest.mark.parametrize(
    ("dependents", "left"),
    [
        (Dependents.REFUSE, ["acme-000", "acme-z", "other"]),
        (Dependents.CASCADE, ["acme-000", "acme-z", "other"]),
        (Dependents.DETACH, ["acme-z", "other"]),
    ],
)
async def test_what_jobs_of_others_depend_on_stays_and_they_are_not_named(
    any_store: Store, dependents: Dependents, left: list[str]
) -> None:
    await make_group(any_store, 2)
    await link(any_store, "acme-z", "acme-000")
    await link(any_store, "other", "acme-z", group="umbra")
    caller = Caller("ana", frozenset({Scope.WRITE}), frozenset({"acme"}))
    step = await delete_group(any_store, "acme", NOW, dependents, caller=caller)
    assert [*await states(any_store)] == left
    assert counts(step) == (4 - len(left), 0, len(left) - 1)
    assert "other" not in step.first_failed[0].error.message
    assert (await get_job(any_store, "other")).job.depends is not None


async def test_dependents_that_the_caller_sees_go(any_store: Store) -> None:
    await make_group(any_store, 1)
    await make(any_store, registration("u", group="umbra"))
    await link(any_store, "v", "u acme-000", group="umbra")
    both = Caller("ana", frozenset({Scope.WRITE}), frozenset({"acme", "umbra"}))
    step = await delete_group(any_store, "acme", NOW, Dependents.DETACH, caller=both)
    assert counts(step) == (1, 0, 0)
    kept = (await get_job(any_store, "v")).job.depends
    assert isinstance(kept, Depends)
    assert [up.job_id for up in kept.upstreams] == ["u"]


# What goes wrong


async def test_no_more_than_ten_failures_are_named(any_store: Store) -> None:
    ids = await make_group(any_store, 12)
    await link(any_store, "other", " ".join(ids), group=None)
    step = await delete_group(any_store, "acme", NOW)
    assert counts(step) == (0, 0, 12)
    assert len(step.first_failed) == 10


def test_a_job_that_went_meanwhile_counts_as_nothing() -> None:
    step = Step()
    step.add("a", NotFound("gone"))
    assert counts(step) == (0, 0, 0)
    step.add("b", NotSupported("no"))
    assert counts(step) == (0, 0, 1)


async def test_a_server_without_room_is_said_and_the_step_can_be_sent_again(store: Store) -> None:
    await make_group(store, 3)
    await store.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            await pause_group(store, "acme", NOW)
    finally:
        await store.client.config_set("maxmemory", 0)
    assert counts(await pause_group(store, "acme", NOW)) == (3, 0, 0)
