"""Cancelling over HTTP: an execution wherever it is, and all of a job."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from burying import ended
from calling import AT_ONCE, NOW, NOW_TEXT, Read, create, refused
from seeding import result, take

from engine.codec.positions import BEGINNING
from engine.execution import Outcome, Record
from engine.store import Store, cancelling
from engine.store.cancelling import cancel_executions
from engine.store.executions import Answer, complete_executions, heartbeat_executions
from engine.store.following import wait_for_entries
from engine.store.history import list_executions
from engine.store.ledger import load_event
from engine.store.outcomes import accepted

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

EXECUTION = f"mail@{NOW}"
CANCEL = f"/v1/executions/{EXECUTION}/cancel"
DAILY: dict[str, Any] = {
    "job_id": "mail",
    "schedule_expr": "@daily",
    "target": {"type": "worker"},
    "overlap": "allow",
}


async def execution(client: httpx.AsyncClient) -> dict[str, Any]:
    [found] = (await client.get("/v1/jobs/mail/executions")).json()
    shown: dict[str, Any] = found
    return shown


async def cancel(client: httpx.AsyncClient, note: str = "") -> dict[str, Any]:
    answer = await client.post(CANCEL, json={"note": note} if note else None)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_one_that_waits_is_cancelled_and_says_who_and_why(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, AT_ONCE)
    shown = await cancel(client, "wrong address")
    assert shown["status"] == "cancelled"
    [attempt] = shown["attempts"]
    assert (attempt["outcome"], attempt["error"]) == (
        "cancelled",
        "cancelled by api: wrong address",
    )
    assert (attempt["started_at"], attempt["ended_at"]) == (NOW_TEXT, NOW_TEXT)
    assert await execution(client) == shown
    assert await take(store) == []
    assert (await client.get("/v1/jobs/mail")).json()["live_executions"] == 0


async def test_whoever_runs_it_loses_it(client: httpx.AsyncClient, store: Store) -> None:
    await create(client, AT_ONCE)
    [delivery] = await take(store)
    assert (await execution(client))["status"] == "running"
    assert (await cancel(client))["status"] == "cancelled"
    assert await heartbeat_executions(store, [delivery]) == [False]
    assert await complete_executions(store, [result(delivery)], NOW) == [Answer.STALE]
    assert (await execution(client))["status"] == "cancelled"


async def test_one_that_is_to_be_tried_again_is_not(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, AT_ONCE)
    [delivery] = await take(store)
    await complete_executions(store, [ended(delivery, retry_at=NOW + 1_000)], NOW)
    assert (await execution(client))["status"] == "retrying"
    shown = await cancel(client)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["cancelled", "failed"]
    assert "retry_at" not in shown


async def test_one_that_its_target_runs_is_shown_as_running_and_can_be_cancelled(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, AT_ONCE)
    [delivery] = await take(store)
    promised = accepted(
        delivery, started_at=NOW, duration_ms=5, status_code=202, lapses_at=NOW + 60_000
    )
    assert await complete_executions(store, [promised], NOW) == [Answer.DONE]
    shown = await execution(client)
    assert (shown["status"], shown["worker"], shown["attempt_count"]) == ("running", "target", 1)
    [found] = await list_executions(store, "mail")
    assert found.retry_at is None
    assert (await cancel(client))["status"] == "cancelled"


async def test_the_ledger_says_it_with_its_record(client: httpx.AsyncClient, store: Store) -> None:
    await create(client, AT_ONCE)
    await cancel(client)
    entries = await wait_for_entries(store, (BEGINNING,) * len(store.layout.shards), 100)
    event = load_event(entries[-1].id[0], entries[-1].events[-1])
    assert (event.word, event.subject) == ("cancelled", EXECUTION)
    assert isinstance(event.record, Record)
    assert event.record.outcome is Outcome.CANCELLED


async def test_one_that_has_ended_is_left_as_it_is(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await create(client, AT_ONCE)
    [delivery] = await take(store)
    await complete_executions(store, [result(delivery)], NOW)
    before = await keyspace()
    problem = refused(await client.post(CANCEL), 409, "wrong_state")
    assert "succeeded" in problem["detail"]
    assert await keyspace() == before


async def test_it_is_cancelled_once(client: httpx.AsyncClient) -> None:
    await create(client, AT_ONCE)
    await cancel(client)
    assert "cancelled" in refused(await client.post(CANCEL), 409, "wrong_state")["detail"]


async def test_what_there_is_not_is_told_apart(client: httpx.AsyncClient) -> None:
    refused(await client.post(CANCEL), 404, "not_found")
    refused(await client.post("/v1/executions/mail/cancel"), 404, "not_found")
    refused(await client.post("/v1/jobs/mail/cancel"), 404, "not_found")
    await create(client, AT_ONCE)
    unknown = f"/v1/executions/mail@{NOW + 1}/cancel"
    refused(await client.post(unknown), 409, "wrong_state")


@pytest.mark.parametrize("path", [CANCEL, "/v1/jobs/mail/cancel"])
@pytest.mark.parametrize("body", [{"note": "x" * 501}, {"note": 1}, {"why": "x"}])
async def test_a_wrong_body_is_refused_and_cancels_nothing(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    await create(client, AT_ONCE)
    refused(await client.post(path, json=body), 400, "bad_input")
    assert (await execution(client))["status"] == "waiting"


async def test_a_job_that_goes_when_it_is_done_goes_with_its_last_execution(
    client: httpx.AsyncClient,
) -> None:
    await create(client, {**AT_ONCE, "delete_after_completion": True})
    assert (await cancel(client))["status"] == "cancelled"
    refused(await client.get("/v1/jobs/mail"), 404, "not_found")


async def test_all_of_a_job_is_cancelled_and_its_schedule_goes_on(
    client: httpx.AsyncClient,
) -> None:
    created = await create(client, DAILY)
    for _ in range(3):
        await client.post("/v1/jobs/mail/run")
    answer = await client.post("/v1/jobs/mail/cancel", json={"note": "enough"})
    assert (answer.status_code, answer.json()) == (200, {"cancelled": 3})
    found = (await client.get("/v1/jobs/mail/executions")).json()
    assert [one["status"] for one in found] == ["cancelled"] * 3
    assert {one["attempts"][0]["error"] for one in found} == {"cancelled by api: enough"}
    job = (await client.get("/v1/jobs/mail")).json()
    assert (job["state"], job["next_run_at"]) == ("active", created["next_run_at"])
    assert (await client.post("/v1/jobs/mail/cancel")).json() == {"cancelled": 0}


async def test_more_than_one_script_takes_are_cancelled_all_or_as_named(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "CANCEL_LIMIT", 2)
    await create(client, DAILY)
    for _ in range(9):
        await client.post("/v1/jobs/mail/run")
    live = [NOW + n for n in range(9)]
    assert await cancel_executions(store, "mail", NOW, []) == []
    assert await cancel_executions(store, "mail", NOW, live[:5]) == live[:5]
    assert sorted(await cancel_executions(store, "mail", NOW)) == live[5:]


async def test_a_high_priority_execution_shows_who_runs_it(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, {**AT_ONCE, "priority": "high"})
    assert await take(store, "w7", stream="default:high")
    assert (await execution(client))["worker"] == "w7"
