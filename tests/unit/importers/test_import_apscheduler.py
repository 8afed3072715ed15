"""APScheduler: jobs of its export, and its cron fields in our dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reading import noted, only, read, reason, sample

from engine.importers import Imported


def found(trigger: dict[str, Any], **fields: Any) -> Imported:
    job = {"id": "it", "func": "a:b", "args": [], "kwargs": {}, "trigger": trigger, **fields}
    return read("apscheduler", json.dumps({"jobs": [job]}))


def expr(**cron: Any) -> tuple[str, str]:
    body = only(found({"type": "cron", **cron})).body
    return body["dialect"], body["schedule_expr"]


def test_the_jobs_of_an_export_are_jobs() -> None:
    all_found = sample("apscheduler", "apscheduler.json")
    tick, weekly, payday, once = all_found.drafts
    assert tick.body == {
        "job_id": "tick",
        "schedule_expr": "every 1m30s",
        "dialect": "interval",
        "timezone": "UTC",
        "start_at": "2026-01-01T00:00:00.000Z",
        "window_ms": 30_000,
        "misfire": {"policy": "skip", "grace_ms": 30_000},
        "concurrency": 3,
        "overlap": "skip",
        "target": {"type": "worker", "handler": "shop.jobs:tick"},
        "payload": {"args": [1], "kwargs": {"two": 2}},
    }
    assert (weekly.paused, weekly.body["misfire"]) == (True, {"policy": "fire_all"})
    assert (payday.paused, "misfire" in payday.body) == (False, False)
    assert once.body["schedule_expr"] == "2030-06-01T03:00:00.000Z"
    assert [refusal.place for refusal in all_found.refusals] == ["job 5, both"]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ({"hour": 3}, ("quartz", "0 0 3 * * ?")),
        ({"minute": "*/5"}, ("quartz", "0 */5 * * * ?")),
        ({"second": "*/10"}, ("quartz", "*/10 * * * * ?")),
        ({"year": 2030}, ("quartz", "0 0 0 1 1 ? 2030")),
        ({"month": "jan-mar", "day": 15}, ("quartz", "0 0 0 15 JAN-MAR ?")),
        ({"day": "last"}, ("quartz", "0 0 0 L * ?")),
        ({"day": "2nd tue"}, ("quartz", "0 0 0 ? * 3#2")),
        ({"day": "last sun"}, ("quartz", "0 0 0 ? * 1L")),
        ({"day_of_week": 0}, ("quartz", "0 0 0 ? * MON")),
        ({"day_of_week": "mon-fri"}, ("quartz", "0 0 0 ? * MON,TUE,WED,THU,FRI")),
        ({"day_of_week": "*/2"}, ("quartz", "0 0 0 ? * MON,WED,FRI,SUN")),
        ({"day_of_week": "6, 0"}, ("quartz", "0 0 0 ? * MON,SUN")),
        (
            {"day": "1-7", "day_of_week": "fri", "hour": 9},
            (
                "celery",
                "crontab(minute='0', hour='9', day_of_week='fri', day_of_month='1-7',"
                " month_of_year='*')",
            ),
        ),
    ],
)
def test_cron_fields_are_an_expression(cron: dict[str, Any], expected: tuple[str, str]) -> None:
    assert expr(**cron) == expected


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ({}, "names none of year"),
        ({"week": 3}, "weeks of the year"),
        ({"day": "2nd tue", "day_of_week": "mon"}, "numbered weekday beside"),
        ({"day": "13", "day_of_week": "fri", "hour": 1, "second": 5}, "must both match"),
        ({"day": "last", "day_of_week": "fri"}, "must both match"),
        ({"day_of_week": "7"}, "'7' is not read"),
        ({"day_of_week": "fri-mon"}, "'fri-mon' is not read"),
        ({"day_of_week": "*/0"}, "'*/0' is not read"),
        ({"day": "1st moon"}, "has no counterpart"),
        ({"hour": 24}, "hour: '24'"),
    ],
)
def test_cron_fields_that_have_no_counterpart_are_refused(cron: dict[str, Any], why: str) -> None:
    assert why in reason(found({"type": "cron", **cron}))


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        ({"type": "interval", "weeks": 1, "hours": 2}, "every 7d2h"),
        ({"type": "interval", "interval": 1.5}, "every 1s500ms"),
        ({"type": "interval"}, "every 1s"),
        (
            {"type": "calendarinterval", "months": 2, "hour": 8, "start_date": "2026-01-15"},
            "DTSTART:20260115T080000 RRULE:FREQ=MONTHLY;INTERVAL=2",
        ),
    ],
)
def test_intervals_are_intervals_or_rules(trigger: dict[str, Any], text: str) -> None:
    assert only(found(trigger)).body["schedule_expr"] == text


@pytest.mark.parametrize(
    ("fields", "misfire"),
    [
        ({}, None),
        ({"misfire_grace_time": None}, {"policy": "fire_once"}),
        ({"misfire_grace_time": None, "coalesce": False}, {"policy": "fire_all"}),
        ({"misfire_grace_time": 1, "coalesce": True}, {"policy": "skip", "grace_ms": 1_000}),
    ],
)
def test_the_grace_is_a_misfire_policy(fields: dict[str, Any], misfire: object) -> None:
    assert only(found({"type": "interval", "minutes": 1}, **fields)).body.get("misfire") == misfire


@pytest.mark.parametrize(
    ("trigger", "fields", "why"),
    [
        ({"type": "date", "run_date": "2020-01-01"}, {}, "is not after now"),
        ({"type": "magic"}, {}, "'magic' is not known"),
        (
            {"type": "calendarinterval", "months": 1, "days": 1, "start_date": "2026-01-01"},
            {},
            "one",
        ),
        ({"type": "interval", "minutes": 1}, {"misfire_grace_time": -1}, "0 or more"),
        ({"type": "interval", "minutes": 1}, {"func": None}, "func is missing"),
        ({"type": "interval", "minutes": 1}, {"args": "x"}, "args must be a list"),
    ],
)
def test_a_job_that_cannot_be_taken_is_refused(
    trigger: dict[str, Any], fields: dict[str, Any], why: str
) -> None:
    assert why in reason(found(trigger, **fields))


def test_more_at_once_than_there_can_be_is_noted() -> None:
    draft = only(found({"type": "interval", "minutes": 1}, max_instances=5_000))
    assert draft.body["concurrency"] == 1_000
    assert "max_instances" in noted(draft)
