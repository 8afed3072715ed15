"""Calendars over HTTP, and jobs that name them."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import CRON, MINUTE, create, pointers, refused
from fleet import keep

from engine.clock import ManualClock
from engine.store import Store

clock, client = calling.clock, calling.client

DAY = 1440 * MINUTE
WORKDAYS = ["MO", "TU", "WE", "TH", "FR"]
HOLIDAYS: dict[str, Any] = {"weekdays": WORKDAYS, "exclude": ["2027-01-18"]}
ICAL = (
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20271224\r\nDTEND:20271227\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)


async def put(
    client: httpx.AsyncClient, body: dict[str, Any], name: str = "holidays", version: int = 0
) -> httpx.Response:
    headers = {"If-Match": f'"{version}"'} if version else {}
    return await client.put(f"/v1/calendars/{name}", json=body, headers=headers)


async def import_ical(
    client: httpx.AsyncClient, text: str | bytes, query: str = ""
) -> httpx.Response:
    headers = {"Content-Type": "text/calendar; charset=utf-8"}
    return await client.put(f"/v1/calendars/holidays{query}", content=text, headers=headers)


async def test_a_calendar_is_answered_as_it_was_put(client: httpx.AsyncClient) -> None:
    answer = await put(client, HOLIDAYS)
    expected = {
        "name": "holidays",
        "version": 1,
        "timezone": None,
        "weekdays": WORKDAYS,
        "hours": [],
        "exclude": ["2027-01-18"],
        "include": [],
    }
    assert (answer.status_code, answer.json()) == (201, expected)
    assert answer.headers["etag"] == '"1"'
    shown = await client.get("/v1/calendars/holidays")
    assert (shown.status_code, shown.json(), shown.headers["etag"]) == (200, expected, '"1"')


async def test_every_field_is_kept_and_a_put_replaces_all(client: httpx.AsyncClient) -> None:
    body = {
        "timezone": "Asia/Tokyo",
        "weekdays": ["SA"],
        "hours": ["09:00-12:00", "13:00-24:00"],
        "exclude": ["2027-01-16"],
        "include": ["2027-01-15"],
    }
    assert (await put(client, body)).json() == {"name": "holidays", "version": 1} | body
    again = await put(client, {})
    assert again.status_code == 200
    assert again.json()["exclude"] == []
    assert len(again.json()["weekdays"]) == 7


async def test_calendars_are_listed_by_name_without_their_dates(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/calendars")).json() == {"calendars": []}
    await put(client, HOLIDAYS, "b")
    await put(client, {}, "a")
    lines = (await client.get("/v1/calendars")).json()["calendars"]
    assert [(line["name"], line["version"], line["excluded"]) for line in lines] == [
        ("a", 2, 0),
        ("b", 1, 1),
    ]


async def test_an_old_version_is_refused_and_changes_nothing(client: httpx.AsyncClient) -> None:
    await put(client, HOLIDAYS)
    await put(client, {}, version=1)
    refused(await put(client, HOLIDAYS, version=1), 412, "precondition_failed")
    answer = await client.delete("/v1/calendars/holidays", headers={"If-Match": '"1"'})
    refused(answer, 412, "precondition_failed")
    assert (await client.get("/v1/calendars/holidays")).json()["version"] == 2
    refused(await put(client, {}, "new", version=1), 412, "precondition_failed")
    assert (await put(client, HOLIDAYS, version=2)).json()["version"] == 3


async def test_a_deleted_calendar_is_gone(client: httpx.AsyncClient) -> None:
    await put(client, HOLIDAYS)
    assert (await client.delete("/v1/calendars/holidays")).status_code == 204
    refused(await client.get("/v1/calendars/holidays"), 404, "not_found")
    refused(await client.delete("/v1/calendars/holidays"), 404, "not_found")
    refused(await client.get("/v1/calendars/-"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"weekdays": ["Montag"]}, "/weekdays/0"),
        ({"hours": ["9-17"]}, "/hours/0"),
        ({"hours": ["22:00-06:00"]}, "/hours"),
        ({"exclude": ["25.12.2026"]}, "/exclude/0"),
        ({"exclude": "2026-12-25"}, "/exclude"),
        ({"include": [20261225]}, "/include/0"),
        ({"timezone": "Mars"}, "/timezone"),
        ({"dates": []}, "/dates"),
    ],
)
async def test_what_is_wrong_in_a_calendar_is_refused_with_its_place(
    client: httpx.AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    problem = refused(await put(client, body), 400, "bad_input")
    assert pointers(problem) == [pointer]
    refused(await client.get("/v1/calendars/holidays"), 404, "not_found")


async def test_what_cannot_name_a_calendar_is_refused(client: httpx.AsyncClient) -> None:
    problem = refused(await put(client, {}, "a%20b"), 400, "bad_input")
    assert pointers(problem) == ["/name"]


# iCalendar


async def test_an_icalendar_file_gives_the_excluded_dates(client: httpx.AsyncClient) -> None:
    answer = await import_ical(client, ICAL)
    assert answer.status_code == 201
    assert answer.json()["exclude"] == ["2027-12-24", "2027-12-25", "2027-12-26"]


async def test_an_import_leaves_the_rest_of_a_calendar(client: httpx.AsyncClient) -> None:
    await put(client, {**HOLIDAYS, "hours": ["09:00-17:00"]})
    answer = await import_ical(client, ICAL, "?dates=include")
    assert answer.status_code == 200
    found = answer.json()
    assert found["include"] == ["2027-12-24", "2027-12-25", "2027-12-26"]
    assert (found["exclude"], found["hours"]) == (["2027-01-18"], ["09:00-17:00"])


async def test_a_file_that_cannot_be_read_is_refused_with_its_line(
    client: httpx.AsyncClient,
) -> None:
    problem = refused(await import_ical(client, "BEGIN:VCALENDAR\nhello"), 400, "bad_input")
    assert "line 2" in problem["detail"]
    problem = refused(await import_ical(client, b"\xff"), 400, "bad_input")
    assert "UTF-8" in problem["detail"]
    refused(await import_ical(client, ICAL, "?dates=all"), 400, "bad_input")
    answer = await client.put("/v1/calendars/holidays", content=ICAL)
    refused(answer, 415, "unsupported_media_type")


# Jobs


async def test_a_job_shows_its_calendars(client: httpx.AsyncClient) -> None:
    await put(client, HOLIDAYS)
    plain = await create(client, CRON)
    assert (plain["calendars"], plain["roll"]) == ([], "skip")
    asked = {"job_id": "b", "calendars": ["holidays"], "roll": "next_business_day"}
    made = await create(client, CRON | asked)
    assert (made["calendars"], made["roll"]) == (["holidays"], "next_business_day")
    assert (await client.get("/v1/jobs/b")).json() == made


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"calendars": ["gone"]}, "/calendars"),
        ({"calendars": ["holidays", "holidays"]}, "/calendars"),
        ({"roll": "next_business_day"}, "/roll"),
        ({"calendars": ["holidays"], "roll": "sideways"}, "/roll"),
        (
            {
                "schedule_expr": "every 1h",
                "calendars": ["holidays"],
                "roll": "next_business_day",
            },
            "/roll",
        ),
        ({"schedule_expr": None, "calendars": ["holidays"]}, "/calendars"),
    ],
)
async def test_what_no_calendar_can_do_is_refused_with_its_field(
    client: httpx.AsyncClient, more: dict[str, Any], pointer: str
) -> None:
    await put(client, HOLIDAYS)
    problem = refused(await client.post("/v1/jobs", json=CRON | more), 400, "bad_input")
    assert pointers(problem) == [pointer]


async def test_a_calendar_that_a_job_names_cannot_be_deleted(client: httpx.AsyncClient) -> None:
    await put(client, HOLIDAYS)
    await create(client, CRON | {"calendars": ["holidays"]})
    problem = refused(await client.delete("/v1/calendars/holidays"), 409, "conflict")
    assert "report" in problem["detail"]
    await client.delete("/v1/jobs/report")
    assert (await client.delete("/v1/calendars/holidays")).status_code == 204


async def test_a_put_moves_the_jobs_that_it_moves(client: httpx.AsyncClient) -> None:
    await put(client, {})
    asked = {"timezone": "UTC", "calendars": ["holidays"], "roll": "next_business_day"}
    made = await create(client, CRON | asked)
    assert made["next_run_at"] == "2027-01-15T09:00:00.000Z"
    await put(client, {"exclude": ["2027-01-15"]})
    shown = (await client.get("/v1/jobs/report")).json()
    assert shown["next_run_at"] == "2027-01-16T09:00:00.000Z"


async def test_a_skipped_time_says_calendar_and_name(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await put(client, {"exclude": ["2027-01-16"]})
    await create(client, CRON | {"calendars": ["holidays"]})
    clock.advance(2 * DAY)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    found = (await client.get("/v1/jobs/report/executions")).json()
    told = {one["reason"]: one["count"] for one in found if one["status"] == "skipped"}
    # Midnight in UTC is nine in Tokyo, where the day is that of the job.
    assert told == {"calendar: holidays": 1}


# Joined schedules


async def test_a_job_has_the_times_of_all_its_schedules(client: httpx.AsyncClient) -> None:
    joined = ["0 9 * * *", "30 8 * * *", "every 2h"]
    made = await create(client, CRON | {"schedule_expr": joined, "timezone": "UTC"})
    assert made["schedule_expr"] == joined
    assert made["next_run_at"] == "2027-01-15T08:30:00.000Z"
    assert (await client.get("/v1/jobs/report")).json() == made


@pytest.mark.parametrize(
    ("joined", "pointer", "code"),
    [
        (["0 9 * * *", "61 * * * *"], "/schedule_expr/1", "bad_expression"),
        (["0 0 30 2 *", "0 9 * * *"], "/schedule_expr/0", "never_fires"),
        ([], "/schedule_expr", "bad_input"),
        (["0 9 * * *"] * 21, "/schedule_expr", "bad_input"),
        (["0 9 * * *", 5], "/schedule_expr", "bad_input"),
        (5, "/schedule_expr", "bad_input"),
    ],
)
async def test_a_part_that_is_wrong_is_refused_with_its_place(
    client: httpx.AsyncClient, joined: object, pointer: str, code: str
) -> None:
    answer = await client.post("/v1/jobs", json=CRON | {"schedule_expr": joined})
    assert pointers(refused(answer, 400, code)) == [pointer]
