"""resume_job: back into the index; what was held back runs one after the other, or is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from invariants import changes, read_shard
from seeding import (
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    fire,
    registration,
    result,
    seed,
    take,
)

from engine.errors import NotFound, WrongState
from engine.execution import Outcome
from engine.keys import Shard
from engine.model import JobState, Overlap, Rules
from engine.plan import CatchUp, Every, Misfire, MisfirePolicy, Once, Plan, Skipped
from engine.store import Store
from engine.store.changes import pause_job, preview_resume, resume_job
from engine.store.due import Fired
from engine.store.executions import complete_executions
from engine.store.jobs import get_job, run_job

MEMBER = f"{EVERY_MINUTE.id}|job-0"
BACK_AT = NOW + 2 * MINUTE + 7
"""When a job is resumed that was paused before NOW: three times have passed."""

POLICIES: list[MisfirePolicy] = ["skip", "fire_once", "fire_all"]


def at(minute: int) -> int:
    return NOW + minute * MINUTE


def skipped(first: int, last: int) -> Skipped:
    return Skipped("late", at(first), at(last), last - first + 1, True)


async def pause(
    store: Store,
    plan: Plan = EVERY_MINUTE,
    overlap: Overlap = Overlap.SKIP,
    rules: Rules | None = None,
) -> Shard:
    """Leave job-0 paused before NOW."""
    shard = await seed(store, registration("job-0", plan, overlap=overlap, rules=rules))
    await pause_job(store, "job-0", NOW - 5)
    return shard


async def run_in_turn(store: Store, shard: Shard, now: int) -> list[int]:
    """Run what is live of job-0, and what that starts, to its end; return the nominal times."""
    nominal: list[int] = []
    await fire(store, shard, now)
    while found := await take(store):
        [delivery] = found
        nominal.append(delivery.nominal_at)
        await complete_executions(store, [result(delivery)], now)
        await fire(store, shard, now)
    return nominal


def dump(note: Mapping[str, object]) -> str:
    return json.dumps(note, separators=(",", ":"))


async def choose(store: Store, shard: Shard, paused_at: int) -> None:
    """Resume as a caller does that read `paused_at` a while ago."""
    keys = [shard.job("job-0"), shard.buckets, shard.runs("job-0"), shard.ledger]
    args: list[str | int] = ["job-0", NOW, "{}", paused_at, NOW + MINUTE, "", ""]
    await store.scripts.run("resume_job", keys, [*args, shard.due_prefix, 50, 2_000])


@pytest.mark.parametrize("policy", [None, *POLICIES])
async def test_a_job_resumed_in_time_goes_on_as_if_nothing_had_been(
    any_store: Store, policy: MisfirePolicy | None
) -> None:
    shard = await pause(any_store)
    before = await read_shard(any_store, shard)
    note = {"by": "me", "at": NOW - 1, "note": "back"}
    done = await resume_job(any_store, "job-0", NOW - 1, policy, by="me", note="back")
    assert done == CatchUp([], None, NOW)
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"state": "active", "pause_note": None, "resume_note": dump(note)},
        f"due:{BUCKET}": {MEMBER: NOW},
        "buckets": {BUCKET: float(BUCKET)},
        "ledger": [["resumed", "job-0", note]],
    }


async def test_what_is_skipped_is_recorded(any_store: Store) -> None:
    shard = await pause(any_store)
    before = await read_shard(any_store, shard)
    done = await resume_job(any_store, "job-0", BACK_AT, "skip")
    assert done == CatchUp([], skipped(0, 2), at(3))
    changed = changes(before, await read_shard(any_store, shard))
    record = [NOW, "skipped", at(2), 3, 1, "paused"]
    assert changed["runs:job-0"] == [record]
    note = {"by": "api", "at": BACK_AT, "note": ""}
    assert changed["ledger"] == [["resumed", "job-0", note], ["skipped", "job-0", record]]
    assert changed["job:job-0"] == {
        "state": "active",
        "next_run_at": str(at(3)),
        "pause_note": None,
        "resume_note": dump(note),
    }


async def test_the_latest_time_runs_at_once(any_store: Store) -> None:
    shard = await pause(any_store)
    done = await resume_job(any_store, "job-0", BACK_AT, "fire_once")
    assert done == CatchUp([at(2)], skipped(0, 1), at(3))
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert (job[f"x:{at(2)}"], job["live"]) == (f"due:1:{BACK_AT}", "1")
    assert "rules" not in job
    assert await run_in_turn(any_store, shard, BACK_AT) == [at(2)]


async def test_all_times_run_one_after_the_other(any_store: Store) -> None:
    shard = await pause(any_store)
    done = await resume_job(any_store, "job-0", BACK_AT, "fire_all")
    assert done == CatchUp([at(0), at(1), at(2)], None, at(3))
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert (job["queued"], job["live"]) == (f"{at(1)} {at(2)}", "1")
    assert await run_in_turn(any_store, shard, BACK_AT) == [at(0), at(1), at(2)]
    assert "runs:job-0" in await read_shard(any_store, shard)
    assert await fire(any_store, shard, at(3)) == Fired(fired=1)


async def test_all_means_the_latest_that_the_plan_makes_up_for(any_store: Store) -> None:
    plan = Plan.of(Every(MINUTE), Misfire(max_catch_up=2))
    shard = await pause(any_store, plan)
    await resume_job(any_store, "job-0", BACK_AT, "fire_all")
    assert (await read_shard(any_store, shard))["runs:job-0"] == [
        [NOW, "skipped", NOW, 1, 1, "paused"]
    ]
    assert await run_in_turn(any_store, shard, BACK_AT) == [at(1), at(2)]


@pytest.mark.parametrize(("policy", "runs"), [("skip", 0), ("fire_once", 1), ("fire_all", 3)])
async def test_without_a_choice_the_plan_decides(
    any_store: Store, policy: MisfirePolicy, runs: int
) -> None:
    shard = await pause(any_store, Plan.of(Every(MINUTE), Misfire(policy)))
    await resume_job(any_store, "job-0", BACK_AT)
    assert len(await run_in_turn(any_store, shard, BACK_AT)) == runs


async def test_what_runs_waits_for_what_is_live(any_store: Store) -> None:
    shard = await pause(any_store)
    await run_job(any_store, "job-0", NOW - 3)
    await resume_job(any_store, "job-0", BACK_AT, "fire_all")
    job = (await read_shard(any_store, shard))["job:job-0"]
    assert (job["queued"], job["live"]) == (f"{at(0)} {at(1)} {at(2)}", "1")
    assert await run_in_turn(any_store, shard, BACK_AT) == [NOW - 3, at(0), at(1), at(2)]


async def test_what_runs_comes_behind_what_waits_already(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.AFTER_SUCCESS))
    await fire(any_store, shard)
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first, Outcome.DEAD)], NOW)
    await fire(any_store, shard, at(1))
    await pause_job(any_store, "job-0", at(1))
    await resume_job(any_store, "job-0", at(2), "fire_once")
    stored = await get_job(any_store, "job-0")
    assert (stored.job.queued, stored.live) == ((at(1), at(2)), [])


async def test_what_runs_is_taken_from_the_runs_that_are_left(any_store: Store) -> None:
    shard = await pause(any_store, rules=Rules(max_runs=5))
    await resume_job(any_store, "job-0", BACK_AT, "fire_all")
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.runs_left, stored.state) == (2, JobState.ACTIVE)
    assert len(await run_in_turn(any_store, shard, BACK_AT)) == 3


async def test_runs_that_are_spent_on_what_was_missed_complete_the_job(any_store: Store) -> None:
    shard = await pause(any_store, rules=Rules(max_runs=2))
    done = await resume_job(any_store, "job-0", BACK_AT, "fire_all")
    assert done == CatchUp([at(1), at(2)], skipped(0, 0), None)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.runs_left, stored.state) == (0, JobState.COMPLETED)
    assert await run_in_turn(any_store, shard, BACK_AT) == [at(1), at(2)]


async def test_runs_that_are_not_spent_stay(any_store: Store) -> None:
    await pause(any_store, rules=Rules(max_runs=2))
    await resume_job(any_store, "job-0", BACK_AT, "skip")
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.runs_left, stored.next_run_at) == (2, at(3))


@pytest.mark.parametrize(("policy", "runs"), [("skip", []), ("fire_once", [NOW])])
async def test_a_one_off_past_its_time_is_completed(
    any_store: Store, policy: MisfirePolicy, runs: list[int]
) -> None:
    shard = await pause(any_store, Plan.of(Once(NOW)))
    done = await resume_job(any_store, "job-0", BACK_AT, policy)
    assert (done.run, done.next_at) == (runs, None)
    after = await read_shard(any_store, shard)
    assert after["job:job-0"].items() >= {"state": "completed", "next_run_at": ""}.items()
    record = [NOW, "skipped", NOW, 1, 1, "paused"]
    assert after.get("runs:job-0", []) == ([] if runs else [record])
    assert await run_in_turn(any_store, shard, BACK_AT) == runs


async def test_times_are_nominal_and_the_job_is_due_at_its_place_in_the_window(
    any_store: Store,
) -> None:
    plan = Plan("every", interval_ms=MINUTE, window_ms=MINUTE)
    offset_ms = plan.offset_of("job-0")
    shard = await seed(any_store, registration("job-0", plan, next_run_at=NOW + offset_ms))
    await pause_job(any_store, "job-0", NOW)
    done = await resume_job(any_store, "job-0", at(2) + offset_ms - 1, "fire_once")
    assert (done.run, done.next_at) == ([at(1)], at(2))
    assert (await get_job(any_store, "job-0")).job.next_run_at == at(2) + offset_ms
    assert await run_in_turn(any_store, shard, at(2) + offset_ms - 1) == [at(1)]


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_preview_says_what_resuming_does_and_changes_nothing(
    any_store: Store, policy: MisfirePolicy
) -> None:
    shard = await pause(any_store)
    before = await read_shard(any_store, shard)
    told = await preview_resume(any_store, "job-0", BACK_AT, policy)
    assert await read_shard(any_store, shard) == before
    assert await resume_job(any_store, "job-0", BACK_AT, policy) == told


async def test_an_active_job_cannot_be_resumed(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    for act in (resume_job, preview_resume):
        with pytest.raises(WrongState, match="is active"):
            await act(any_store, "job-0", NOW)
    assert await read_shard(any_store, shard) == before


async def test_a_job_that_is_not_there_cannot_be_resumed(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound, match="job-0"):
        await resume_job(any_store, "job-0", NOW)
    assert await read_shard(any_store, shard) == {}


@pytest.mark.parametrize(
    "paused_at",
    [
        pytest.param(NOW, id="resumed meanwhile"),
        pytest.param(NOW + 1, id="paused at another time"),
    ],
)
async def test_a_choice_made_on_an_older_reading_is_refused(
    any_store: Store, paused_at: int
) -> None:
    shard = await pause(any_store)
    if paused_at == NOW:
        await resume_job(any_store, "job-0", NOW - 1)
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState):
        await choose(any_store, shard, paused_at)
    assert await read_shard(any_store, shard) == before


async def test_a_job_deleted_after_the_reading_is_not_found(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound):
        await choose(any_store, shard, NOW)
    assert await read_shard(any_store, shard) == {}
