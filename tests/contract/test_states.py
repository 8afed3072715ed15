"""Every operation against every state of a job: what `ALLOWED_IN` says is what the scripts do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product

import pytest
from invariants import read_shard
from seeding import AT_ONCE, BUCKET, EVERY_MINUTE, NOW, group, lease, registration, seed

from engine.codec import load_head
from engine.errors import NotFound, WrongState
from engine.keys import Shard
from engine.model import ALLOWED_IN, JobState, Operation
from engine.store import Store
from engine.store.changes import pause_job, resume_job
from engine.store.due import fire_due
from engine.store.jobs import delete_job, run_job

Act = Callable[[Store, Shard], Awaitable[object]]


async def _fire(store: Store, shard: Shard) -> None:
    """Fire as a scheduler would that looked before the state changed. Raises WrongState if that is
    stale."""
    token = await lease(store, shard)
    proposed = [group(EVERY_MINUTE, NOW, "job-0")]
    if (await fire_due(store, shard, token, "s1", BUCKET, proposed)).stale:
        raise WrongState("not as it was read")


ACTS: dict[Operation, Act] = {
    Operation.FIRE: _fire,
    Operation.PAUSE: lambda store, _: pause_job(store, "job-0", NOW),
    Operation.RESUME: lambda store, _: resume_job(store, "job-0", NOW),
    Operation.RUN: lambda store, _: run_job(store, "job-0", NOW),
    Operation.DELETE: lambda store, _: delete_job(store, "job-0"),
}

LEADS_TO: dict[Operation, Callable[[JobState], JobState | None]] = {
    Operation.FIRE: lambda _: JobState.ACTIVE,
    Operation.PAUSE: lambda _: JobState.PAUSED,
    Operation.RESUME: lambda _: JobState.ACTIVE,
    Operation.RUN: lambda state: state,
    Operation.DELETE: lambda _: None,
}
"""The state after an operation that is allowed; None means that there is no job any more."""

CASES = list(product(Operation, JobState))
ALLOWED = [case for case in CASES if case[1] in ALLOWED_IN[case[0]]]
REFUSED = [case for case in CASES if case not in ALLOWED]


async def seed_in(store: Store, state: JobState) -> Shard:
    """Create job-0 in `state`; return its shard, for which a lease is granted."""
    if state is JobState.COMPLETED:
        shard = await seed(store, registration("job-0", AT_ONCE, next_run_at=None))
    else:
        shard = await seed(store, registration("job-0"))
    if state is JobState.PAUSED:
        await pause_job(store, "job-0", NOW)
    await lease(store, shard)
    return shard


async def state_of(store: Store, shard: Shard) -> JobState | None:
    head = await store.client.hget(shard.job("job-0"), "head")
    return load_head(head).state if head else None


@pytest.mark.parametrize(("operation", "state"), ALLOWED)
async def test_an_allowed_operation_leads_to_its_state(
    any_store: Store, operation: Operation, state: JobState
) -> None:
    shard = await seed_in(any_store, state)
    assert await state_of(any_store, shard) is state
    before = await read_shard(any_store, shard)
    await ACTS[operation](any_store, shard)
    assert await state_of(any_store, shard) is LEADS_TO[operation](state)
    assert await read_shard(any_store, shard) != before


@pytest.mark.parametrize(("operation", "state"), REFUSED)
async def test_another_operation_is_refused_and_changes_nothing(
    any_store: Store, operation: Operation, state: JobState
) -> None:
    shard = await seed_in(any_store, state)
    before = await read_shard(any_store, shard)
    with pytest.raises(WrongState):
        await ACTS[operation](any_store, shard)
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("operation", [op for op in Operation if op is not Operation.FIRE])
async def test_an_operation_on_no_job_finds_none(any_store: Store, operation: Operation) -> None:
    shard = any_store.layout.shard_of("job-0")
    with pytest.raises(NotFound):
        await ACTS[operation](any_store, shard)
    assert await read_shard(any_store, shard) == {}


def test_every_operation_has_its_states() -> None:
    assert ALLOWED_IN.keys() == ACTS.keys() == LEADS_TO.keys() == set(Operation)
