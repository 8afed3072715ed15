"""Jobs over HTTP: what each route answers, and what it leaves in the store."""

from __future__ import annotations

import asyncio
from typing import Any

import calling
import httpx
import pytest
from calling import (
    AT_ONCE,
    CRON,
    MINUTE,
    NOW,
    NOW_TEXT,
    Read,
    create,
    pointers,
    refused,
    version_of,
)

from engine.clock import ManualClock
from engine.store import Store
from engine.store.jobs import get_job

client = calling.client
clock = calling.clock
keyspace = calling.keyspace


async def test_a_created_job_is_answered_as_it_will_be_read(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/jobs", json=CRON)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/jobs/report"
    assert answer.json() == {
        "job_id": "report",
        "version": 1,
        "state": "active",
        "schedule_expr": "0 9 * * *",
        "dialect": "vixie",
        "timezone": "Asia/Tokyo",
        "dst_gap": "run_after",
        "dst_overlap": "first",
        "start_at": None,
        "end_at": None,
        "window_ms": 0,
        "calendars": [],
        "roll": "skip",
        "target": {
            "type": "http",
            "url": "https://example.com/hook?key=s3cret",
            "headers": {},
            "timeout_ms": 30_000,
            "follow_redirects": 0,
            "respond_async": False,
            "heartbeat_ms": 60_000,
            "signing": None,
            "template": False,
        },
        "payload": None,
        "queue": "http",
        "retry": {
            "max_attempts": 3,
            "backoff": "exponential",
            "base_ms": 1_000,
            "max_ms": 3_600_000,
            "waits_ms": [],
            "jitter": "equal",
            "max_elapsed_ms": None,
            "deadline_ms": None,
            "on": None,
        },
        "misfire": {"policy": "fire_once", "grace_ms": 60_000, "max_catch_up": 100},
        "priority": "normal",
        "group": None,
        "tags": [],
        "overlap": "skip",
        "concurrency": 1,
        "max_runs": None,
        "expires_after_ms": None,
        "pause_after_failures": None,
        "delete_after_completion": False,
        "depends_on": [],
        "join": "all",
        "match": None,
        "gate": False,
        "gate_deadline_ms": None,
        "created_at": NOW_TEXT,
        "next_run_at": "2027-01-16T00:00:00.000Z",
        "runs_left": None,
        "failures": 0,
        "queued": [],
        "live_executions": 0,
        "pause_note": None,
        "resume_note": None,
        "description": "At 09:00",
        "warnings": [],
    }
    shown = await client.get("/v1/jobs/report")
    assert shown.json() == answer.json()
    assert shown.headers["etag"] == answer.headers["etag"]
    assert version_of(shown) == 1


async def test_every_field_that_is_given_is_kept(client: httpx.AsyncClient) -> None:
    given = {
        "job_id": "a.b_c:d-1",
        "schedule_expr": "every 30s",
        "timezone": "UTC",
        "target": {
            "type": "http",
            "url": "http://[2606:4700::1111]:8080/",
            "headers": {"X-Key": "é\tü", "Content-Type": "text/plain"},
            "timeout_ms": 100,
            "follow_redirects": 2,
            "respond_async": True,
            "heartbeat_ms": 5_000,
            "signing": "group",
            "template": True,
        },
        "payload": [1, "two", None],
        "queue": "slow",
        "priority": "low",
        "group": "acme",
        "retry": {
            "max_attempts": 4,
            "backoff": "list",
            "base_ms": 0,
            "max_ms": 9_000,
            "waits_ms": [100, 200],
            "jitter": "none",
            "max_elapsed_ms": 60_000,
            "deadline_ms": 90_000,
            "on": [503, "timeout"],
        },
        "misfire": {"policy": "skip", "grace_ms": 0, "max_catch_up": 7},
        "overlap": "after_success",
        "dialect": "interval",
        "start_at": "2027-02-01T00:00:00.000Z",
        "end_at": "2027-03-01T00:00:00.000Z",
        "window_ms": 5_000,
        "max_runs": 3,
        "expires_after_ms": 60_000,
        "pause_after_failures": 2,
        "delete_after_completion": True,
    }
    await create(client, {**given, "depends_on": []})
    job = (await client.get("/v1/jobs/a.b_c:d-1")).json()
    assert {name: job[name] for name in given} == given
    assert job["runs_left"] == 3


@pytest.mark.parametrize(
    ("expr", "next_run_at"),
    [
        ("@hourly", "2027-01-15T09:00:00.000Z"),
        ("every 30s", "2027-01-15T08:00:30.000Z"),
        ("2027-02-01T09:00:00+01:00", "2027-02-01T08:00:00.000Z"),
    ],
)
async def test_each_kind_of_schedule_has_its_next_time(
    client: httpx.AsyncClient, expr: str, next_run_at: str
) -> None:
    created = await create(client, {"schedule_expr": expr, "target": {"type": "worker"}})
    assert (created["next_run_at"], created["state"]) == (next_run_at, "active")
    assert "execution_id" not in created


@pytest.mark.parametrize("given", [{}, {"schedule_expr": None}])
async def test_a_job_without_a_schedule_runs_at_once(
    client: httpx.AsyncClient, given: dict[str, Any]
) -> None:
    created = await create(client, {**AT_ONCE, **given})
    assert created["execution_id"] == f"mail@{NOW}"
    assert (created["state"], created["next_run_at"]) == ("completed", None)
    assert created["queue"] == "default"
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    assert execution["execution_id"] == created["execution_id"]
    job = (await client.get("/v1/jobs/mail")).json()
    assert job == {name: value for name, value in created.items() if name != "execution_id"}


async def test_a_job_without_an_id_gets_one_of_its_own(client: httpx.AsyncClient) -> None:
    body = {"target": {"type": "worker"}}
    first, second = await create(client, body), await create(client, body)
    assert first["job_id"] != second["job_id"]
    assert (await client.get(f"/v1/jobs/{first['job_id']}")).status_code == 200


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        "[]",
        '""',
        "null",
        "false",
        "18446744073709551615",
        "-9223372036854775808",
        "9007199254740993",
        "0.1",
        '{"b":1,"a":{"":[[],{}]}}',
        '"12345678901234567890123 \U0001f600 é \\u0000 \\""',
        "[" * 254 + "]" * 254,
    ],
)
async def test_a_payload_is_kept_exactly(
    client: httpx.AsyncClient, store: Store, payload: str
) -> None:
    body = f'{{"job_id": "exact", "target": {{"type": "worker"}}, "payload": {payload}}}'
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = await client.post("/v1/jobs", content=body.encode(), headers=headers)
    assert answer.status_code == 201
    sent = f'"payload":{payload},'
    assert sent in answer.text
    assert sent in (await client.get("/v1/jobs/exact")).text
    assert (await get_job(store, "exact")).job.payload.decode() == payload


