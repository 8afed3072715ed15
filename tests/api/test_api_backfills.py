"""Backfills over HTTP: what each route answers, and what it leaves in the store."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import CRON, MINUTE, NOW, NOW_TEXT, Read, create, pointers, refused

from engine.backfiller import Backfiller
from engine.clock import ManualClock
from engine.shards import ShardKeeper
from engine.store import Store

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

EVERY_MINUTE = {**CRON, "schedule_expr": "* * * * *", "target": {"type": "worker"}}
RANGE = {"from": "2027-01-15T07:00:00Z", "to": "2027-01-15T08:30:00+01:00"}
"""Half an hour before the job was created: 31 nominal times."""


async def order(client: httpx.AsyncClient, **more: Any) -> httpx.Response:
    return await client.post("/v1/jobs/report/backfills", json={**RANGE, **more})


async def test_an_ordered_backfill_is_answered_as_it_will_be_read(
    client: httpx.AsyncClient,
) -> None:
    await create(client, EVERY_MINUTE)
    answer = await order(client, reprocess="failed", concurrency=5, direction="backwards")
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/jobs/report/backfill"
    assert answer.json() == {
        "job_id": "report",
        "number": 1,
        "state": "running",
        "from": "2027-01-15T07:00:00.000Z",
        "to": "2027-01-15T07:30:00.000Z",
        "reprocess": "failed",
        "concurrency": 5,
        "direction": "backwards",
        "created_at": NOW_TEXT,
        "times": 31,
        "passed": 0,
        "started": 0,
        "live": 0,
        "succeeded": 0,
        "dead": 0,
        "next": "2027-01-15T07:30:00.000Z",
    }
    assert (await client.get("/v1/jobs/report/backfill")).json() == answer.json()


async def test_a_dry_run_tells_what_would_run_and_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await create(client, EVERY_MINUTE)
    before = await keyspace()
    answer = await order(client, dry_run=True)
    assert answer.status_code == 200
    preview = answer.json()
    first = preview.pop("first")
    assert (first[0], first[-1], len(first)) == (
        "2027-01-15T07:00:00.000Z",
        "2027-01-15T07:30:00.000Z",
        31,
    )
    assert preview == {
        "job_id": "report",
        "dry_run": True,
        "from": "2027-01-15T07:00:00.000Z",
        "to": "2027-01-15T07:30:00.000Z",
        "times": 31,
        "run": 31,
        "passed": dict.fromkeys(("live", "held", "succeeded", "dead", "unknown", "closed"), 0),
    }
    assert await keyspace() == before


async def test_a_running_backfill_shows_how_far_it_is(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await create(client, EVERY_MINUTE)
    await order(client, concurrency=3)
    keeper = ShardKeeper(store, clock, "s1")
    await keeper.step()
    await Backfiller(store, clock, keeper).step()
    shown = (await client.get("/v1/jobs/report/backfill")).json()
    assert [shown[name] for name in ("state", "times", "passed", "started", "live")] == [
        "running",
        31,
        3,
        3,
        3,
    ]
    assert shown["next"] == "2027-01-15T07:03:00.000Z"
    executions = (await client.get("/v1/jobs/report/executions")).json()
    assert [execution["scheduled_for"][11:16] for execution in executions] == [
        "07:02",
        "07:01",
        "07:00",
    ]


async def test_a_second_order_is_a_conflict_while_the_first_runs(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await create(client, EVERY_MINUTE)
    await order(client)
    before = await keyspace()
    refused(await order(client), 409, "conflict")
    assert await keyspace() == before


async def test_a_cancelled_backfill_starts_nothing_more(client: httpx.AsyncClient) -> None:
    await create(client, EVERY_MINUTE)
    await order(client)
    answer = await client.delete("/v1/jobs/report/backfill")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelling")
    refused(await client.delete("/v1/jobs/report/backfill"), 409, "wrong_state")


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"from": "yesterday"}, "/from"),
        ({"from": NOW}, "/from"),
        ({"from": "2027-01-15T07:30:01Z"}, "/from"),
        ({"from": "1969-12-31T23:59:59Z"}, "/from"),
        ({"from": "2017-01-01T00:00:00Z"}, "/from"),
        ({"from": "2027-01-15T07:30:00.001Z", "to": "2027-01-15T07:30:59Z"}, "/from"),
        ({"from": "2026-06-01T00:00:00Z"}, "/from"),
        ({"to": "2027-01-15T08:00:00.001Z"}, "/to"),
        ({"reprocess": "some"}, "/reprocess"),
        ({"concurrency": 0}, "/concurrency"),
        ({"concurrency": 101}, "/concurrency"),
        ({"direction": "sideways"}, "/direction"),
        ({"dry_run": 1}, "/dry_run"),
        ({"until": NOW_TEXT}, "/until"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_what_is_wrong_is_named_and_nothing_is_ordered(
    client: httpx.AsyncClient, keyspace: Read, more: dict[str, Any], fault: str, dry_run: bool
) -> None:
    await create(client, EVERY_MINUTE)
    before = await keyspace()
    answer = await order(client, **{"dry_run": dry_run, **more})
    assert pointers(refused(answer, 400, "bad_input")) == [fault]
    assert await keyspace() == before


async def test_a_range_is_required(client: httpx.AsyncClient) -> None:
    await create(client, EVERY_MINUTE)
    answer = await client.post("/v1/jobs/report/backfills", json={})
    assert pointers(refused(answer, 400, "bad_input")) == ["/from", "/to"]


async def test_too_many_times_are_refused_with_their_number(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, {**EVERY_MINUTE, "schedule_expr": "every 30s"})
    clock.advance(MINUTE)
    answer = await order(client, **{"from": "2026-12-01T00:00:00Z"})
    assert "130,501 nominal times" in refused(answer, 400, "bad_input")["detail"]


@pytest.mark.parametrize("job_id", ["nobody", "a@1"])
async def test_a_job_that_is_not_there_is_not_found(client: httpx.AsyncClient, job_id: str) -> None:
    path = f"/v1/jobs/{job_id}/backfill"
    refused(await client.post(f"{path}s", json=RANGE), 404, "not_found")
    refused(await client.post(f"{path}s", json={**RANGE, "dry_run": True}), 404, "not_found")
    refused(await client.get(path), 404, "not_found")
    refused(await client.delete(path), 404, "not_found")


async def test_a_job_without_a_backfill_has_none_to_show_or_cancel(
    client: httpx.AsyncClient,
) -> None:
    await create(client, EVERY_MINUTE)
    refused(await client.get("/v1/jobs/report/backfill"), 404, "not_found")
    refused(await client.delete("/v1/jobs/report/backfill"), 404, "not_found")
