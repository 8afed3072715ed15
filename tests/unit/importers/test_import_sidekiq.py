"""Sidekiq: sidekiq-cron and sidekiq-scheduler, as their YAML is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reading import noted, only, read, reason, sample

from engine.errors import BadInput
from engine.importers import Imported


def found(**fields: Any) -> Imported:
    return read("sidekiq", json.dumps({"it": {"class": "A", **fields}}))


def when(**fields: Any) -> tuple[str, str, str]:
    body = only(found(**fields)).body
    return body["dialect"], body["schedule_expr"], body["timezone"]


def test_the_entries_of_a_schedule_are_jobs() -> None:
    all_found = sample("sidekiq", "sidekiq.yml")
    drafts = {draft.job_id: draft for draft in all_found.drafts}
    assert drafts["shop.cleanup"].body == {
        "job_id": "shop.cleanup",
        "schedule_expr": "0 3 * * *",
        "dialect": "vixie",
        "timezone": "Europe/Zurich",
        "overlap": "allow",
        "group": "shop",
        "target": {"type": "worker", "handler": "CleanupJob"},
        "payload": {"args": [7, {"hard": True}]},
        "queue": "low",
        "retry": {"max_attempts": 6},
    }
    assert drafts["shop.cleanup"].paused
    assert drafts["seconds"].paused
    assert not drafts["reports"].paused
    assert drafts["new-year"].body["payload"] == {"args": ["midnight"]}
    assert [refusal.place for refusal in all_found.refusals] == ["soon", "poetry"]
    assert [note.field for note in all_found.notes] == ["concurrency", "queues"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cron": "0 3 * * *"}, ("vixie", "0 3 * * *", "UTC")),
        ({"cron": "0 3 * * MON"}, ("vixie", "0 3 * * MON", "UTC")),
        ({"cron": "0 3 * * * America/New_York"}, ("vixie", "0 3 * * *", "America/New_York")),
        ({"cron": "0 3 * * * UTC"}, ("vixie", "0 3 * * *", "UTC")),
        ({"cron": "*/30 * * * * * Asia/Tokyo"}, ("node", "*/30 * * * * *", "Asia/Tokyo")),
        ({"cron": "@daily"}, ("vixie", "@daily", "UTC")),
        ({"cron": "@daily Asia/Tokyo"}, ("vixie", "@daily", "Asia/Tokyo")),
        ({"cron": "every 2 hours"}, ("interval", "every 2h", "UTC")),
        ({"cron": "every minute"}, ("interval", "every 1m", "UTC")),
        ({"every": "1h30m"}, ("interval", "every 1h30m", "UTC")),
        ({"every": "1w"}, ("interval", "every 7d", "UTC")),
        ({"every": "1d12h"}, ("interval", "every 1d12h", "UTC")),
        ({"every": 90}, ("interval", "every 1m30s", "UTC")),
        ({"interval": "5m"}, ("interval", "every 5m", "UTC")),
        ({"at": "2030-01-01 00:00:00"}, ("rfc3339", "2030-01-01T00:00:00.000Z", "UTC")),
        ({"at": "2030/07/01 00:00 Europe/Zurich"}, ("rfc3339", "2030-06-30T22:00:00.000Z", "UTC")),
    ],
)
def test_a_schedule_is_read_as_fugit_reads_it(
    fields: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert when(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "not 0 of them"),
        ({"cron": "0 3 * * *", "every": "5m"}, "not 2 of them"),
        ({"cron": "0 25 * * *"}, "hour: '25'"),
        ({"cron": "at noon on sundays"}, "natural language"),
        ({"cron": "0 3 * * * Mars/Base"}, "unknown timezone"),
        ({"every": "soon"}, "'soon' is not a duration"),
        ({"every": ["5m", 6]}, "a text and a mapping of options"),
        ({"in": "5m"}, "the start of the process"),
        ({"at": "soon"}, "at: 'soon'"),
        ({"every": "5m", "retry": [1]}, "retry must be a number"),
        ({"every": "5m", "class": 5}, "class must be a text"),
    ],
)
def test_an_entry_that_cannot_be_taken_is_refused(fields: dict[str, Any], why: str) -> None:
    assert why in reason(found(**fields))


@pytest.mark.parametrize(("retry", "attempts"), [(True, 26), (False, 1), (0, 1), (3, 4), ("5", 6)])
def test_retries_are_attempts_beside_the_first(retry: Any, attempts: int) -> None:
    body = only(found(every="5m", retry=retry)).body
    assert body["retry"]["max_attempts"] == attempts


@pytest.mark.parametrize(
    ("fields", "paused"),
    [
        ({}, False),
        ({"status": "enabled"}, False),
        ({"status": "disabled"}, True),
        ({"enabled": False}, True),
        ({"enabled": True}, False),
    ],
)
def test_what_is_switched_off_is_paused(fields: dict[str, Any], paused: bool) -> None:
    assert only(found(every="5m", **fields)).paused is paused


def test_options_of_an_interval_are_noted_one_by_one() -> None:
    draft = only(found(every=["5m", {"first_in": "10s", "overlap": False}]))
    assert {"every.first_in", "every.overlap"} <= noted(draft).keys()


@pytest.mark.parametrize("text", ["5", '"x"'])
def test_a_document_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="a schedule is a mapping"):
        read("sidekiq", text)


def test_symbols_of_ruby_are_words_and_arguments_stay_as_they_are() -> None:
    text = ":schedule:\n  :it:\n    :every: 5m\n    :class: A\n    :args: [{':a': 1}]\n"
    draft = only(read("sidekiq", text))
    assert draft.body["payload"] == {"args": [{":a": 1}]}
