"""EventBridge Scheduler: schedules as AWS prints them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reading import noted, only, read, reason, sample

from engine.importers import Draft

ARN = "arn:aws:lambda:eu-west-1:1:function:report"


def schedule(target: dict[str, Any] | None = None, **fields: Any) -> str:
    return json.dumps(
        {
            "Name": "it",
            "ScheduleExpression": "rate(5 minutes)",
            "Target": {"Arn": ARN, **(target or {})},
            **fields,
        }
    )


def draft(text: str, **options: Any) -> Draft:
    return only(read("eventbridge", text, **options))


def test_a_schedule_is_a_job_that_waits_for_a_worker() -> None:
    found = sample("eventbridge", "eventbridge.json")
    nightly, remind = found.drafts
    assert nightly.body == {
        "job_id": "billing.nightly-invoices",
        "schedule_expr": "cron(30 2 ? * MON-FRI *)",
        "dialect": "aws",
        "timezone": "Europe/Zurich",
        "start_at": "2024-03-01T00:00:00.000Z",
        "end_at": "2031-12-31T23:59:00.000Z",
        "window_ms": 900_000,
        "group": "billing",
        "overlap": "allow",
        "target": {
            "type": "worker",
            "handler": "arn:aws:lambda:eu-west-1:123456789012:function:invoices",
        },
        "queue": "lambda-invoices",
        "payload": {"day": "<aws.scheduler.scheduled-time>", "big": 9007199254740993},
        "retry": {"max_attempts": 5, "max_elapsed_ms": 3_600_000},
    }
    assert (nightly.paused, remind.paused) == (False, True)
    assert remind.body["delete_after_completion"] is True
    assert remind.body["payload"] == "plain text"
    assert "placeholders" in noted(nightly)["Target.Input"].replace("<aws.scheduler.…> ", "")


def test_a_summary_is_refused_with_the_command_that_prints_all_of_it() -> None:
    found = sample("eventbridge", "eventbridge.json")
    [refusal] = found.refusals
    assert refusal.place == "schedule 3, heartbeat"
    assert "get-schedule --group-name default --name heartbeat" in refusal.reason
    assert [note.field for note in found.notes] == ["NextToken"]


def test_an_http_target_of_the_map_has_its_placeholders_filled_in() -> None:
    target = {"type": "http", "url": "https://example.com/x"}
    text = schedule({"Input": '{"at": "<aws.scheduler.scheduled-time>"}'})
    found = draft(text, targets={ARN: target})
    assert found.body["target"] == {**target, "template": True}
    assert found.body["payload"] == {"at": "<aws.scheduler.scheduled-time>"}
    assert "queue" not in found.body
    assert noted(found) == {}
    assert target == {"type": "http", "url": "https://example.com/x"}
    plain = draft(schedule({"Input": "{}"}), targets={ARN: target})
    assert plain.body["target"] == target


def test_hours_without_a_zone_are_those_of_utc_wherever_the_reader_is() -> None:
    text = schedule(ScheduleExpression="cron(0 3 * * ? *)")
    assert draft(text, timezone="Asia/Tokyo").body["timezone"] == "UTC"


def test_without_a_policy_the_default_of_aws_holds() -> None:
    assert draft(schedule()).body["retry"] == {"max_attempts": 186, "max_elapsed_ms": 86_400_000}


@pytest.mark.parametrize("text", ["{a: 1}", "nonsense", "[1", "NaN"])
def test_an_input_that_is_no_json_is_a_text(text: str) -> None:
    assert draft(schedule({"Input": text})).body["payload"] == text


def test_bounds_and_window_of_one_time_are_noted() -> None:
    found = draft(
        schedule(
            ScheduleExpression="at(2030-01-31T09:00:00)",
            EndDate="2031-01-01T00:00:00Z",
            FlexibleTimeWindow={"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 5},
        )
    )
    assert not {"end_at", "window_ms"} & found.body.keys()
    assert {"EndDate", "FlexibleTimeWindow.MaximumWindowInMinutes"} <= noted(found).keys()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"ScheduleExpression": "at(2020-01-31T09:00:00)"}, "has passed"),
        ({"ScheduleExpression": "cron(0 0 * * * *)"}, "exactly one of the two must be '?'"),
        ({"ScheduleExpressionTimezone": "Mars/Base"}, "unknown timezone"),
        ({"State": "WEIRD"}, "ENABLED or DISABLED"),
        ({"ActionAfterCompletion": "EAT"}, "NONE or DELETE"),
        ({"FlexibleTimeWindow": {"Mode": "FLEXIBLE"}}, "MaximumWindowInMinutes"),
        ({"Target": {"Arn": "report"}}, "is no ARN"),
        ({"Target": {}}, "Target.Arn is missing"),
        ({"Name": None}, "Name is missing"),
        ({"StartDate": "soon"}, "StartDate: 'soon'"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(fields: dict[str, Any], why: str) -> None:
    assert why in reason(read("eventbridge", schedule(**fields)))