async def test_an_id_that_exists_is_refused_and_left_as_it_is(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await create(client, CRON)
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={**AT_ONCE, "job_id": "report"})
    problem = refused(answer, 409, "job_exists")
    assert problem["errors"][0]["pointer"] == "/job_id"
    assert await keyspace() == before


async def test_of_two_that_create_the_same_id_at_once_one_succeeds(
    client: httpx.AsyncClient,
) -> None:
    answers = await asyncio.gather(*(client.post("/v1/jobs", json=CRON) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 7]


async def test_pages_follow_each_other_in_order_of_ids(client: httpx.AsyncClient) -> None:
    ids = ["a-1", "a-2", "a-3", "b-1", "b-2"]
    for job_id in reversed(ids):
        await create(client, {**CRON, "job_id": job_id})
    seen: list[list[str]] = []
    after = ""
    while True:
        answer = await client.get("/v1/jobs", params={"limit": 2, "after": after})
        page = answer.json()
        seen.append([job["job_id"] for job in page["jobs"]])
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == [["a-1", "a-2"], ["a-3", "b-1"], ["b-2"]]
    some = (await client.get("/v1/jobs?prefix=a-&after=a-1")).json()
    assert [job["job_id"] for job in some["jobs"]] == ["a-2", "a-3"]
    shown = (await client.get("/v1/jobs/a-2")).json()
    assert shown == {**some["jobs"][0], "description": "At 09:00", "warnings": []}


async def test_an_id_that_no_job_can_have_reaches_no_key(client: httpx.AsyncClient) -> None:
    problem = refused(await client.post("/v1/jobs/a%0D%0Ab/run"), 404, "not_found")
    assert problem["detail"] == "there is no job of this id, nor can there be"


async def test_a_deleted_job_is_gone_with_all_that_it_had(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await create(client, CRON)
    answer = await client.delete("/v1/jobs/report")
    assert (answer.status_code, answer.content) == (204, b"")
    assert all(not key.startswith(("job:", "due:")) for shard in await keyspace() for key in shard)
    refused(await client.delete("/v1/jobs/report"), 404, "not_found")


async def test_a_run_by_hand_starts_an_execution_and_moves_no_schedule(
    client: httpx.AsyncClient,
) -> None:
    created = await create(client, CRON)
    answer = await client.post("/v1/jobs/report/run")
    assert (answer.status_code, answer.json()) == (202, {"execution_id": f"report@{NOW}"})
    again = await client.post("/v1/jobs/report/run", json={})
    assert again.json() == {"execution_id": f"report@{NOW + 1}"}
    job = (await client.get("/v1/jobs/report")).json()
    assert job == {**created, "live_executions": 2}


async def test_a_paused_job_has_no_next_time_and_a_resumed_one_has(
    client: httpx.AsyncClient,
) -> None:
    created = await create(client, CRON)
    paused = await client.post("/v1/jobs/report/pause", json={"note": "moving house"})
    assert paused.status_code == 200
    note = {"by": "api", "at": NOW_TEXT, "note": "moving house"}
    changed = {"state": "paused", "next_run_at": None, "pause_note": note}
    assert paused.json() == {**created, **changed}
    refused(await client.post("/v1/jobs/report/pause"), 409, "wrong_state")
    resumed = await client.post("/v1/jobs/report/resume", json={"note": "moved in"})
    catch_up: dict[str, Any] = {"run": [], "skipped": None}
    changed = {"catch_up": catch_up, "resume_note": {**note, "note": "moved in"}}
    assert (resumed.status_code, resumed.json()) == (200, {**created, **changed})
    refused(await client.post("/v1/jobs/report/resume"), 409, "wrong_state")


@pytest.mark.parametrize(
    ("body", "run", "skipped"),
    [
        (None, ["08:03"], ("08:01", "08:02", 2)),
        ({"misfire": "fire_once"}, ["08:03"], ("08:01", "08:02", 2)),
        ({"misfire": "fire_all"}, ["08:01", "08:02", "08:03"], None),
        ({"misfire": "skip"}, [], ("08:01", "08:03", 3)),
    ],
)
async def test_resuming_says_and_does_what_becomes_of_the_missed_times(
    client: httpx.AsyncClient,
    clock: ManualClock,
    keyspace: Read,
    body: dict[str, Any] | None,
    run: list[str],
    skipped: tuple[str, str, int] | None,
) -> None:
    await create(client, {**CRON, "schedule_expr": "* * * * *"})
    await client.post("/v1/jobs/report/pause")
    clock.advance(3 * MINUTE + 1)
    before = await keyspace()
    preview = await client.post("/v1/jobs/report/resume", json={**(body or {}), "dry_run": True})
    assert preview.json()["state"] == "paused"
    assert await keyspace() == before
    resumed = (await client.post("/v1/jobs/report/resume", json=body)).json()
    assert (resumed["state"], resumed["next_run_at"]) == ("active", "2027-01-15T08:04:00.000Z")
    assert resumed["catch_up"] == preview.json()["catch_up"]
    assert [at[11:16] for at in resumed["catch_up"]["run"]] == run
    found = resumed["catch_up"]["skipped"]
    if skipped is None:
        assert found is None
    else:
        ends = (found["scheduled_for"][11:16], found["last_scheduled_for"][11:16])
        assert (*ends, found["count"]) == skipped
    assert resumed["live_executions"] + len(resumed["queued"]) == len(run)


@pytest.mark.parametrize("job_id", ["nobody", "no%20body", "a@1", "%7Bx%7D", "x" * 129])
async def test_a_job_that_is_not_there_is_not_found_by_any_route(
    client: httpx.AsyncClient, keyspace: Read, job_id: str
) -> None:
    before = await keyspace()
    for method, path in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/run"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/executions"),
        ("GET", "/upcoming"),
        ("GET", "/explain?at=2027-01-15T08:00:00Z"),
    ]:
        refused(await client.request(method, f"/v1/jobs/{job_id}{path}"), 404, "not_found")
    assert await keyspace() == before


