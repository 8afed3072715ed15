"""Placeholders: what each stands for, where it may stand, and that nothing more happens to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.backoff import Retry
from engine.codec import load_json
from engine.errors import BadInput
from engine.model import HttpTarget, WorkerTarget
from engine.registration import register
from engine.templating import (
    WORDS,
    Context,
    asks_for,
    check_template,
    fill_header,
    fill_json,
    fill_url,
)

AT = 1_800_000_000_042
CONTEXT = Context(f"a:b@{AT}", "a:b", AT, 3, "dead")


def test_each_word_stands_for_what_is_known_of_the_attempt() -> None:
    given = {word: f"{{{{{word}}}}}" for word in WORDS if "." not in word}
    given |= {word: f"<{word}>" for word in WORDS if "." in word}
    filled = load_json(fill_json(json.dumps(given).encode(), CONTEXT))
    assert filled == {
        "execution_id": "a:b@1800000000042",
        "job_id": "a:b",
        "scheduled_for": "2027-01-15T08:00:00.042Z",
        "scheduled_for_ms": "1800000000042",
        "attempt": "3",
        "previous_outcome": "dead",
        "aws.scheduler.schedule-arn": "a:b",
        "aws.scheduler.scheduled-time": "2027-01-15T08:00:00Z",
        "aws.scheduler.execution-id": "a:b@1800000000042",
        "aws.scheduler.attempt-number": "3",
    }


def test_a_word_may_stand_apart_from_its_braces_and_amid_a_text() -> None:
    assert fill_json(b'["{{ attempt }}/{{attempt}}-{{job_id}}"]', CONTEXT) == b'["3/3-a:b"]'
    assert fill_header("Try {{attempt}} of <aws.scheduler.schedule-arn>", CONTEXT) == "Try 3 of a:b"


def test_what_is_put_in_is_never_looked_at_again() -> None:
    sly = Context(f"a@{AT}", "{{attempt}}", AT, 3, "<aws.scheduler.execution-id>")
    assert fill_header("{{job_id}}{{previous_outcome}}", sly) == (
        "{{attempt}}<aws.scheduler.execution-id>"
    )


def test_what_would_end_a_text_in_json_is_escaped() -> None:
    sly = Context(f"a@{AT}", '"}\\\n', AT, 3)
    assert load_json(fill_json(b'{"a":"{{job_id}}"}', sly)) == {"a": '"}\\\n'}


def test_in_a_url_path_and_query_are_filled_percent_encoded_and_the_host_never() -> None:
    url = "http://{{job_id}}.test:80/{{job_id}}?at={{scheduled_for}}&a={{attempt}}"
    assert fill_url(url, CONTEXT) == (
        "http://{{job_id}}.test:80/a%3Ab?at=2027-01-15T08%3A00%3A00.042Z&a=3"
    )
    assert fill_url("http://{{job_id}}?{{attempt}}", CONTEXT) == "http://{{job_id}}?3"
    sly = Context(f"a@{AT}", "/../x?y#z&", AT, 3)
    assert fill_url("http://a/{{job_id}}", sly) == "http://a/%2F..%2Fx%3Fy%23z%26"


def test_nothing_is_evaluated() -> None:
    for code in ("{{7*7}}", "{{attempt.__class__}}", "{% raw %}", "${attempt}", "{attempt}", "%s"):
        assert fill_header(code, CONTEXT) == code


@pytest.mark.parametrize(
    ("target", "payload", "field"),
    [
        ({}, {"a": ["{{executionid}}"]}, "payload"),
        ({}, {"{{nothing}}": 1}, "payload"),
        ({}, "{{}}", "payload"),
        ({}, "{{attempt|upper}}", "payload"),
        ({}, "<aws.scheduler.region>", "payload"),
        ({"url": "https://a.test/{{ID}}"}, None, "target.url"),
        ({"url": "https://a.test/?q={{id}}"}, None, "target.url"),
        ({"url": "https://{{job_id}}.test/"}, None, "target.url"),
        ({"url": "https://a.test:{{attempt}}/"}, None, "target.url"),
        ({"headers": {"X-A": "{{id}}"}}, None, "target.headers.X-A"),
    ],
)
def test_a_placeholder_that_is_not_known_is_refused_by_its_field(
    target: dict[str, Any], payload: Any, field: str
) -> None:
    asked = HttpTarget(**{"url": "https://a.test/", "template": True, **target})
    with pytest.raises(BadInput) as refused:
        register(now=AT, target=asked, payload=json.dumps(payload).encode())
    assert refused.value.field == field


def test_a_refusal_says_what_there_is_and_does_not_repeat_a_whole_payload() -> None:
    with pytest.raises(BadInput) as refused:
        check_template(HttpTarget("https://a.test/"), b'["{{' + b"x" * 5_000 + b'}}"]')
    assert len(refused.value.message) < 400
    assert "previous_outcome" in refused.value.message


def test_known_placeholders_braces_that_are_none_and_targets_that_are_no_templates_are_taken() -> (
    None
):
    taken = json.dumps({"a": {"b": {}}, "c": "{{attempt}} {not} {{ open", "d": "<aws>"})
    target = HttpTarget("https://a.test/{{job_id}}", {"X": "{{attempt}}"}, template=True)
    for asked in (target, HttpTarget("https://a.test/"), WorkerTarget()):
        payload = taken if asked is target else '"{{whatever}}"'
        made = register(now=AT, target=asked, payload=payload.encode(), retry=Retry())
        assert made.job.target == asked


def test_many_open_braces_cost_no_more_than_their_length() -> None:
    sly = b'"' + b"{{" * 60_000 + b"<aws.scheduler." * 8_000 + b'"'
    assert fill_json(sly, CONTEXT) == sly


def test_what_asks_for_a_word_is_seen_wherever_it_stands() -> None:
    word, placeholder = "previous_outcome", "{{ previous_outcome }}"
    plain = HttpTarget("https://a.test/")
    assert not asks_for(word, plain, b'"{{attempt}}"')
    assert asks_for(word, plain, f'"{placeholder}"'.encode())
    assert asks_for(word, HttpTarget("https://a.test/{{previous_outcome}}"), b"null")
    assert asks_for(word, HttpTarget("https://a.test/", {"X": placeholder}), b"null")


def test_a_bare_number_is_not_signed() -> None:
    asked = HttpTarget("https://a.test/", signing="job")
    for payload in (b"1800000000.5", b"5"):
        with pytest.raises(BadInput, match="bare number") as refused:
            register(now=AT, target=asked, payload=payload)
        assert refused.value.field == "payload"
    for payload in (b'{"n":5.5}', b"[5]", b"null", b'"5.5"', b"-5.5"):
        register(now=AT, target=asked, payload=payload)
    register(now=AT, target=HttpTarget("https://a.test/"), payload=b"5.5")


def test_what_a_group_signs_needs_a_group() -> None:
    asked = HttpTarget("https://a.test/", signing="group")
    with pytest.raises(BadInput) as refused:
        register(now=AT, target=asked)
    assert refused.value.field == "target.signing"
    assert register(now=AT, target=asked, group="acme").job.target == asked
