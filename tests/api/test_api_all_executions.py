"""Executions over HTTP: those of a job by status and time, those of all jobs, and one by its id."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from burying import bury
from calling import AT_ONCE, MINUTE, NOW, create, refused
from seeding import registration, seed

from engine import codec
from engine.clock import ManualClock
from engine.execution import Outcome, Record, SkipReason, SkipRecord
from engine.store import Store
from engine.store.jobs import delete_job

client = calling.client
clock = calling.clock

JOB: dict[str, Any] = {**AT_ONCE, "schedule_expr": "0 0 1 1 *", "overlap": "allow"}


async def run_at(client: httpx.AsyncClient, clock: ManualClock, count: int) -> list[str]:
    """Run the job `mail` so many times, a second apart; return the executions, newest first."""
    ids = []
    for _ in range(count):
        answer = await client.post("/v1/jobs/mail/run")
        ids.append(answer.json()["execution_id"])
        clock.advance(1_000)
    return ids[::-1]


async def ids_of(client: httpx.AsyncClient, path: str, **query: Any) -> list[str]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [one["execution_id"] for one in answer.json()]


async def complete(client: httpx.AsyncClient) -> str:
    """End the oldest execution that waits; return its id."""
    claimed = await calling.claim(client)
    body = {"status": "succeeded", "lease": claimed["lease"]}
    path = f"/internal/executions/{claimed['execution_id']}/complete"
    assert (await client.post(path, json=body)).status_code == 200
    execution_id: str = claimed["execution_id"]
    return execution_id


@pytest.mark.parametrize("path", ["/v1/jobs/mail/executions", "/v1/executions"])
async def test_status_and_time_filter(
    client: httpx.AsyncClient, clock: ManualClock, path: str
) -> None:
    await create(client, JOB)
    third, second, first = await run_at(client, clock, 3)
    assert await complete(client) == first
    assert await ids_of(client, path) == [third, second, first]
    assert await ids_of(client, path, status="waiting") == [third, second]
    assert await ids_of(client, path, status=["succeeded", "dead"]) == [first]
    assert await ids_of(client, path, status="running") == []
    start, end = "2027-01-15T08:00:01Z", "2027-01-15T08:00:02Z"
    assert await ids_of(client, path, scheduled_after=start) == [third, second]
    assert await ids_of(client, path, scheduled_before=end) == [second, first]
    assert await ids_of(client, path, scheduled_after=start, scheduled_before=end) == [second]


@pytest.mark.parametrize("path", ["/v1/jobs/mail/executions", "/v1/executions"])
async def test_pages_lead_through_all_once_and_keep_the_filter(
    client: httpx.AsyncClient, clock: ManualClock, path: str
) -> None:
    await create(client, JOB)
    ids = await run_at(client, clock, 5)
    await complete(client)
    url: str | None = f"{path}?limit=2&status=waiting&status=running"
    pages = []
    while url:
        answer = await client.get(url)
        pages.append([one["execution_id"] for one in answer.json()])
        url = answer.links["next"]["url"] if "next" in answer.links else None
        assert url is None or url.count("after=") == 1
    assert pages in ([ids[:2], ids[2:4]], [ids[:2], ids[2:4], []])
    assert "next" not in (await client.get(f"{path}?limit=5")).links


async def test_a_page_may_end_among_times_that_are_the_same(
    client: httpx.AsyncClient, store: Store
) -> None:
    await seed(store, registration("mail", next_run_at=NOW + MINUTE))
    runs = store.layout.shard_of("mail").runs("mail")
    for reason in (SkipReason.LATE, SkipReason.PAUSED, SkipReason.OVERLAP):
        record = codec.dump_record(SkipRecord(NOW, NOW, 1, reason))
        await store.client.lpush(runs, record)
    url = "/v1/jobs/mail/executions?limit=1"
    seen = []
    while url:
        answer = await client.get(url)
        seen += [one["reason"] for one in answer.json()]
        url = answer.links["next"]["url"] if "next" in answer.links else ""
    assert seen == ["overlap", "paused", "late"]


async def test_queue_and_group_filter(client: httpx.AsyncClient) -> None:
    await create(client, {**AT_ONCE, "job_id": "a", "queue": "mail"})
    await create(client, {**AT_ONCE, "job_id": "b", "group": "acme"})
    assert await ids_of(client, "/v1/executions", queue="mail") == [f"a@{NOW}"]
    # A queue that has groups is fair: what waits for its share is found in the index.
    assert await ids_of(client, "/v1/executions", group="acme") == [f"b@{NOW}"]
    assert await ids_of(client, "/v1/executions", group="acme", queue="mail") == []


@pytest.mark.parametrize(
    ("path", "query", "parameter"),
    [
        ("/v1/executions", "status=lost", "status"),
        ("/v1/executions", "limit=0", "limit"),
        ("/v1/executions", "limit=1001", "limit"),
        ("/v1/executions", "after=x", "after"),
        ("/v1/executions", f"after={NOW}-2-mail", "after"),
        ("/v1/executions", f"after={NOW}-0-a{{b", "after"),
        ("/v1/executions", "scheduled_after=yesterday", "scheduled_after"),
        ("/v1/executions", "queue=a%20b", "queue"),
        ("/v1/executions", "job=mail", "job"),
        ("/v1/jobs/mail/executions", "after=-1", "after"),
        ("/v1/jobs/mail/executions", "status=dead&status=lost", "status"),
        ("/v1/jobs/mail/executions", "queue=default", "queue"),
    ],
)
async def test_a_wrong_parameter_is_named(
    client: httpx.AsyncClient, path: str, query: str, parameter: str
) -> None:
    await create(client, AT_ONCE)
    problem = refused(await client.get(f"{path}?{query}"), 400, "bad_input")
    assert {fault["parameter"] for fault in problem["errors"]} == {parameter}


async def test_one_is_shown_as_the_list_shows_it(client: httpx.AsyncClient) -> None:
    await create(client, AT_ONCE)
    await complete(client)
    answer = await client.get(f"/v1/executions/mail@{NOW}")
    [listed] = (await client.get("/v1/jobs/mail/executions")).json()
    assert answer.json() == listed
    assert listed["status"] == "succeeded"
    assert len(listed["attempts"]) == 1


async def test_a_dead_one_leads_to_its_letter_even_without_its_job(
    client: httpx.AsyncClient, store: Store
) -> None:
    await bury(store, "mail")
    shown = (await client.get(f"/v1/executions/mail@{NOW}")).json()
    assert (shown["status"], shown["dead_letter"]) == ("dead", f"/v1/dead/mail@{NOW}")
    assert (await client.get(shown["dead_letter"])).status_code == 200
    await delete_job(store, "mail")
    assert (await client.get(f"/v1/executions/mail@{NOW}")).json() == shown


async def test_a_time_that_was_skipped_is_shown_with_its_reason(
    client: httpx.AsyncClient, store: Store
) -> None:
    await seed(store, registration("mail", next_run_at=NOW + MINUTE))
    record = SkipRecord(NOW - 2 * MINUTE, NOW, 3, SkipReason.PAUSED)
    runs = store.layout.shard_of("mail").runs("mail")
    await store.client.lpush(runs, codec.dump_record(record))
    for at in (NOW - 2 * MINUTE, NOW):
        shown = (await client.get(f"/v1/executions/mail@{at}")).json()
        assert (shown["status"], shown["reason"], shown["count"]) == ("skipped", "paused", 3)
    problem = refused(await client.get(f"/v1/executions/mail@{NOW - 1}"), 404, "not_found")
    assert "explain" in problem["detail"]


async def test_a_time_that_was_skipped_and_then_run_is_shown_as_it_ran(
    client: httpx.AsyncClient, store: Store
) -> None:
    await seed(store, registration("mail", next_run_at=NOW + MINUTE))
    ran = Record(NOW, Outcome.SUCCEEDED, 1, 1, "w1", NOW + 5, 40)
    skipped = SkipRecord(NOW, NOW, 1, SkipReason.PAUSED)
    runs = store.layout.shard_of("mail").runs("mail")
    for record in (skipped, ran, skipped):
        await store.client.lpush(runs, codec.dump_record(record))
    shown = (await client.get(f"/v1/executions/mail@{NOW}")).json()
    assert shown["status"] == "succeeded"


@pytest.mark.parametrize("execution_id", ["mail", "mail@x", "@1", f"none@{NOW}", "a%2Fb@1"])
async def test_what_is_no_execution_is_404(client: httpx.AsyncClient, execution_id: str) -> None:
    refused(await client.get(f"/v1/executions/{execution_id}"), 404, "not_found")
