"""Schedules over HTTP: the times to come, previews, and why a job did or did not run."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, MINUTE, NOW, Read, claim, create, pointers, refused

from engine.clock import ManualClock

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

BERLIN = {**CRON, "schedule_expr": "30 2 28 3 *", "timezone": "Europe/Berlin"}


async def upcoming(client: httpx.AsyncClient, n: int = 10) -> list[dict[str, Any]]:
    answer = await client.get("/v1/jobs/report/upcoming", params={"n": n})
    assert answer.status_code == 200, answer.text
    times: list[dict[str, Any]] = answer.json()
    return times


async def test_times_to_come_are_shown_on_the_wall_clock_too(client: httpx.AsyncClient) -> None:
    await create(client, BERLIN)
    first, second = await upcoming(client, 2)
    assert first == {
        "scheduled_for": "2027-03-28T01:00:00.000Z",
        "due_at": "2027-03-28T01:00:00.000Z",
        "local_time": "2027-03-28T03:00:00.000",
        "utc_offset": "+02:00",
        "zone_abbreviation": "CEST",
        "dst": "gap: 02:30 does not exist on 2027-03-28; it fires at 03:00 instead",
        "calendar": None,
    }
    assert (second["local_time"], second["dst"]) == ("2028-03-28T02:30:00.000", None)


async def test_a_repeated_time_says_which_of_the_two_it_is(client: httpx.AsyncClient) -> None:
    body = {**BERLIN, "schedule_expr": "30 2 31 10 *", "dst_overlap": "second"}
    await create(client, body)
    [time] = await upcoming(client, 1)
    assert time["scheduled_for"] == "2027-10-31T01:30:00.000Z"
    assert time["dst"] == "overlap: 02:30 comes twice on 2027-10-31; this is the second time"


async def test_the_first_time_to_come_is_the_next_run(client: httpx.AsyncClient) -> None:
    created = await create(client, {**CRON, "window_ms": 3_600_000})
    [time] = await upcoming(client, 1)
    assert time["due_at"] == created["next_run_at"] != time["scheduled_for"]
    assert time["scheduled_for"] == "2027-01-16T00:00:00.000Z"


async def test_no_more_times_come_than_runs_are_left(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "max_runs": 3})
    assert len(await upcoming(client, 1_000)) == 3


async def test_a_paused_job_shows_the_times_after_now_and_a_completed_one_none(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, {**CRON, "schedule_expr": "* * * * *"})
    await client.post("/v1/jobs/report/pause")
    clock.advance(3 * MINUTE + 1)
    [time] = await upcoming(client, 1)
    assert time["scheduled_for"] == "2027-01-15T08:04:00.000Z"
    await create(client, AT_ONCE)
    assert (await client.get("/v1/jobs/mail/upcoming")).json() == []


async def test_rare_times_are_listed_for_a_century(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "schedule_expr": "0 0 29 2 *"})
    times = await upcoming(client, 1_000)
    assert times[0]["local_time"][:4] == "2028"
    assert times[-1]["local_time"][:4] == "2124"


@pytest.mark.parametrize("n", ["0", "1001", "x"])
async def test_a_wrong_number_of_times_is_refused(client: httpx.AsyncClient, n: str) -> None:
    await create(client, CRON)
    problem = refused(await client.get(f"/v1/jobs/report/upcoming?n={n}"), 400, "bad_input")
    assert problem["errors"][0]["parameter"] == "n"


async def test_a_preview_says_what_a_schedule_means_and_stores_nothing(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    before = await keyspace()
    body = {"schedule_expr": "30 9 * * 1-5", "timezone": "Europe/Berlin", "n": 2}
    answer = await client.post("/v1/schedules/preview", json=body)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert shown["dialect"] == "vixie"
    assert shown["description"] == "At 09:30 on Monday to Friday"
    assert shown["warnings"] == []
    assert shown["conversions"]["quartz"] == "0 30 9 ? * MON-FRI"
    times = [time["scheduled_for"] for time in shown["times"]]
    assert times == ["2027-01-15T08:30:00.000Z", "2027-01-18T08:30:00.000Z"]
    assert "difference" not in shown
    assert await keyspace() == before


async def test_a_preview_warns(client: httpx.AsyncClient) -> None:
    body = {"schedule_expr": "*/35 * * * *"}
    [warning] = (await client.post("/v1/schedules/preview", json=body)).json()["warnings"]
    assert warning["code"] == "uneven_step"
    assert "35" in warning["message"]


async def test_a_preview_against_a_job_shows_what_would_change(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "schedule_expr": "0 9,12 * * *", "timezone": "UTC"})
    body = {"job_id": "report", "schedule_expr": "0 9,18 * * 5"}
    difference = (await client.post("/v1/schedules/preview", json=body)).json()["difference"]
    assert difference["added"][0] == "2027-01-15T18:00:00.000Z"
    assert difference["removed"][:2] == ["2027-01-15T12:00:00.000Z", "2027-01-16T09:00:00.000Z"]
    same = {"job_id": "report", "schedule_expr": "0 9,12 * * *"}
    shown = (await client.post("/v1/schedules/preview", json=same)).json()
    assert shown["difference"] == {"added": [], "removed": []}


async def test_a_preview_of_a_jobs_own_interval_changes_nothing(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, {**CRON, "schedule_expr": "every 10m"})
    clock.advance(MINUTE)
    body = {"job_id": "report", "schedule_expr": "every 10m"}
    shown = (await client.post("/v1/schedules/preview", json=body)).json()
    assert shown["difference"] == {"added": [], "removed": []}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/schedule_expr"),
        ({"schedule_expr": "61 * * * *"}, "/schedule_expr"),
        ({"schedule_expr": "@daily", "n": 1_001}, "/n"),
        ({"schedule_expr": "@daily", "timezone": "Mars"}, "/timezone"),
        ({"schedule_expr": "@daily", "end_at": "2027-01-15T08:00:01Z"}, "/end_at"),
        ({"schedule_expr": "@daily", "target": {}}, "/target"),
    ],
)
async def test_a_preview_refuses_what_a_job_would(
    client: httpx.AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    answer = await client.post("/v1/schedules/preview", json=body)
    assert answer.status_code == 400
    assert pointers(answer.json()) == [pointer]


async def explained(client: httpx.AsyncClient, at: str) -> dict[str, Any]:
    answer = await client.get("/v1/jobs/report/explain", params={"at": at})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_time_to_come_is_explained(client: httpx.AsyncClient) -> None:
    await create(client, CRON)
    assert await explained(client, "2027-01-16T09:00:00+09:00") == {
        "at": "2027-01-16T00:00:00.000Z",
        "is_scheduled": True,
        "verdict": "will_fire",
        "reason": "scheduled",
        "text": "2027-01-16T00:00:00Z is to come and will be fired.",
        "due_at": "2027-01-16T00:00:00.000Z",
        "execution_id": None,
        "before": None,
        "after": None,
        "paused_at": None,
    }


async def test_an_execution_is_found_live_and_in_the_history(client: httpx.AsyncClient) -> None:
    await create(client, {**AT_ONCE, "job_id": "report"})
    at = "2027-01-15T08:00:00Z"
    found = await explained(client, at)
    assert (found["verdict"], found["reason"]) == ("executed", "waiting")
    assert found["execution_id"] == f"report@{NOW}"
    claimed = await claim(client)
    outcome = {"status": "succeeded", "lease": claimed["lease"]}
    await client.post(f"/internal/executions/report@{NOW}/complete", json=outcome)
    found = await explained(client, at)
    assert (found["verdict"], found["reason"]) == ("executed", "succeeded")


async def test_times_skipped_by_a_resume_are_explained_by_their_record(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, {**CRON, "schedule_expr": "* * * * *"})
    await client.post("/v1/jobs/report/pause", json={"note": "why"})
    paused = await explained(client, "2027-01-15T08:02:00Z")
    assert (paused["verdict"], paused["paused_at"]) == (
        "would_be_skipped",
        "2027-01-15T08:00:00.000Z",
    )
    assert "(why)" in paused["text"]
    clock.advance(3 * MINUTE + 1)
    await client.post("/v1/jobs/report/resume", json={"misfire": "skip"})
    found = await explained(client, "2027-01-15T08:02:00Z")
    assert (found["verdict"], found["reason"]) == ("skipped", "paused")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?at=now",
        "?at=2027-01-15T08:00:00",
        "?at=1969-12-31T23:59:59Z",
        "?at=2200-01-01T00:00:00Z",
    ],
)
async def test_a_wrong_time_is_refused(client: httpx.AsyncClient, query: str) -> None:
    await create(client, CRON)
    problem = refused(await client.get(f"/v1/jobs/report/explain{query}"), 400, "bad_input")
    assert problem["errors"][0]["parameter"] == "at"
