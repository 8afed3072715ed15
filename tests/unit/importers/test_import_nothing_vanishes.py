"""Nothing of a source vanishes: each known field changes what is said, and so does an unknown one.

A field that may go without a trace stands in the importer's table of what means nothing here.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import pytest
from reading import Wrap, changed, fields_of, mappings_of, outcome, read

from engine.importers import (
    apscheduler,
    django_celery_beat,
    eventbridge,
    kubernetes,
    quartz,
    sidekiq,
)

EVENTBRIDGE: dict[str, Any] = {
    "ActionAfterCompletion": "DELETE",
    "Arn": "arn:aws:scheduler:eu-west-1:1:schedule/billing/nightly",
    "ClientToken": "t",
    "CreationDate": "2024-03-01T10:15:00Z",
    "Description": "At night",
    "EndDate": "2031-12-31T23:59:00Z",
    "FlexibleTimeWindow": {"MaximumWindowInMinutes": 15, "Mode": "FLEXIBLE"},
    "GroupName": "billing",
    "KmsKeyArn": "arn:aws:kms:eu-west-1:1:key/k",
    "LastModificationDate": "2025-06-01T08:00:00Z",
    "Name": "nightly",
    "ResponseMetadata": {"RequestId": "r"},
    "ScheduleExpression": "cron(30 2 ? * MON-FRI *)",
    "ScheduleExpressionTimezone": "Europe/Zurich",
    "StartDate": "2024-03-01T00:00:00Z",
    "State": "DISABLED",
    "Target": {
        "Arn": "arn:aws:lambda:eu-west-1:1:function:invoices",
        "DeadLetterConfig": {"Arn": "arn:aws:sqs:eu-west-1:1:dlq"},
        "EcsParameters": {"TaskDefinitionArn": "a"},
        "EventBridgeParameters": {"Source": "a"},
        "Input": '{"day": 1}',
        "KinesisParameters": {"PartitionKey": "a"},
        "RetryPolicy": {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 4},
        "RoleArn": "arn:aws:iam::1:role/r",
        "SageMakerPipelineParameters": {"PipelineParameterList": [1]},
        "SqsParameters": {"MessageGroupId": "m"},
    },
}

CRON_JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {
        "name": "backup",
        "namespace": "shop",
        "labels": {"app": "shop"},
        "annotations": {"a": "b"},
        **dict.fromkeys(kubernetes.MEANINGLESS, "x"),
    },
    "spec": {
        "schedule": "15 3 * * *",
        "timeZone": "Europe/Zurich",
        "concurrencyPolicy": "Forbid",
        "suspend": True,
        "startingDeadlineSeconds": 600,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "backoffLimit": 2,
                "activeDeadlineSeconds": 1800,
                "ttlSecondsAfterFinished": 3600,
                "completions": 2,
                "parallelism": 2,
                "completionMode": "Indexed",
                "podFailurePolicy": {"rules": [1]},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "serviceAccountName": "backup",
                        "containers": [
                            {
                                "name": "dump",
                                "image": "backup:1",
                                "command": ["/bin/sh", "-c"],
                                "args": ["dump"],
                                "workingDir": "/srv",
                                "env": [
                                    {"name": "A", "value": "1"},
                                    {"name": "B", "valueFrom": {"secretKeyRef": {"key": "k"}}},
                                ],
                                "envFrom": [{"configMapRef": {"name": "c"}}],
                                "resources": {"limits": {"memory": "1Gi"}},
                            }
                        ],
                    },
                },
            },
        },
    },
    "status": {"lastScheduleTime": "2025-06-01T01:15:00Z"},
}

CELERY: dict[str, Any] = {
    "task": "shop.report",
    "schedule": {
        "minute": "30",
        "hour": "7",
        "day_of_week": "mon",
        "day_of_month": "1-7",
        "month_of_year": "3",
    },
    "args": [16],
    "kwargs": {"kind": "weekly"},
    "relative": True,
    "enabled": False,
    "options": {
        "queue": "reports",
        "expires": 600,
        "time_limit": 90,
        "soft_time_limit": 60,
        "priority": 3,
        "countdown": 4,
        "eta": "2030-01-01",
        "exchange": "x",
        "routing_key": "r",
        "headers": {"h": 1},
        "serializer": "json",
        "compression": "gzip",
        "retry": True,
        "retry_policy": {"max_retries": 3},
        "ignore_result": True,
    },
}

REDBEAT: dict[str, Any] = {
    "name": "biweekly",
    "task": "shop.biweekly",
    "args": [1],
    "kwargs": {"a": 1},
    "options": {"queue": "low"},
    "enabled": False,
    "schedule": {
        "__type__": "rrule",
        "freq": 0,
        "interval": 2,
        "wkst": 6,
        "bysetpos": 1,
        "bymonth": [3],
        "bymonthday": [1, 2, 3],
        "byweekday": [{"__type__": "weekday", "wkday": 0}],
        "byhour": 9,
        "byminute": 1,
        "bysecond": 2,
        "dtstart": 1767571200,
        "dtstart_tz": 60.0,
        "until": 1999999999,
        "until_tz": 60.0,
    },
}

PERIODIC_TASK: dict[str, Any] = {
    "name": "sync",
    "task": "shop.sync",
    "crontab": 1,
    "args": "[1]",
    "kwargs": '{"a": 1}',
    "queue": "sync",
    "exchange": "x",
    "routing_key": "r",
    "headers": '{"h": 1}',
    "priority": 9,
    "expires": "2031-01-01T00:00:00Z",
    "expire_seconds": 60,
    "one_off": True,
    "start_time": "2025-01-01T00:00:00Z",
    "enabled": False,
    "description": "As agreed",
    **dict.fromkeys(django_celery_beat.MEANINGLESS, "2025-06-01T00:00:00Z"),
}
CRONTAB = {
    "minute": "5",
    "hour": "6",
    "day_of_month": "7",
    "month_of_year": "8",
    "day_of_week": "2",
    "timezone": "Asia/Tokyo",
}

QUARTZ: dict[str, Any] = {
    "job": {
        "name": "Invoices",
        "group": "billing",
        "description": "Of the day",
        "job-class": "com.example.InvoiceJob",
        **dict.fromkeys(quartz.MEANINGLESS, "true"),
        "job-data-map": {"entry": [{"key": "currency", "value": "CHF"}]},
    },
    "cron": {
        "name": "nightly",
        "group": "night",
        "description": "At night",
        "job-name": "Invoices",
        "job-group": "billing",
        "priority": "7",
        "calendar-name": "holidays",
        "job-data-map": {"entry": [{"key": "dry", "value": "true"}]},
        "start-time": "2025-01-01T00:00:00Z",
        "end-time": "2031-01-01T00:00:00Z",
        "misfire-instruction": "MISFIRE_INSTRUCTION_DO_NOTHING",
        "cron-expression": "0 30 2 ? * MON-FRI",
        "time-zone": "Europe/Zurich",
    },
}

APSCHEDULER: dict[str, Any] = {
    "id": "tick",
    "name": "Tick",
    "func": "shop:tick",
    "args": [1],
    "kwargs": {"a": 1},
    "trigger": {
        "type": "cron",
        "year": "2027-2030",
        "month": "1-6",
        "day_of_week": "0-4",
        "hour": "7",
        "minute": "30",
        "second": "15",
        "timezone": "Europe/London",
        "start_date": "2026-01-01T00:00:00Z",
        "end_date": "2031-01-01T00:00:00Z",
        "jitter": 30,
    },
    "misfire_grace_time": 30,
    "coalesce": False,
    "max_instances": 3,
    "executor": "pool",
    "jobstore": "redis",
    "next_run_time": None,
    "version": 1,
    "pending": True,
}

SIDEKIQ: dict[str, Any] = {
    "cron": "0 3 * * * Europe/Zurich",
    "class": "CleanupJob",
    "queue": "low",
    "args": [7],
    "description": "Removes what is old",
    "status": "disabled",
    "date_as_argument": True,
    "include_metadata": True,
    "retry": 5,
    "namespace": "shop",
    "queue_name_prefix": "app",
    "queue_name_delimiter": "_",
    "rufus_scheduler_options": {"overlap": False},
    **dict.fromkeys(sidekiq.MEANINGLESS, True),
}


def xml(document: dict[str, Any]) -> str:
    """Return a document of Quartz with these elements; a list is an element for each."""

    def inside(value: Any) -> str:
        if not isinstance(value, dict):
            return escape(str(value))
        return "".join(
            f"<{name}>{inside(one)}</{name}>"
            for name, held in value.items()
            for one in (held if isinstance(held, list) else [held])
        )

    job, cron = inside(document["job"]), inside(document["cron"])
    schedule = f"<job>{job}</job><trigger><cron>{cron}</cron></trigger>"
    return f"<job-scheduling-data><schedule>{schedule}</schedule></job-scheduling-data>"


def fixture(fields: dict[str, Any]) -> str:
    rows = [
        {"model": "django_celery_beat.periodictask", "pk": 1, "fields": fields["task"]},
        {"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": fields["crontab"]},
    ]
    return json.dumps(rows)


class Case(NamedTuple):
    """An entry with every field that its source knows, and where it goes without saying."""

    source: str
    entry: dict[str, Any]
    wrap: Wrap
    meaningless: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 a NamedTuple, and never changed


POD = "spec.jobTemplate.spec.template.spec"
OF_THE_CLUSTER = (
    *kubernetes.ENVELOPE,
    *(f"metadata.{name}" for name in kubernetes.MEANINGLESS),
)

CASES = {
    "eventbridge": Case("eventbridge", EVENTBRIDGE, json.dumps, eventbridge.MEANINGLESS),
    "kubernetes": Case("kubernetes", CRON_JOB, json.dumps, OF_THE_CLUSTER),
    "kubernetes --shell": Case(
        "kubernetes",
        CRON_JOB,
        json.dumps,
        (*OF_THE_CLUSTER, f"{POD}.restartPolicy", f"{POD}.containers[0].name"),
        {"shell": True},
    ),
    "celery": Case("celery", CELERY, lambda entry: json.dumps({"beat_schedule": {"a": entry}})),
    "redbeat": Case(
        "redbeat",
        REDBEAT,
        lambda entry: json.dumps({"redbeat:biweekly": entry}),
        ("schedule.byweekday[0].__type__",),
    ),
    "django-celery-beat": Case(
        "django-celery-beat",
        {"task": PERIODIC_TASK, "crontab": CRONTAB},
        fixture,
        tuple(f"task.{name}" for name in django_celery_beat.MEANINGLESS),
    ),
    "quartz": Case("quartz", QUARTZ, xml, tuple(f"job.{name}" for name in quartz.MEANINGLESS)),
    "apscheduler": Case(
        "apscheduler",
        APSCHEDULER,
        lambda entry: json.dumps({"jobs": [entry]}),
        apscheduler.MEANINGLESS,
    ),
    "sidekiq": Case(
        "sidekiq", SIDEKIQ, lambda entry: json.dumps({"cleanup": entry}), sidekiq.MEANINGLESS
    ),
}


def dotted(path: tuple[Any, ...]) -> str:
    """Return a path as notes write it."""
    text = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path)
    return text.removeprefix(".")


def _drop(name: str, held: Any) -> None:
    held.pop(name)


def is_of_the_test(name: str, path: tuple[Any, ...]) -> bool:
    """Return whether the mapping there is the test's own, and none of the source."""
    return name in ("django-celery-beat", "quartz") and not path


