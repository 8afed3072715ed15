"""replace_job: another definition for the same job, its history and what is live of it kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from invariants import changes, read_shard
from linking import depends
from seeding import (
    AT_ONCE,
    BUCKET,
    EVERY_MINUTE,
    MINUTE,
    NOW,
    ONE_OFF,
    fire,
    group,
    lease,
    registration,
    result,
    run_at_exactly,
    seed,
    small,
    take,
)

from engine.codec import load_head
from engine.errors import Conflict, NotFound, WrongState
from engine.execution import Outcome
from engine.keys import Shard
from engine.model import JobState, Overlap, Rules
from engine.plan import Every, Plan
from engine.registration import Registration
from engine.store import Store
from engine.store.changes import pause_job, replace_job, resume_job
from engine.store.dependencies import link_job
from engine.store.due import Fired, fire_due
from engine.store.executions import Answer, complete_executions
from engine.store.jobs import StoredJob, delete_job, get_job

HOURLY = Plan.of(Every(60 * MINUTE))
LATER = NOW + 10 * MINUTE
"""When the hourly job that stands for another schedule first fires."""


def hourly(queue: str = "default", rules: Rules | None = None) -> Registration:
    """Return job-0 on another schedule."""
    made = registration("job-0", HOURLY, next_run_at=LATER, queue=queue, rules=rules)
    return replace(made, job=replace(made.job, schedule_expr="every 1h", anchor_at=LATER))


def same_times(**changed: object) -> Registration:
    """Return job-0 on its old schedule, as a user registers it later."""
    made = registration("job-0", next_run_at=NOW + 30 * MINUTE)
    job = replace(made.job, anchor_at=NOW + 30 * MINUTE)
    return replace(made, job=replace(job, **changed))  # type: ignore[arg-type]


async def edit(store: Store, wanted: Registration, now: int = NOW - 5) -> int:
    return await replace_job(store, await get_job(store, "job-0"), wanted, now)


async def test_with_the_same_times_a_job_keeps_its_place_in_the_index(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    assert await edit(any_store, same_times(payload=b'"new"', created_at=NOW + 9)) == 2
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {"payload": '"new"', "version": "2"},
        "ledger": [["replaced", "job-0"]],
    }


async def test_another_schedule_moves_the_job_in_the_same_step(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    before = await read_shard(any_store, shard)
    await edit(any_store, hourly())
    changed = changes(before, await read_shard(any_store, shard))
    bucket = str(LATER // MINUTE)
    assert changed.keys() == {
        "job:job-0",
        "plans",
        f"due:{BUCKET}",
        f"due:{bucket}",
        "buckets",
        "ledger",
    }
    assert changed["job:job-0"] == {
        "plan": HOURLY.id,
        "next_run_at": str(LATER),
        "definition": f'[{NOW},{LATER - NOW},"every 1h","UTC"]',
        "version": "2",
    }
    assert changed[f"due:{BUCKET}"] == {f"{EVERY_MINUTE.id}|job-0": None}
    assert changed[f"due:{bucket}"] == {f"{HOURLY.id}|job-0": LATER}


async def test_a_proposal_made_under_the_old_plan_is_stale(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    token = await lease(any_store, shard)
    await edit(any_store, hourly(), NOW - 5)
    before = await read_shard(any_store, shard)
    proposed = [group(EVERY_MINUTE, NOW, "job-0")]
    assert await fire_due(any_store, shard, token, "s1", BUCKET, proposed) == Fired(stale=1)
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("is_paused", [False, True])
async def test_overdue_times_of_the_old_schedule_are_recorded(
    any_store: Store, is_paused: bool
) -> None:
    """What a pause holds back is not lost in silence either."""
    shard = await seed(any_store, registration("job-0"))
    if is_paused:
        await pause_job(any_store, "job-0", NOW - 5)
    await edit(any_store, hourly(), NOW + 2 * MINUTE + 7)
    after = await read_shard(any_store, shard)
    record = [NOW, "skipped", NOW + 2 * MINUTE, 3, 1, "edited"]
    assert after["runs:job-0"] == [record]
    assert after["ledger"][-2:] == [["replaced", "job-0"], ["skipped", "job-0", record]]


async def test_overdue_times_stay_due_while_the_schedule_stays(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await edit(any_store, same_times(payload=b"1"), NOW + 7)
    assert "runs:job-0" not in await read_shard(any_store, shard)
    assert await fire(any_store, shard, NOW + 7) == Fired(fired=1)


@pytest.mark.parametrize("wanted", [hourly(), same_times()])
async def test_a_paused_job_stays_paused(any_store: Store, wanted: Registration) -> None:
    shard = await seed(any_store, registration("job-0"))
    await pause_job(any_store, "job-0", NOW - 9, note="quiet")
    await edit(any_store, wanted)
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.pause_note is None) == (JobState.PAUSED, False)
    assert "buckets" not in await read_shard(any_store, shard)
    await resume_job(any_store, "job-0", NOW - 5)
    first_at = LATER if wanted.plan is HOURLY else NOW
    assert await fire(any_store, shard, first_at) == Fired(fired=1)


async def test_a_completed_job_becomes_active_again(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0", ONE_OFF))
    await fire(any_store, shard)
    await edit(any_store, hourly())
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.next_run_at) == (JobState.ACTIVE, LATER)
    assert [live.nominal_at for live in (await get_job(any_store, "job-0")).live] == [NOW]


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_job_whose_new_schedule_has_no_time_is_completed(
    any_store: Store, is_paused: bool
) -> None:
    shard = await seed(any_store, registration("job-0"))
    if is_paused:
        await pause_job(any_store, "job-0", NOW - 5)
    await edit(any_store, registration("job-0", AT_ONCE, next_run_at=None))
    assert (await get_job(any_store, "job-0")).job.state is JobState.COMPLETED
    assert "buckets" not in await read_shard(any_store, shard)


async def test_what_is_live_goes_on_and_its_retry_is_made_with_the_new_definition(
    any_store: Store,
) -> None:
    shard = await seed(any_store, registration("job-0"))
    await fire(any_store, shard)
    [running] = await take(any_store)
    await edit(any_store, same_times(payload=b'"new"'))
    ended = result(running, Outcome.FAILED, NOW + 5)
    assert await complete_executions(any_store, [ended], NOW) == [Answer.DONE]
    await fire(any_store, shard, NOW + 5)
    [again] = await take(any_store)
    assert (again.execution_id, again.attempt, again.payload) == (f"job-0@{NOW}", 2, b'"new"')


async def test_a_job_that_waits_for_room_moves_to_its_new_time(any_store: Store) -> None:
    store = small(any_store, max_ready=1)
    shard = await seed(store, registration("job-0", overlap=Overlap.ALLOW))
    await fire(store, shard)
    assert await fire(store, shard, NOW + MINUTE) == Fired(held=1)
    assert "due:@default" in await read_shard(store, shard)
    await edit(store, hourly(), NOW + MINUTE + 5)
    after = await read_shard(store, shard)
    assert "due:@default" not in after
    assert after["runs:job-0"] == [[NOW + MINUTE, "skipped", NOW + MINUTE, 1, 1, "edited"]]


async def test_a_job_without_live_executions_can_change_its_queue(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await edit(any_store, hourly(queue="other"))
    await fire(any_store, shard, LATER)
    assert "ready:other" in await read_shard(any_store, shard)


# Rules


async def test_rules_that_are_no_longer_asked_for_go(any_store: Store) -> None:
    rules = Rules(max_runs=1, expires_after_ms=5, pause_after_failures=1)
    await seed(any_store, registration("job-0", rules=rules))
    await edit(any_store, same_times())
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.rules, stored.runs_left) == (Rules(), None)
    fields = await any_store.client.hgetall(any_store.layout.shard_of("job-0").job("job-0"))
    assert not load_head(fields[b"head"]).has_rules


async def test_those_that_depend_on_a_job_are_told_after_an_edit_too(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await link_job(any_store, "b", depends("job-0"))
    await edit(any_store, same_times())
    await run_at_exactly(any_store, "job-0", NOW + 1)
    [delivery] = await take(any_store)
    await complete_executions(any_store, [result(delivery)], NOW + 2)
    [(_, told)] = await any_store.client.xrange(shard.outbox)
    assert (told[b"job"], told[b"outcome"]) == (b"job-0", b"succeeded")


@pytest.mark.parametrize(("max_runs", "left"), [(3, 2), (5, 5), (None, None)])
async def test_runs_that_are_spent_stay_spent_unless_another_number_is_asked_for(
    any_store: Store, max_runs: int | None, left: int | None
) -> None:
    shard = await seed(any_store, registration("job-0", rules=Rules(max_runs=3)))
    await fire(any_store, shard)
    await edit(any_store, same_times(rules=Rules(max_runs=max_runs)))
    assert (await get_job(any_store, "job-0")).job.runs_left == left


async def test_a_job_that_has_spent_its_runs_gets_them_all_with_another_schedule(
    any_store: Store,
) -> None:
    shard = await seed(any_store, registration("job-0", rules=Rules(max_runs=1)))
    await fire(any_store, shard)
    await edit(any_store, hourly(rules=Rules(max_runs=1)))
    stored = (await get_job(any_store, "job-0")).job
    assert (stored.state, stored.runs_left) == (JobState.ACTIVE, 1)


async def test_what_waits_is_started_though_the_new_policy_lets_nothing_wait(
    any_store: Store,
) -> None:
    shard = await seed(any_store, registration("job-0", overlap=Overlap.QUEUE_ALL))
    await fire(any_store, shard)
    await fire(any_store, shard, NOW + MINUTE)
    await edit(any_store, same_times(), NOW + MINUTE)
    [first] = await take(any_store)
    await complete_executions(any_store, [result(first)], NOW + MINUTE)
    await fire(any_store, shard, NOW + MINUTE)
    [second] = await take(any_store)
    assert second.nominal_at == NOW + MINUTE


# Refusals


async def _fire(store: Store, shard: Shard) -> None:
    await fire(store, shard)


async def _edit(store: Store, _: Shard) -> None:
    await edit(store, same_times(payload=b"2"))


async def _put_back(store: Store, shard: Shard) -> None:
    """Edit and fire, so that neither number alone is what was read."""
    await _edit(store, shard)
    await _fire(store, shard)


@pytest.mark.parametrize("meanwhile", [_fire, _edit, _put_back])
async def test_an_edit_of_an_older_reading_is_refused(any_store: Store, meanwhile: object) -> None:
    assert callable(meanwhile)
    shard = await seed(any_store, registration("job-0"))
    stored = await get_job(any_store, "job-0")
    await meanwhile(any_store, shard)
    before = await read_shard(any_store, shard)
    with pytest.raises(Conflict, match="read it again"):
        await replace_job(any_store, stored, hourly(), NOW)
    assert await read_shard(any_store, shard) == before


async def test_of_two_edits_of_one_reading_the_first_counts(any_store: Store) -> None:
    await seed(any_store, registration("job-0"))
    stored: Sequence[StoredJob] = [await get_job(any_store, "job-0")] * 2
    assert await replace_job(any_store, stored[0], same_times(payload=b"1"), NOW) == 2
    with pytest.raises(Conflict):
        await replace_job(any_store, stored[1], same_times(payload=b"2"), NOW)
    assert (await get_job(any_store, "job-0")).job.payload == b"1"


async def test_another_queue_is_refused_while_executions_are_live(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await run_at_exactly(any_store, "job-0", NOW - 7)
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState, match="live executions"):
        await edit(any_store, hourly(queue="other"))
    assert await read_shard(any_store, shard) == before


async def test_a_plan_id_that_stands_for_another_plan_is_refused(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    await any_store.client.hset(shard.plans, HOURLY.id, '{"kind":"other"}')
    before = await read_shard(any_store, shard)
    with pytest.raises(Conflict, match=HOURLY.id):
        await edit(any_store, hourly())
    assert await read_shard(any_store, shard) == before


async def test_a_job_that_is_gone_is_not_found(any_store: Store) -> None:
    shard = await seed(any_store, registration("job-0"))
    stored = await get_job(any_store, "job-0")
    await delete_job(any_store, "job-0")
    before = await read_shard(any_store, shard)
    with pytest.raises(NotFound, match="job-0"):
        await replace_job(any_store, stored, hourly(), NOW)
    assert await read_shard(any_store, shard) == before
