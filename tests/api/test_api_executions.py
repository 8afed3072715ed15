"""Executions over HTTP: claim, complete, and what a job's history shows of them."""

from __future__ import annotations

import asyncio
from typing import Any

import calling
import httpx
from calling import AT_ONCE, CRON, NOW, NOW_TEXT, claim, create

from engine import codec
from engine.clock import ManualClock
from engine.store import Store

client = calling.client
clock = calling.clock

EXECUTION = f"mail@{NOW}"
COMPLETE = f"/internal/executions/{EXECUTION}/complete"


async def history(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await client.get("/v1/jobs/mail/executions")
    assert answer.status_code == 200
    executions: list[dict[str, Any]] = answer.json()
    return executions


async def test_a_claim_hands_over_all_that_a_worker_needs(client: httpx.AsyncClient) -> None:
    await create(client, AT_ONCE)
    claimed = await claim(client)
    assert claimed.pop("lease")
    assert claimed == {
        "execution_id": EXECUTION,
        "job_id": "mail",
        "scheduled_for": NOW_TEXT,
        "attempt": 1,
        "deliveries": 1,
        "target": {"type": "worker"},
        "payload": {"to": "me"},
        "upstream": {},
        "lease_ms": 10_000,
    }


async def test_nothing_to_claim_is_204_and_leaves_nothing_behind(
    client: httpx.AsyncClient, store: Store
) -> None:
    before = await store.client.keys()
    answer = await client.post("/internal/executions/claim", json={"worker": "w1"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert await store.client.keys() == before


async def test_a_claim_takes_from_its_own_queue_only(client: httpx.AsyncClient) -> None:
    await create(client, {**AT_ONCE, "queue": "slow"})
    body = {"worker": "w1", "queue": "fast"}
    assert (await client.post("/internal/executions/claim", json=body)).status_code == 204
    body = {"worker": "w1", "queue": "slow"}
    assert (await client.post("/internal/executions/claim", json=body)).status_code == 200


async def test_claims_at_once_share_the_work_and_hand_over_nothing_twice(
    client: httpx.AsyncClient,
) -> None:
    for n in range(10):
        await create(client, {**AT_ONCE, "job_id": f"mail-{n}"})
    claims = await asyncio.gather(*(claim(client, f"w{n}") for n in range(10)))
    assert sorted(claimed["job_id"] for claimed in claims) == [f"mail-{n}" for n in range(10)]


async def test_an_execution_is_shown_from_waiting_to_succeeded(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, AT_ONCE)
    waiting = {
        "execution_id": EXECUTION,
        "job_id": "mail",
        "scheduled_for": NOW_TEXT,
        "status": "waiting",
        "attempt_count": 0,
        "attempts": [],
    }
    assert await history(client) == [waiting]
    clock.advance(250)
    lease = (await claim(client))["lease"]
    running = {**waiting, "status": "running", "attempt_count": 1, "worker": "w1"}
    assert await history(client) == [running]
    clock.advance(1_000)
    answer = await client.post(COMPLETE, json={"status": "succeeded", "lease": lease})
    assert answer.status_code == 200
    assert answer.json() == {"execution_id": EXECUTION, "status": "succeeded", "already": False}
    assert await history(client) == [
        {
            **waiting,
            "status": "succeeded",
            "attempt_count": 1,
            "attempts": [
                {
                    "attempt": 1,
                    "outcome": "succeeded",
                    "started_at": "2027-01-15T08:00:00.250Z",
                    "ended_at": "2027-01-15T08:00:01.250Z",
                    "duration_ms": 1_000,
                    "lag_ms": 250,
                    "worker": "w1",
                    "status_code": None,
                    "error": None,
                }
            ],
        }
    ]
    assert (await client.get("/v1/jobs/mail")).json()["live_executions"] == 0


async def test_a_failed_attempt_is_retried_by_the_jobs_policy(client: httpx.AsyncClient) -> None:
    retry = {"max_attempts": 2, "base_ms": 5_000, "jitter": "none"}
    await create(client, {**AT_ONCE, "retry": retry})
    outcome = {
        "status": "failed",
        "lease": (await claim(client))["lease"],
        "error": "no such mailbox",
        "status_code": 502,
        "duration_ms": 7,
    }
    answer = await client.post(COMPLETE, json=outcome)
    retry_at = "2027-01-15T08:00:05.000Z"
    assert answer.json() == {
        "execution_id": EXECUTION,
        "status": "retrying",
        "already": False,
        "retry_at": retry_at,
    }
    [execution] = await history(client)
    assert (execution["status"], execution["retry_at"]) == ("retrying", retry_at)
    assert execution["attempt_count"] == 1
    [attempt] = execution["attempts"]
    shown = {name: attempt[name] for name in ("outcome", "error", "status_code", "duration_ms")}
    assert shown == {
        "outcome": "failed",
        "error": "no such mailbox",
        "status_code": 502,
        "duration_ms": 7,
    }


async def test_the_last_attempt_that_fails_is_dead(client: httpx.AsyncClient) -> None:
    await create(client, {**AT_ONCE, "retry": {"max_attempts": 1}})
    outcome = {"status": "failed", "lease": (await claim(client))["lease"]}
    answer = await client.post(COMPLETE, json=outcome)
    assert answer.json() == {"execution_id": EXECUTION, "status": "dead", "already": False}
    [execution] = await history(client)
    assert (execution["status"], execution["attempt_count"]) == ("dead", 1)


async def test_a_long_error_is_cut(client: httpx.AsyncClient) -> None:
    await create(client, AT_ONCE)
    lease = (await claim(client))["lease"]
    body = {"status": "failed", "lease": lease, "error": "é" * 100_000}
    assert (await client.post(COMPLETE, json=body)).status_code == 200
    [execution] = await history(client)
    assert execution["attempts"][0]["error"] == "é" * codec.MAX_ERROR_CHARS


async def test_executions_are_listed_newest_first_and_no_more_than_asked(
    client: httpx.AsyncClient,
) -> None:
    await create(client, CRON)
    for _ in range(3):
        await client.post("/v1/jobs/report/run")
    found = (await client.get("/v1/jobs/report/executions")).json()
    ids = [execution["execution_id"] for execution in found]
    assert ids == [f"report@{NOW + n}" for n in (2, 1, 0)]
    assert (await client.get("/v1/jobs/report/executions?limit=2")).json() == found[:2]