def told_as_a_whole(case: Case) -> list[str]:
    """The fields of which a note tells what they hold by name, and no more."""
    (draft,) = read(case.source, case.wrap(case.entry), **case.options).drafts
    return [note.field for note in draft.notes]


def is_within(path: str, wholes: list[str]) -> bool:
    return any(path.startswith((f"{whole}.", f"{whole}[")) for whole in wholes)


@pytest.mark.parametrize("name", CASES)
def test_the_full_entry_is_taken(name: str) -> None:
    case = CASES[name]
    found = read(case.source, case.wrap(case.entry), **case.options)
    assert found.refusals == ()
    assert len(found.drafts) == 1


@pytest.mark.parametrize("name", CASES)
def test_each_known_field_changes_what_is_said_or_is_known_to_mean_nothing(name: str) -> None:
    case = CASES[name]
    whole = outcome(read(case.source, case.wrap(case.entry), **case.options))
    silent = set()
    for path in fields_of(case.entry):
        if is_of_the_test(name, path[:-1]):
            continue
        without = changed(case.entry, path[:-1], partial(_drop, path[-1]))
        if outcome(read(case.source, case.wrap(without), **case.options)) == whole:
            silent.add(dotted(path))
    wholes = told_as_a_whole(case)
    told = {path for path in silent if is_within(path, [*wholes, *case.meaningless])}
    assert silent - told == {path for path in case.meaningless if path in silent}


@pytest.mark.parametrize("name", CASES)
def test_what_means_nothing_is_there_and_leaves_no_trace(name: str) -> None:
    case = CASES[name]
    paths = {dotted(path) for path in fields_of(case.entry)}
    assert {*case.meaningless} <= paths
    assert not {*case.meaningless} & {*told_as_a_whole(case)}


@pytest.mark.parametrize("name", CASES)
def test_a_field_that_nobody_knows_is_told_of_wherever_it_stands(name: str) -> None:
    case = CASES[name]
    wholes = told_as_a_whole(case)
    for path in mappings_of(case.entry):
        where = dotted(path)
        if is_within(f"{where}.", [*wholes, *case.meaningless]):
            continue
        if is_of_the_test(name, path):
            continue
        more = changed(case.entry, path, lambda held: held.update(unheardOf="x"))
        told = outcome(read(case.source, case.wrap(more), **case.options))
        assert "unheardOf" in told, where
