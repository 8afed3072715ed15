"""Which dialect a text is in when none is named: one that is certain, or none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import BadExpression, BadInput
from engine.plan import Cron, Once, Plan, parse_schedule
from engine.plan.dialects import DIALECTS, recognise

NOW = 1_767_225_600_000


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("0 9 * * 1-5", "vixie"),
        ("@daily", "vixie"),
        ("0 9 * * THU", "vixie"),
        ("0~30 9 * * *", "vixie"),
        ("0 9 * *", "vixie"),
        ("@fortnightly", "vixie"),
        ("every 90s", "interval"),
        ("PT90S", "iso8601"),
        ("P1D", "iso8601"),
        ("R/2026-01-01T00:00:00Z/PT1H", "iso8601"),
        ("2030-01-31T09:00:00Z", "rfc3339"),
        ("rate(5 minutes)", "aws"),
        ("cron(0 10 * * ? *)", "aws"),
        (" at(2030-01-31T09:00:00)", "aws"),
        ("RRULE:FREQ=DAILY", "rrule"),
        ("FREQ=DAILY;COUNT=3", "rrule"),
        ("DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=DAILY", "rrule"),
        ("@every 1h30m", "k8s"),
        ("CRON_TZ=Asia/Tokyo 30 4 * * *", "k8s"),
        ("TZ=Asia/Tokyo @daily", "k8s"),
        ("TZ=Asia/Tokyo\n30 4 * * *", "jenkins"),
        ("H * * * *", "jenkins"),
        ("0 H(0-7),12 * * *", "jenkins"),
        ("0 1,H * * *", "jenkins"),
        ("0 9 * * H", "jenkins"),
        ("H/15 * * * *", "jenkins"),
        ("crontab(minute=5)", "celery"),
        ("timedelta(days=1)", "airflow"),
    ],
)
def test_a_text_is_recognised_by_its_spelling(text: str, dialect: str) -> None:
    assert recognise(text) == dialect


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("0 0 12 * * ?", ["'?'", "character 12 ", "found 6", "Seconds come first", "year last"]),
        ("0 0 12 * * ? 2027", ["'?'", "found 7", "name the dialect"]),
    ],
)
def test_six_and_seven_fields_are_not_guessed(text: str, parts: list[str]) -> None:
    with pytest.raises(BadExpression) as caught:
        parse_schedule(text, now=NOW)
    assert caught.value.field == "schedule_expr"
    assert [part for part in parts if part not in caught.value.message] == []


def test_a_dialect_that_is_named_is_used_whatever_the_text_looks_like() -> None:
    assert parse_schedule("0 0 * * 0", now=NOW, dialect="k8s") == Cron("0 0 * * 0", "UTC", "k8s")
    for dialect, text in (
        ("quartz", "0 0 * * 0"),
        ("vixie", "0 0 12 * * ?"),
        ("spring", "every 90s"),
        ("vixie", "rate(5 minutes)"),
        ("vixie", "@every 5m"),
        ("node", "TZ=Asia/Tokyo 30 4 * * *"),
        ("interval", "0 0 * * *"),
    ):
        with pytest.raises(BadExpression):
            parse_schedule(text, now=NOW, dialect=dialect)


@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(
        st.text("0123456789*?,-/LW#~H()=@:.; \tSUNMONJAFRT", max_size=6), min_size=1, max_size=7
    ),
    start=st.sampled_from(["", "", "", "@", "TZ=UTC ", "cron(", "FREQ=", "P", "every ", "R/"]),
)
def test_whatever_the_text_it_is_read_or_refused(words: list[str], start: str) -> None:
    text = start + " ".join(words)
    for dialect in (None, *DIALECTS):
        refused = None
        try:
            schedule = parse_schedule(text, now=NOW, dialect=dialect, job_id="a")
        except BadInput as error:
            refused = error
        if refused:
            assert refused.field == "schedule_expr"
            continue
        anchor = schedule.at if isinstance(schedule, Once) else NOW
        at = Plan.of(schedule).first_after(NOW, anchor)
        assert at is not None
        assert at > NOW


def test_a_text_that_is_too_long_is_refused_before_it_is_looked_at() -> None:
    for dialect in (None, *DIALECTS):
        with pytest.raises(BadExpression, match="1000000 characters; at most 256"):
            parse_schedule("0 " * 500_000, now=NOW, dialect=dialect)


def test_every_dialect_says_what_it_is_in_a_line() -> None:
    for name, dialect in DIALECTS.items():
        assert dialect.name == name
        assert 10 < len(dialect.summary) < 80
        assert not dialect.summary.endswith(".")
