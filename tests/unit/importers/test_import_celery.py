"""Celery: source that is read and never run, JSON and YAML, Django's fixtures, RedBeat's hashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reading import noted, only, read, reason, sample

from engine.errors import BadInput
from engine.importers import Draft


def beat(entry: str, above: str = "") -> str:
    return f"{above}\napp.conf.beat_schedule = {{'it': {{'task': 't', {entry}}}}}\n"


def job(entry: str, above: str = "") -> Draft:
    return only(read("celery", beat(entry, above)))


def entry(**fields: Any) -> Draft:
    text = json.dumps({"beat_schedule": {"it": {"task": "t", "schedule": 30, **fields}}})
    return only(read("celery", text))


# Source


def test_the_entries_of_a_source_are_jobs_or_refusals() -> None:
    found = sample("celery", "celery.py.txt")
    assert {draft.job_id: draft.body["schedule_expr"] for draft in found.drafts} == {
        "every-hour": "every 1h",
        "monday-report": "crontab(hour=7, minute=30, day_of_week='mon')",
        "delta": "every 1h30m",
        "rounded": "every 45s",
        "added": "every 30s",
    }
    report = found.drafts[1]
    assert report.body == {
        "job_id": "monday-report",
        "schedule_expr": "crontab(hour=7, minute=30, day_of_week='mon')",
        "dialect": "celery",
        "timezone": "Europe/London",
        "overlap": "allow",
        "target": {"type": "worker", "handler": "shop.tasks.report", "timeout_ms": 90_000},
        "payload": {"args": [], "kwargs": {"kind": "weekly"}},
        "queue": "reports",
        "expires_after_ms": 600_000,
    }
    assert [refusal.place for refusal in found.refusals] == [
        "line 24, sunset",
        "line 25, computed",
        "line 32",
    ]


@pytest.mark.parametrize(
    ("schedule", "expr"),
    [
        ("30", "every 30s"),
        ("1.5", "every 1s500ms"),
        ("60 * 60", "every 1h"),
        ("2 * (10 + 5) / 1 - -30", "every 1m"),
        ("timedelta(days=1, seconds=1)", "every 1d1s"),
        ("datetime.timedelta(minutes=5)", "every 5m"),
        ("schedule(10)", "every 10s"),
        ("celery.schedules.schedule(run_every=timedelta(hours=1))", "every 1h"),
        ("celery.schedules.crontab(minute='*/5')", "crontab(minute='*/5')"),
        ("crontab()", "crontab()"),
        ("HOUR", "every 1h"),
        ("2 * HOUR", "every 2h"),
    ],
)
def test_a_schedule_is_read_from_its_expression(schedule: str, expr: str) -> None:
    found = job(f"'schedule': {schedule}", "HOUR = 60 * 60")
    assert found.body["schedule_expr"] == expr


@pytest.mark.parametrize(
    "text",
    [
        "CELERY_BEAT_SCHEDULE = {'it': {'task': 't', 'schedule': 30}}",
        "CELERYBEAT_SCHEDULE: dict = {'it': {'task': 't', 'schedule': 30}}",
        "app.conf.update(beat_schedule={'it': {'task': 't', 'schedule': 30}})",
        "app.conf.update({'beat_schedule': {'it': {'task': 't', 'schedule': 30}}})",
        "class Config:\n    beat_schedule = {'it': {'task': 't', 'schedule': 30}}",
        "app.conf.beat_schedule['it'] = {'task': 't', 'schedule': 30}",
        "beat_schedule = {'it': {'task': 't', 'schedule': crontab()}}\ntimezone = 'Asia/Tokyo'",
    ],
)
def test_a_schedule_is_found_wherever_it_is_set(text: str) -> None:
    draft = only(read("celery", text))
    assert draft.job_id == "it"
    assert draft.body["timezone"] == ("Asia/Tokyo" if "Tokyo" in text else "UTC")


@pytest.mark.parametrize(
    "value",
    [
        "__import__('os').system('touch /tmp/never')",
        "open('/etc/passwd').read()",
        "NAME",
        "settings.EVERY",
        "9 ** 9 ** 9",
        "1 / 0",
        "f'{x}'",
        "[x for x in y]",
        "timedelta(weeks=10 ** 9)",
        "timedelta(nonsense=1)",
        "solar('sunset', 1, 2, 3, 4)",
        "schedule(1, 2, 3)",
        "A",
        "b'x'",
        "{**x}",
        "10 * 'x'",
    ],
)
def test_what_only_a_program_knows_is_refused_and_not_run(value: str) -> None:
    found = read("celery", beat(f"'schedule': {value}", "A = B\nB = A"))
    assert "line 3" in reason(found) or "line 2" in reason(found)
    assert "known only to a program" in reason(found)


def test_a_name_that_is_bound_twice_is_not_taken() -> None:
    assert "known only" in reason(read("celery", beat("'schedule': N", "N = 1\nN = 60")))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import celery\nx = (", "not Python at line 2"),
        ("import celery\n", "no beat_schedule is set"),
        ("x = " + "(" * 5_000 + ")" * 5_000, "not Python"),
    ],
)
def test_a_source_without_a_schedule_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read("celery", text)


# JSON and YAML


def test_the_entries_of_a_document_are_jobs() -> None:
    found = sample("celery", "celery.yaml")
    assert {draft.job_id: draft.body["schedule_expr"] for draft in found.drafts} == {
        "cleanup": "crontab(minute=0, hour=3)",
        "by-fields": "crontab(minute='*/15', hour='8-18', day_of_week='mon-fri')",
        "seconds": "every 30s",
    }
    assert found.drafts[0].body["timezone"] == "Europe/London"
    assert found.drafts[2].body["expires_after_ms"] == 120_000
    assert [note.field for note in found.notes] == ["the document.broker_url"]


@pytest.mark.parametrize(
    ("schedule", "expr"),
    [
        ("*/5 * * * *", "*/5 * * * *"),
        ("crontab(hour=3)", "crontab(hour=3)"),
        ("timedelta(minutes=2)", "every 2m"),
        ({"__type__": "interval", "every": 5, "relative": False}, "every 5s"),
        ({"every": 90}, "every 1m30s"),
        ({"type": "crontab", "minute": "0"}, "crontab(minute='0')"),
    ],
)
def test_a_schedule_may_be_a_text_or_a_mapping(schedule: Any, expr: str) -> None:
    assert entry(schedule=schedule).body["schedule_expr"] == expr


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"task": None}, "task is missing"),
        ({"schedule": None}, "schedule must be seconds"),
        ({"schedule": True}, "schedule must be seconds"),
        ({"schedule": 0.5}, "shorter than the shortest"),
        ({"schedule": {}}, "names none of minute"),
        ({"schedule": {"__type__": "moon"}}, "'moon' is not known"),
        ({"schedule": "solar('dawn', 1, 2)"}, "by the sun (dawn)"),
        ({"schedule": "os.system('x')"}, "os.system"),
        ({"args": "x"}, "args must be a list"),
        ({"kwargs": [1]}, "kwargs must be a mapping"),
        ({"options": {"expires": -1}}, "more than 0"),
        ({"options": {"queue": {"name": "x"}}}, "options.queue must be a text"),
    ],
)
def test_an_entry_that_cannot_be_taken_is_refused(fields: dict[str, Any], why: str) -> None:
    text = json.dumps({"it": {"task": "t", "schedule": 30, **fields}})
    assert why in reason(read("celery", text))


def test_a_moment_of_expiry_is_noted() -> None:
    found = entry(options={"expires": "2030-01-01T00:00:00Z"})
    assert "options.expires" in noted(found)
    assert "expires_after_ms" not in found.body


# Django


def test_a_fixture_joins_tasks_with_their_schedules() -> None:
    found = sample("django-celery-beat", "django_celery_beat.json")
    sync, ping, launch = found.drafts
    assert sync.body == {
        "job_id": "Sync-the-shop-twice-a-day-7b70be",
        "schedule_expr": "crontab(minute='0', hour='6,18', day_of_week='1-5',"
        " day_of_month='*', month_of_year='*')",
        "dialect": "celery",
        "timezone": "Asia/Tokyo",
        "start_at": "2025-01-01T00:00:00.000Z",
        "end_at": "2031-01-01T00:00:00.000Z",
        "overlap": "allow",
        "target": {"type": "worker", "handler": "shop.tasks.sync"},
        "payload": {"args": [1, "two"], "kwargs": {"three": 3}},
        "queue": "sync",
    }
    assert (ping.body["schedule_expr"], ping.body["max_runs"], ping.paused) == (
        "every 10m",
        1,
        True,
    )
    assert ping.body["expires_after_ms"] == 60_000
    assert launch.body["schedule_expr"] == "2030-05-01T12:00:00.000Z"
    assert "max_runs" not in launch.body
    reasons = {refusal.place: refusal.reason for refusal in found.refusals}
    assert "by the sun (sunrise)" in reasons["PeriodicTask 4"]
    assert "shortest interval" in reasons["PeriodicTask 5"]
    assert {(note.field, note.value) for note in found.notes} == {
        ("model", "auth.user"),
        ("intervalschedule", "3"),
    }


@pytest.mark.parametrize(
    ("every", "period", "expr"),
    [
        (2, "days", "every 2d"),
        (3, "hours", "every 3h"),
        (4, "minutes", "every 4m"),
        (5, "seconds", "every 5s"),
        (2_000_000, "microseconds", "every 2s"),
    ],
)
def test_an_interval_has_its_period(every: int, period: str, expr: str) -> None:
    app = "django_celery_beat"
    interval = {"every": every, "period": period}
    rows = [
        {"model": f"{app}.intervalschedule", "pk": 1, "fields": interval},
        {
            "model": f"{app}.periodictask",
            "pk": 1,
            "fields": {"name": "it", "task": "t", "interval": 1},
        },
    ]
    draft = only(read("django-celery-beat", json.dumps(rows)))
    assert draft.body["schedule_expr"] == expr


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "not 0 of them"),
        ({"interval": 1, "crontab": 1}, "not 2 of them"),
        ({"interval": 9}, "the fixture has no intervalschedule 9"),
        ({"interval": 1, "args": "[1"}, "args: not JSON"),
        ({"interval": 1, "enabled": "yes"}, "enabled must be true or false"),
    ],
)
def test_a_task_that_cannot_be_taken_is_refused(fields: dict[str, Any], why: str) -> None:
    rows = [
        {
            "model": "django_celery_beat.intervalschedule",
            "pk": 1,
            "fields": {"every": 1, "period": "days"},
        },
        {
            "model": "django_celery_beat.periodictask",
            "pk": 1,
            "fields": {"name": "it", "task": "t", **fields},
        },
    ]
    assert why in reason(read("django-celery-beat", json.dumps(rows)))


# RedBeat


def test_definitions_are_jobs_whether_texts_or_mappings() -> None:
    found = sample("redbeat", "redbeat.json")
    cleanup, tick, biweekly = found.drafts
    assert (cleanup.body["queue"], cleanup.body["payload"]) == ("low", {"args": [7], "kwargs": {}})
    assert (tick.body["schedule_expr"], tick.paused) == ("every 10s500ms", True)
    assert biweekly.body["schedule_expr"] == (
        "DTSTART:20260105T000000Z RRULE:FREQ=WEEKLY;INTERVAL=2;BYHOUR=9;BYMINUTE=0;BYSECOND=0"
        ";BYDAY=MO"
    )
    assert [refusal.place for refusal in found.refusals] == ["redbeat:broken"]


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ({"__type__": "rrule", "freq": 9}, "0 (yearly) to 6"),
        ({"__type__": "rrule", "freq": 0, "byeaster": 1}, "BYEASTER"),
        ({"__type__": "rrule", "freq": 2, "byweekday": [7]}, "0 (Monday) to 6"),
        (None, "schedule is missing"),
    ],
)
def test_a_definition_that_cannot_be_taken_is_refused(schedule: Any, why: str) -> None:
    text = json.dumps({"name": "it", "task": "t", "schedule": schedule})
    assert why in reason(read("redbeat", text))


def test_definitions_may_stand_in_a_list_or_a_line_each() -> None:
    one = {"name": "one", "task": "t", "schedule": {"__type__": "interval", "every": 5}}
    two = {**one, "name": "two"}
    lines = [json.dumps(one), json.dumps(two)]
    quoted = [json.dumps(line) for line in lines]
    for text in (json.dumps([one, two]), "\n".join(lines), "\n".join(quoted)):
        assert [draft.job_id for draft in read("redbeat", text).drafts] == ["one", "two"]
