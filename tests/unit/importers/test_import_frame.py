"""What all importers share: names, notes, targets, times, and the recognition of a source."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import NOW, OPTIONS, SAMPLES, noted, read, sample

from engine.errors import BadInput
from engine.importers import IMPORTERS, Draft, Options, recognise_source, with_own_ids
from engine.importers.entry import Entry
from engine.importers.imported import Fields, shown
from engine.importers.naming import handler_of, job_id_of, queue_of
from engine.names import JOB_ID, QUEUE


def entry(**options: Any) -> Entry:
    made = Entry("it", replace(OPTIONS, **options))
    made.every(60_000)
    return made


# Names


@given(st.text(min_size=1))
def test_every_name_has_an_id_and_a_queue_within_the_grammar(name: str) -> None:
    assert JOB_ID.fullmatch(job_id_of(name))
    assert QUEUE.fullmatch(queue_of(name))


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_names_have_two_ids(one: str, other: str) -> None:
    assert (job_id_of(one) == job_id_of(other)) == (one == other)


def test_a_good_name_is_kept_and_another_is_readable_still() -> None:
    assert job_id_of("shop.sync:v1", "eu-") == "eu-shop.sync:v1"
    assert re.fullmatch(r"Sync-the-shop-[0-9a-f]{6}", job_id_of("Sync the shop!"))
    assert len(job_id_of("x" * 500)) == 128
    assert len(queue_of("x" * 500)) == 64
    assert handler_of("x" * 128, 128) == "x" * 128
    assert len(handler_of("x" * 129, 128)) == 128


def test_entries_of_one_name_get_numbers_and_a_note() -> None:
    drafts = [Draft("a", {"job_id": "x" * 128}), Draft("b", {"job_id": "x" * 128})]
    one, two = with_own_ids(drafts)
    assert (one.job_id, two.job_id) == ("x" * 128, "x" * 126 + "-2")
    assert one.notes == ()
    assert "an entry before it" in two.notes[0].why


def test_a_prefix_and_a_group_hold_for_every_job() -> None:
    found = sample("kubernetes", "kubernetes.yaml", prefix="k.", group="all")
    assert [draft.job_id for draft in found.drafts] == ["k.shop.db-backup", "k.ping"]
    assert {draft.body["group"] for draft in found.drafts} == {"all"}
    assert noted(found.drafts[0])["metadata.namespace"] == "--group stands in its place"


# Notes


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("a", "b", "b"),
        ("a", 1, "1"),
        ("a", True, "true"),
        ("a", "x" * 500, "x" * 79 + "…"),
        ("db_password", "hunter2", "(not shown)"),
        ("Authorization", "hunter2", "(not shown)"),
        ("env", {"TOKEN": "hunter2", "a": 1}, "a mapping of TOKEN, a"),
        ("env", ["hunter2"], "a list of 1"),
    ],
)
def test_a_note_shows_a_value_and_no_secret(name: str, value: object, text: str) -> None:
    assert shown(name, value) == text


@pytest.mark.parametrize("source", ["django-celery-beat", "celery"])
def test_no_secret_of_a_sample_is_in_a_note(source: str) -> None:
    filename = {"celery": "celery.yaml"}.get(source, "django_celery_beat.json")
    found = sample(source, filename)
    told = [note for draft in found.drafts for note in draft.notes]
    assert "hunter2" not in repr([told, found.notes, found.refusals])


@pytest.mark.parametrize(
    ("method", "value", "why"),
    [
        ("text", 1, "a.b must be a text, not a number"),
        ("number", "1", "a.b must be a number, not a text"),
        ("number", True, "a.b must be a number, not true or false"),
        ("whole", 1.5, "a.b must be a whole number"),
        ("flag", "yes", "a.b must be true or false"),
        ("items", {"x": 1}, "a.b must be a list, not a mapping of x"),
        ("inner", [1], "a.b must be a mapping of fields, not a list of 1"),
        ("word", "", "a.b is missing"),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(method: str, value: Any, why: str) -> None:
    with pytest.raises(BadInput, match=re.escape(why)):
        getattr(Fields({"b": value}, "a"), method)("b")


# Targets


def test_without_a_target_a_job_waits_for_a_worker() -> None:
    job = entry()
    job.run("app.mail", {"a": 1}, queue="mail")
    assert job.body["target"] == {"type": "worker", "handler": "app.mail"}
    assert (job.body["payload"], job.body["queue"]) == ({"a": 1}, "mail")


def test_a_url_is_told_which_of_its_jobs_it_is() -> None:
    job = entry(url="https://example.com/run")
    job.run("app.mail", {"a": 1}, queue="mail")
    assert job.body["target"] == {"type": "http", "url": "https://example.com/run"}
    assert job.body["payload"] == {"handler": "app.mail", "payload": {"a": 1}}
    assert noted(job.draft("here")) == {
        "queue": "calls and commands wait in the queue of their kind"
    }


def test_a_target_of_the_map_stands_before_the_url() -> None:
    target = {"type": "http", "url": "https://example.com/mail"}
    job = entry(url="https://example.com/run", targets={"app.mail": target})
    job.run("app.mail", {"a": 1})
    assert (job.body["target"], job.body["payload"]) == (target, {"a": 1})
    assert job.draft("here").runs == "app.mail"


# Times


@pytest.mark.parametrize(
    ("value", "zone", "at"),
    [
        ("2030-01-31T09:00:00Z", None, "2030-01-31T09:00:00.000Z"),
        ("2030-01-31T09:00:00+02:00", "Asia/Tokyo", "2030-01-31T07:00:00.000Z"),
        ("2030-07-01 09:00:00", "Europe/Zurich", "2030-07-01T07:00:00.000Z"),
        ("2030-01-01", "Europe/Zurich", "2029-12-31T23:00:00.000Z"),
        (1709287200.5, None, "2024-03-01T10:00:00.500Z"),
        # The hour comes twice, the first one counts; and then not at all.
        ("2030-10-27T02:30:00", "Europe/Zurich", "2030-10-27T00:30:00.000Z"),
        ("2030-03-31T01:59:59", "Europe/Zurich", "2030-03-31T00:59:59.000Z"),
        ("2030-03-31T03:00:00", "Europe/Zurich", "2030-03-31T01:00:00.000Z"),
    ],
)
def test_a_time_is_read_in_the_zone_that_holds(value: Any, zone: str | None, at: str) -> None:
    assert entry().instant("at", value, zone) == at


@pytest.mark.parametrize("value", ["soon", "2030-02-30", -1, 1e18, None])
def test_what_is_no_time_is_refused(value: Any) -> None:
    with pytest.raises(BadInput, match="at: "):
        entry().instant("at", value)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(5_400_000, "every 1h30m"), (1_500, "every 1s500ms"), (86_400_000 * 8, "every 8d")],
)
def test_an_interval_is_spelled_in_its_units(ms: int, text: str) -> None:
    job = Entry("it", OPTIONS)
    job.every(ms)
    assert job.body["schedule_expr"] == text


def test_a_draft_that_the_engine_would_refuse_does_not_come_to_be() -> None:
    job = entry()
    job.run("a", {"b": {1, 2}})
    with pytest.raises(BadInput, match="a value that JSON has not"):
        job.draft("here")
    job = entry()
    job.bounds("2031-01-01T00:00:00Z", "2030-01-01T00:00:00Z")
    with pytest.raises(BadInput, match="end_at is before start_at"):
        job.draft("here")


# Sources


@pytest.mark.parametrize(
    ("filename", "source"),
    [
        ("apscheduler.json", "apscheduler"),
        ("celery.yaml", "celery"),
        ("django_celery_beat.json", "django-celery-beat"),
        ("eventbridge.json", "eventbridge"),
        ("kubernetes.yaml", "kubernetes"),
        ("quartz.xml", "quartz"),
        ("redbeat.json", "redbeat"),
        ("sidekiq.yml", "sidekiq"),
    ],
)
def test_a_sample_says_where_it_comes_from(filename: str, source: str) -> None:
    assert recognise_source((SAMPLES / filename).read_text(), filename) == source


@pytest.mark.parametrize(
    ("text", "filename", "source"),
    [
        ("a = 1", "celeryconfig.py", "celery"),
        ("0 5 * * * x", "/etc/crontab", "crontab"),
        ("cleanup: {cron: '0 3 * * *', class: A}", "schedule.yml", "sidekiq"),
        ('[{"name": "a", "cron": "0 3 * * *", "class": "A"}]', "-", "sidekiq"),
        ('{"a": {"task": "t", "schedule": 30}}', "-", "celery"),
        ('[{"Name": "a", "ScheduleExpression": "rate(1 day)"}]', "-", "eventbridge"),
        ('{"name": "a", "task": "t", "schedule": {"__type__": "interval"}}', "-", "redbeat"),
    ],
)
def test_a_source_is_recognised_by_its_shape(text: str, filename: str, source: str) -> None:
    assert recognise_source(text, filename) == source


@pytest.mark.parametrize("text", ["", "0 5 * * * x", "a: 1", "[]", "[1]", "{"])
def test_what_has_no_shape_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--from"):
        recognise_source(text)


@pytest.mark.parametrize("source", IMPORTERS)
@pytest.mark.parametrize("text", ["", "}", "[1, null]", '"a"', "a: [", "<a/>", "\x00", "\ud800"])
def test_no_text_makes_an_importer_fail(source: str, text: str) -> None:
    options: Options = replace(OPTIONS, url="https://example.com/x", now=NOW)
    try:
        found = IMPORTERS[source].read(text, options)
    except BadInput:
        return
    assert all(refusal.reason for refusal in found.refusals)


FIELDS = (
    *("Name", "Target", "ScheduleExpression", "kind", "metadata", "spec", "schedule", "task"),
    *("crontab", "model", "pk", "fields", "jobs", "trigger", "id", "func", "type", "cron", "class"),
    *("every", "args", "kwargs", "options", "definition"),
)


@given(
    st.sampled_from([*IMPORTERS]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(FIELDS),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    ),
)
def test_no_document_makes_an_importer_fail(source: str, document: Any) -> None:
    try:
        read(source, json.dumps(document), url="https://example.com/x")
    except BadInput:
        pass
