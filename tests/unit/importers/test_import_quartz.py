"""Quartz: triggers and their jobs, and XML that would do more than describe them."""

from __future__ import annotations

import pytest
from reading import noted, only, read, reason, sample

from engine.errors import BadInput
from engine.importers import Draft, Imported

JOB = "<job><name>J</name><job-class>com.example.J</job-class></job>"


def document(trigger: str, job: str = JOB) -> str:
    schedule = f"{job}<trigger>{trigger}</trigger>"
    return f"<job-scheduling-data><schedule>{schedule}</schedule></job-scheduling-data>"


def found(kind: str, fields: str) -> Imported:
    trigger = f"<{kind}><name>T</name><job-name>J</job-name>{fields}</{kind}>"
    return read("quartz", document(trigger))


def draft(kind: str, fields: str) -> Draft:
    return only(found(kind, fields))


def test_each_trigger_is_a_job() -> None:
    all_found = sample("quartz", "quartz.xml")
    nightly, ten, quarterly = all_found.drafts
    assert nightly.body == {
        "job_id": "billing.nightly",
        "schedule_expr": "0 30 2 ? * MON-FRI",
        "dialect": "quartz",
        "timezone": "Europe/Zurich",
        "start_at": "2025-01-01T00:00:00.000Z",
        "end_at": "2030-12-31T23:00:00.000Z",
        "misfire": {"policy": "skip"},
        "overlap": "allow",
        "group": "billing",
        "target": {"type": "worker", "handler": "com.example.InvoiceJob"},
        "payload": {"job": "Invoices", "data": {"currency": "CHF", "dry": "true"}},
    }
    assert nightly.paused
    assert "cron.calendar-name" in noted(nightly)
    assert (ten.body["max_runs"], ten.body["start_at"]) == (10, "2026-01-01T00:00:30.000Z")
    assert (
        quarterly.body["schedule_expr"] == "DTSTART:20260331T060000 RRULE:FREQ=MONTHLY;INTERVAL=3"
    )
    assert "a month that is too short" in str(noted(quarterly))
    assert [refusal.place for refusal in all_found.refusals] == [
        "trigger 4, lost",
        "job DEFAULT.Orphan",
    ]
    assert [note.field for note in all_found.notes] == [
        "overwrite-existing-data",
        "ignore-duplicates",
        "delete-jobs-in-group",
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "policy"),
    [
        ("cron", "", "fire_once"),
        ("cron", "MISFIRE_INSTRUCTION_SMART_POLICY", "fire_once"),
        ("cron", "MISFIRE_INSTRUCTION_DO_NOTHING", "skip"),
        ("cron", "DO_NOTHING", "skip"),
        ("cron", "MISFIRE_INSTRUCTION_FIRE_ONCE_NOW", "fire_once"),
        ("cron", "MISFIRE_INSTRUCTION_IGNORE_MISFIRE_POLICY", "fire_all"),
        ("simple", "", "skip"),
        ("simple", "MISFIRE_INSTRUCTION_FIRE_NOW", "fire_once"),
        ("simple", "MISFIRE_INSTRUCTION_RESCHEDULE_NEXT_WITH_REMAINING_COUNT", "skip"),
        ("simple", "MISFIRE_INSTRUCTION_RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT", "fire_once"),
    ],
)
def test_an_instruction_is_a_misfire_policy(kind: str, fields: str, policy: str) -> None:
    when = {
        "cron": "<cron-expression>0 0 3 * * ?</cron-expression>",
        "simple": "<repeat-count>-1</repeat-count><repeat-interval>60000</repeat-interval>",
    }[kind]
    instruction = f"<misfire-instruction>{fields}</misfire-instruction>" if fields else ""
    made = draft(kind, when + instruction)
    assert made.body["misfire"] == {"policy": policy}
    assert ("simple.misfire-instruction" in noted(made)) == ("RESCHEDULE_NOW" in fields)


@pytest.mark.parametrize(
    ("unit", "expr"),
    [
        ("SECOND", "every 2s"),
        ("HOUR", "every 2h"),
        ("DAY", "DTSTART:20260105T090000 RRULE:FREQ=DAILY;INTERVAL=2"),
        ("WEEK", "DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2"),
        ("YEAR", "DTSTART:20260105T090000 RRULE:FREQ=YEARLY;INTERVAL=2"),
    ],
)
def test_a_calendar_interval_is_an_interval_or_a_rule(unit: str, expr: str) -> None:
    made = draft(
        "calendar-interval",
        "<start-time>2026-01-05T09:00:00Z</start-time><repeat-interval>2</repeat-interval>"
        f"<repeat-interval-unit>{unit}</repeat-interval-unit>",
    )
    assert made.body["schedule_expr"] == expr


def test_a_simple_trigger_of_one_time_is_a_time() -> None:
    made = draft("simple", "<start-time>2030-01-05T09:00:00Z</start-time>")
    assert made.body["schedule_expr"] == "2030-01-05T09:00:00.000Z"


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("simple", "", "when the scheduler starts"),
        ("simple", "<repeat-count>x</repeat-count>", "'x' is not a whole number"),
        ("simple", "<repeat-count>-2</repeat-count>", "-1 (for ever), 0 or more"),
        ("simple", "<repeat-count>-1</repeat-count>", "shorter than the shortest"),
        ("cron", "", "cron.cron-expression is missing"),
        ("cron", "<cron-expression>0 0 3 * * *</cron-expression>", "must be '?'"),
        ("daily", "", "not 'daily'"),
        ("calendar-interval", "<repeat-interval-unit>AEON</repeat-interval-unit>", "is one of"),
        (
            "cron",
            "<cron-expression>0 0 3 * * ?</cron-expression>"
            "<misfire-instruction>PANIC</misfire-instruction>",
            "'PANIC' is not known",
        ),
        ("cron", "<name>again</name>", "cron.name is there twice"),
    ],
)
def test_a_trigger_that_cannot_be_taken_is_refused(kind: str, fields: str, why: str) -> None:
    assert why in reason(found(kind, fields))


def test_a_job_that_is_there_twice_is_noted() -> None:
    trigger = (
        "<cron><name>T</name><job-name>J</job-name>"
        "<cron-expression>0 0 3 * * ?</cron-expression></cron>"
    )
    notes = read("quartz", document(trigger, JOB * 2)).notes
    assert [note.value for note in notes] == ["DEFAULT.J"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><job-scheduling-data/>', "DOCTYPE"),
        ('<!doctype a SYSTEM "file:///etc/passwd"><job-scheduling-data/>', "DOCTYPE"),
        ("<job-scheduling-data>", "not XML"),
        ("<beans/>", "'beans', not 'job-scheduling-data'"),
        ("&b;", "not XML"),
    ],
)
def test_other_documents_are_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read("quartz", text)


def test_the_declared_encoding_of_a_text_does_not_matter() -> None:
    text = f'\ufeff<?xml version="1.0" encoding="UTF-16"?>\n{document("")}'
    assert "a trigger holds" in read("quartz", text).refusals[0].reason
