"""A deployment that an older release exported (format 1, in which a job had more fields)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from invariants import check_invariants
from seeding import MINUTE, NOW, fire, lease, take

from engine.backoff import Retry
from engine.codec import load_head
from engine.errors import Unusable
from engine.keys import LAYOUT
from engine.model import JobState, Overlap, Rules
from engine.store import Store
from engine.store.jobs import get_job
from engine.store.transfer import writing
from engine.store.transfer.older import as_written_now

EXPORT = Path(__file__).with_name("format_1.jsonl")
"""Made by the last release of format 1."""


async def lines() -> AsyncIterator[bytes]:
    for line in EXPORT.read_bytes().splitlines(keepends=True):
        yield line


@pytest.fixture
async def moved(store: Store) -> Store:
    """A deployment of which the export was imported."""
    await writing.import_lines(store, lines())
    await check_invariants(store)
    return store


async def test_its_jobs_are_what_they_were(moved: Store) -> None:
    plain = (await get_job(moved, "plain")).job
    assert (plain.group, plain.tags, plain.overlap) == ("blue", ("a", "b"), Overlap.SKIP)
    assert (plain.state, plain.next_run_at) == (JobState.ACTIVE, NOW + MINUTE)
    assert (plain.created_at, plain.anchor_at) == (NOW, NOW)
    patient = (await get_job(moved, "patient")).job
    assert (patient.retry, patient.anchor_at) == (Retry(max_attempts=9), NOW + 5_000)
    ruled = (await get_job(moved, "ruled")).job
    assert (ruled.rules, ruled.runs_left, ruled.overlap) == (Rules(9), 8, Overlap.QUEUE_ALL)
    assert (await get_job(moved, "paused")).job.state is JobState.PAUSED
    assert (await get_job(moved, "bytes")).job.payload == b"\xff\x00{"
    at_once = (await get_job(moved, "now")).job
    assert (at_once.state, at_once.next_run_at) == (JobState.COMPLETED, None)


async def test_what_waited_is_handed_out_and_its_jobs_fire_again(moved: Store) -> None:
    waiting = {delivery.execution_id for delivery in await take(moved)}
    assert waiting > {f"plain@{NOW}", f"patient@{NOW}", f"now@{NOW}"}
    shard = moved.layout.shard_of("fired")
    await lease(moved, shard)
    assert (await fire(moved, shard, NOW + MINUTE)).fired > 0
    assert f"fired@{NOW + MINUTE}" in {delivery.execution_id for delivery in await take(moved)}
    await check_invariants(moved)


async def test_a_job_with_a_backfill_is_looked_at_twice(moved: Store) -> None:
    key = moved.layout.shard_of("job-0").job("job-0")
    assert load_head(await moved.client.hget(key, "head")).has_rules


async def test_records_of_other_kinds_are_left_as_they_are() -> None:
    record = {"kind": "entry", "fields": ["execution_id", "a@1"]}
    assert as_written_now(record) is record


async def test_a_server_of_another_layout_is_refused_with_the_way_out(store: Store) -> None:
    layout = await store.client.get(LAYOUT)
    await store.client.set(LAYOUT, layout.replace(b'"version":2', b'"version":1'))
    with pytest.raises(Unusable, match=r"layout version 1.*deployment export"):
        await Store.open(store.config)
    await store.client.set(LAYOUT, layout)