async def test_a_job_may_begin_paused_and_has_no_moment_in_which_it_fires(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    created = await create(client, {**CRON, "paused": True})
    assert (created["state"], created["next_run_at"]) == ("paused", None)
    note = {"by": "api", "at": NOW_TEXT, "note": "registered paused"}
    shown = (await client.get("/v1/jobs/report")).json()
    assert (shown["state"], shown["pause_note"]) == ("paused", note)
    resumed = (await client.post("/v1/jobs/report/resume")).json()
    assert (resumed["state"], resumed["next_run_at"]) == ("active", "2027-01-16T00:00:00.000Z")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/mail"])
async def test_what_runs_at_once_cannot_begin_paused(
    client: httpx.AsyncClient, keyspace: Read, path: str
) -> None:
    before = await keyspace()
    method = "POST" if path == "/v1/jobs" else "PUT"
    answer = await client.request(method, path, json={**AT_ONCE, "paused": True})
    assert pointers(refused(answer, 400, "bad_input")) == ["/paused"]
    assert await keyspace() == before


async def test_only_a_job_that_is_new_begins_paused(client: httpx.AsyncClient) -> None:
    await create(client, CRON)
    body = {**CRON, "payload": 1, "paused": True}
    assert (await client.put("/v1/jobs/report", json=body)).json()["state"] == "active"
    answer = await client.patch("/v1/jobs/report", json={"paused": True})
    assert pointers(refused(answer, 400, "bad_input")) == ["/paused"]
    new = await client.put("/v1/jobs/other", json={**body, "job_id": "other"})
    assert (new.status_code, new.json()["state"]) == (201, "paused")


async def test_a_job_that_waits_for_others_may_begin_paused(client: httpx.AsyncClient) -> None:
    await create(client, CRON)
    below = {**AT_ONCE, "depends_on": ["report"], "paused": True}
    assert (await create(client, below))["state"] == "paused"
