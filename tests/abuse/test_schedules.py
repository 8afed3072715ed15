"""Schedules: rows 65 to 86 of the list of abuses, each by its number.

Where this deployment differs from the list: `@every`, `H` and `@reboot` are read in their dialects;
seconds and years need their dialect; a year may be as late as 2199. A change of the zones' rules
(80) is in test_zone_editions.py.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from calling import AT_ONCE, CRON, MINUTE, NOW, Read, create, pointers, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace
from fleet import fired, keep

from engine.clock import ManualClock
from engine.store import Store

DAY = 1440 * MINUTE
JOB: dict[str, Any] = {**AT_ONCE, "job_id": "job"}

_BAD_CRON = {
    "row_68_R": "R * * * *",
    "row_70_seconds": "* * * * * *",
    "row_70_seven-fields": "* * * * * * *",
    "row_71_step-0": "*/0 * * * *",
    "row_71_minute-60": "60 * * * *",
    "row_71_minute--1": "-1 * * * *",
    "row_71_hour-24": "0 24 * * *",
    "row_71_day-0": "0 0 0 * *",
    "row_71_month-13": "0 0 1 13 *",
    "row_71_weekday-8": "0 0 * * 8",
    "row_71_weekday-1#6": "0 0 * * 1#6",
    "row_72_step-of-a-milliard": "0-59/1000000000 * * * *",
    "row_72_step-beyond-the-field": "*/90 * * * *",
    "row_73_80000-characters": ",".join(["*/1"] * 20_000) + " * * * *",
    "row_74_empty": "",
    "row_74_NUL": "\0 * * * *",
    "row_74_line-feed": "0 0 * * *\n",
    "row_74_second-line": "0 0 * * *\n0 1 * * *",
    "row_74_arabic-digits": "\u0660 \u0660 * * *",
    "row_75_year": "0 0 1 1 * 0 2099",
    "row_75_year-9999": "cron(0 0 1 1 ? 9999)",
    "row_81_0": "every 0s",
    "row_81_-1": "every -1s",
    "row_81_0.0001": "every 0.0001s",
    "row_81_1e308": "every 1e308s",
    "row_81_NaN": "every NaN",
    "row_81_text": "5",
    "row_81_half-a-second": "every 500ms",
    "row_81_too-long": "every 99999999999d",
    "row_82_year": "292277026596-01-01T00:00:00Z",
    "row_82_30-february": "2027-02-30T00:00:00Z",
    "row_82_leap-second": "2027-12-31T23:59:60Z",
    "row_82_no-offset": "2027-12-31T23:59:59",
}


async def refusal(client: httpx.AsyncClient, keyspace: Read, **more: Any) -> dict[str, Any]:
    """Return the problem that a job with this schedule must be, after which nothing is stored."""
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={**JOB, **more})
    assert answer.status_code == 400, answer.text
    assert len(answer.content) < 2_000
    assert await keyspace() == before
    problem: dict[str, Any] = answer.json()
    return problem


@pytest.mark.parametrize("expr", _BAD_CRON.values(), ids=_BAD_CRON)
async def test_what_no_dialect_reads_is_refused(
    client: httpx.AsyncClient, keyspace: Read, expr: str
) -> None:
    problem = await refusal(client, keyspace, schedule_expr=expr)
    assert problem["code"] in ("bad_expression", "bad_input")
    assert pointers(problem) == ["/schedule_expr"]


@pytest.mark.parametrize("expr", ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *"])
async def test_row_65_what_never_fires_is_refused(
    client: httpx.AsyncClient, keyspace: Read, expr: str
) -> None:
    problem = await refusal(client, keyspace, schedule_expr=expr)
    assert (problem["code"], pointers(problem)) == ("never_fires", ["/schedule_expr"])


async def times(client: httpx.AsyncClient, count: int, **body: Any) -> list[str]:
    """Return the next times of a schedule, as local times with their offsets."""
    answer = await client.post("/v1/schedules/preview", json={"n": count, **body})
    assert answer.status_code == 200, answer.text
    return [f"{at['local_time']}{at['utc_offset']}" for at in answer.json()["times"]]


async def nominal(client: httpx.AsyncClient, count: int, expr: str, **body: Any) -> list[str]:
    answer = await client.post(
        "/v1/schedules/preview", json={"n": count, "schedule_expr": expr, **body}
    )
    assert answer.status_code == 200, answer.text
    return [at["scheduled_for"][:16] for at in answer.json()["times"]]


async def test_row_66_a_leap_day_is_waited_for(client: httpx.AsyncClient) -> None:
    assert await nominal(client, 2, "0 0 29 2 *") == ["2028-02-29T00:00", "2032-02-29T00:00"]


async def test_row_67_either_of_day_and_weekday_is_enough_as_crontab_has_it(
    client: httpx.AsyncClient,
) -> None:
    assert await nominal(client, 1, "0 0 29 2 1") == ["2027-02-01T00:00"]
    answer = await client.post("/v1/jobs", json={**JOB, "schedule_expr": "0 0 29 2 1#5"})
    refused(answer, 400, "bad_expression")


async def test_row_69_h_is_the_jobs_own_and_stays(client: httpx.AsyncClient) -> None:
    for dialect in ("jenkins", None):
        seen = {
            (
                await create(
                    client, {**JOB, "job_id": f"j{n}", "schedule_expr": "H * * * *", **more}
                )
            )["next_run_at"]
            for n in range(8)
            for more in [{"dialect": dialect} if dialect else {}]
        }
        assert len(seen) > 1
        for n in range(8):
            await client.delete(f"/v1/jobs/j{n}")
    assert await nominal(client, 3, "H 0 * * *", job_id="a") == await nominal(
        client, 3, "H 0 * * *", job_id="a"
    )


async def test_row_74_reboot_is_each_start_of_the_deployment(
    client: httpx.AsyncClient, store: Store, clock: ManualClock, keyspace: Read
) -> None:
    job = await create(client, {**JOB, "schedule_expr": "@reboot"})
    assert (job["dialect"], job["state"], job["next_run_at"]) == ("vixie", "active", None)
    clock.advance(MINUTE)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    clock.advance(MINUTE)
    await scheduler.step()
    assert await fired(store) == [f"job@{NOW + MINUTE}"]
    problem = await refusal(client, keyspace, schedule_expr="@reboot", dialect="k8s")
    assert pointers(problem) == ["/schedule_expr"]


async def test_row_74_an_alias_is_read_where_its_dialect_is(client: httpx.AsyncClient) -> None:
    job = await create(client, {**JOB, "schedule_expr": "@every 5s"})
    assert job["dialect"] in ("k8s", "robfig", "interval")


NEW_YORK = {"timezone": "America/New_York"}


async def test_row_76_a_time_in_the_spring_gap_fires_once_after_it(
    client: httpx.AsyncClient,
) -> None:
    body = {"schedule_expr": "30 2 * * *", "start_at": "2027-03-13T12:00:00Z", **NEW_YORK}
    found = await times(client, 2, **body)
    assert [at[:16] for at in found] == ["2027-03-14T03:00", "2027-03-15T02:30"]


async def test_row_77_a_time_that_comes_twice_in_autumn_fires_once(
    client: httpx.AsyncClient,
) -> None:
    body = {"schedule_expr": "30 1 * * *", "start_at": "2027-11-06T12:00:00Z", **NEW_YORK}
    found = await times(client, 2, **body)
    assert [at[:16] for at in found] == ["2027-11-07T01:30", "2027-11-08T01:30"]
    assert found[0].endswith("-04:00")


async def test_row_78_each_half_hour_goes_on_through_autumn(client: httpx.AsyncClient) -> None:
    body = {"start_at": "2027-11-07T04:00:00Z", **NEW_YORK}
    assert await nominal(client, 5, "*/30 * * * *", **body) == [
        "2027-11-07T04:00",
        "2027-11-07T04:30",
        "2027-11-07T05:00",
        "2027-11-07T05:30",
        "2027-11-07T06:00",
    ]


@pytest.mark.parametrize(
    "zone",
    ["US/Nowhere", "../../etc/passwd", "/etc/localtime", "UTC+25", "", "localtime", "UTC\0", 5],
)
async def test_row_79_what_is_no_zone_is_refused(
    client: httpx.AsyncClient, keyspace: Read, zone: Any
) -> None:
    problem = await refusal(client, keyspace, schedule_expr="0 9 * * *", timezone=zone)
    assert pointers(problem) == ["/timezone"]


async def test_row_79_a_zone_of_the_database_is_one_however_old_its_name(
    client: httpx.AsyncClient,
) -> None:
    body = {"start_at": "2027-01-16T00:00:00Z", "timezone": "EST5EDT"}
    assert await nominal(client, 1, "0 9 * * *", **body) == ["2027-01-16T14:00"]


@pytest.mark.parametrize("expr", [5, 0, 1e300, True, {"every": 5}, [], [5], [["0 9 * * *"]]])
async def test_row_81_a_schedule_that_is_no_text_is_refused(
    client: httpx.AsyncClient, keyspace: Read, expr: Any
) -> None:
    problem = await refusal(client, keyspace, schedule_expr=expr)
    assert [where.split("/")[1] for where in pointers(problem)] == ["schedule_expr"]


@pytest.mark.parametrize("field", ["start_at", "end_at"])
@pytest.mark.parametrize(
    "at",
    [
        "292277026596-01-01T00:00:00Z",
        "2027-02-30T00:00:00Z",
        "2027-12-31T23:59:60Z",
        "2027-12-31T23:59:59",
        "2027-12-31",
        "-0001-01-01T00:00:00Z",
        1_800_000_000,
        1_800_000_000_000,
        1_800_000_000_000_000,
    ],
)
async def test_row_82_row_83_a_time_that_is_none_is_refused(
    client: httpx.AsyncClient, keyspace: Read, field: str, at: Any
) -> None:
    problem = await refusal(client, keyspace, schedule_expr="0 9 * * *", **{field: at})
    assert pointers(problem) == [f"/{field}"]


async def test_row_82_an_interval_that_began_long_ago_catches_nothing_up(
    client: httpx.AsyncClient,
) -> None:
    job = await create(
        client, {**JOB, "schedule_expr": "every 7m", "start_at": "1970-01-01T00:00:00Z"}
    )
    assert job["next_run_at"] == "2027-01-15T08:05:00.000Z"


async def test_row_82_a_time_that_has_passed_is_refused(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    problem = await refusal(client, keyspace, schedule_expr="1970-01-01T00:00:00Z")
    assert pointers(problem) == ["/schedule_expr"]


@pytest.mark.parametrize("at", ["1800000000", "1800000000000000", "1.8e12", "-1", ""])
async def test_row_83_a_nominal_time_in_another_unit_is_nobodys(
    client: httpx.AsyncClient, at: str
) -> None:
    created = await create(client, AT_ONCE)
    assert created["execution_id"] == f"mail@{NOW}"
    refused(await client.get(f"/v1/executions/mail@{at}"), 404, "not_found")


async def test_row_84_a_year_of_minutes_is_caught_up_in_part_and_told_in_one_record(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    misfire = {"policy": "fire_all", "max_catch_up": 100}
    body = {**JOB, "schedule_expr": "* * * * *", "overlap": "allow", "misfire": misfire}
    await create(client, body)
    clock.advance(365 * DAY)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    assert len(await fired(store)) == 100
    found = (await client.get("/v1/jobs/job/executions", params={"status": "skipped"})).json()
    [skipped] = found
    # It says from when to when, and that it has not counted them all.
    assert (skipped["reason"], skipped["count_is_exact"]) == ("late", False)
    assert skipped["scheduled_for"] == "2027-01-15T08:01:00.000Z"
    assert skipped["last_scheduled_for"] == "2028-01-15T06:20:00.000Z"


async def test_row_84_more_than_a_thousand_cannot_be_asked_for(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    misfire = {"policy": "fire_all", "max_catch_up": 525_600}
    problem = await refusal(client, keyspace, schedule_expr="* * * * *", misfire=misfire)
    assert pointers(problem) == ["/misfire/max_catch_up"]


async def test_row_85_many_that_are_due_at_one_instant_fire_once_each_and_the_others_beside_them(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    """Scaled down; a million is measured in bench/."""
    crowd = [{**JOB, "job_id": f"c{n}", "schedule_expr": "0 0 * * *"} for n in range(2_000)]
    lines = b"\n".join(httpx.Request("POST", "http://x", json=one).content for one in crowd)
    answer = await client.post(
        "/v1/jobs/bulk", content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.text.count('"status":201') == 2_000
    await create(client, {**CRON, "job_id": "other", "target": {"type": "worker"}})
    clock.advance(16 * 60 * MINUTE)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    while await scheduler.step() == 0:
        pass
    seen = [entry.partition("@")[0] for entry in await fired(store)]
    assert sorted(seen) == sorted([*(one["job_id"] for one in crowd), "other"])


@pytest.mark.parametrize("dry_run", [True, False])
async def test_row_86_a_backfill_of_a_century_is_refused(
    client: httpx.AsyncClient, keyspace: Read, dry_run: bool
) -> None:
    await create(client, {**JOB, "schedule_expr": "* * * * *"})
    before = await keyspace()
    span = {"from": "1927-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z", "dry_run": dry_run}
    answer = await client.post("/v1/jobs/job/backfills", json=span)
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == "bad_input"
    assert await keyspace() == before
