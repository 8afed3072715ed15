"""A job for people: a summary of a few lines, a card without what is as usual."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.cli.card import print_card, print_summary, span, target_text, when_text

JOB: dict[str, Any] = {
    "job_id": "report",
    "version": 3,
    "state": "active",
    "schedule_expr": "0 9 * * *",
    "dialect": "vixie",
    "timezone": "Europe/Zurich",
    "dst_gap": "run_after",
    "dst_overlap": "first",
    "start_at": None,
    "end_at": None,
    "window_ms": 0,
    "calendars": [],
    "roll": "skip",
    "misfire": {"policy": "fire_once", "grace_ms": 60_000, "max_catch_up": 1},
    "target": {"type": "http", "url": "https://a.example/x?t=1", "headers": {}, "timeout_ms": 5000},
    "payload": None,
    "queue": "http",
    "retry": {
        "max_attempts": 3,
        "backoff": "exponential",
        "base_ms": 1000,
        "max_ms": 3_600_000,
        "waits_ms": None,
        "jitter": "equal",
        "max_elapsed_ms": None,
        "deadline_ms": None,
        "on": None,
    },
    "priority": "normal",
    "group": None,
    "tags": [],
    "overlap": "skip",
    "concurrency": 1,
    "max_runs": None,
    "runs_left": None,
    "expires_after_ms": None,
    "pause_after_failures": None,
    "delete_after_completion": False,
    "depends_on": [],
    "join": "all",
    "match": None,
    "gate": False,
    "gate_deadline_ms": None,
    "created_at": "2026-11-30T00:00:00.000Z",
    "next_run_at": "2026-12-01T08:00:00.000Z",
    "failures": 0,
    "queued": [],
    "live_executions": 0,
    "pause_note": None,
    "resume_note": None,
    "description": "at 09:00",
    "warnings": [],
}


WHOLE = "https://a.example/?t=1"
ASYNC = {"type": "http", "url": WHOLE, "respond_async": True, "heartbeat_ms": 9_000}


def summary(capsys: pytest.CaptureFixture[str], **changed: Any) -> list[str]:
    print_summary({**JOB, **changed})
    return capsys.readouterr().out.splitlines()


def card(capsys: pytest.CaptureFixture[str], **changed: Any) -> dict[str, str]:
    print_card({**JOB, **changed})
    lines = capsys.readouterr().out.splitlines()[1:]
    return dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in lines)


def test_a_summary_is_four_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert summary(capsys) == [
        "report  active",
        "  runs  https://a.example/x?…",
        "  when  at 09:00 (0 9 * * *, Europe/Zurich)",
        "  next  2026-12-01T08:00:00.000Z",
    ]


def test_a_summary_says_what_runs_at_once_and_what_a_resume_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = summary(capsys, next_run_at=None, schedule_expr=None, execution_id="report@5")
    assert lines[2:] == ["  when       at once, and once", "  execution  report@5"]
    skipped = {"count": 9, "count_is_exact": False, "last_scheduled_for": "B"}
    assert summary(capsys, catch_up={"run": ["A"], "skipped": skipped})[4:] == [
        "  makes up for  A",
        "  skips         9 or more until B",
    ]
    assert summary(capsys, catch_up={"run": [], "skipped": None})[4:] == ["  makes up for  nothing"]


def test_a_summary_says_why_a_job_is_paused(capsys: pytest.CaptureFixture[str]) -> None:
    note = {"by": "api", "at": "T", "note": "unpaid"}
    assert summary(capsys, state="paused", pause_note=note)[-1] == "  paused  T by api: unpaid"
    assert summary(capsys, state="paused", pause_note={**note, "note": ""})[-1] == (
        "  paused  T by api"
    )
    assert "paused" not in "".join(summary(capsys, pause_note=note))


def test_what_is_odd_about_a_schedule_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_summary({**JOB, "warnings": [{"code": "odd", "message": "never on Mondays"}]})
    assert capsys.readouterr().err == "warning: never on Mondays [odd]\n"


def test_a_card_leaves_out_what_is_as_usual(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*card(capsys)] == [
        "runs",
        "when",
        "next",
        "queue",
        "timeout",
        "retry",
        "misfire",
        "created",
        "version",
    ]


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("tags", ["a", "b"], "a, b"),
        ("overlap", "allow", "allow"),
        ("concurrency", 2, "2"),
        ("gate", True, "yes"),
        ("failures", 2, "2"),
        ("group", "acme", "acme"),
        ("target", {"type": "http", "url": "https://a.example/?t=1"}, ("runs", WHOLE)),
        ("target", {**ASYNC, "respond_async": False}, ("runs", WHOLE)),
        ("target", ASYNC, ("heartbeat", "9s")),
        ("gate_deadline_ms", 60_000, ("gate deadline", "1 min")),
        ("live_executions", 1, ("live executions", "1")),
        ("payload", {"a": 1}, "a=1"),
        ("payload", False, "no"),
    ],
)
def test_a_card_has_what_is_not_as_usual(
    capsys: pytest.CaptureFixture[str], field: str, value: object, shown: str | tuple[str, str]
) -> None:
    name, text = (field, shown) if isinstance(shown, str) else shown
    assert card(capsys, **{field: value})[name] == text


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "3 attempts, exponential from 1s to 1h"),
        ({"max_attempts": 1}, "none: one attempt"),
        ({"backoff": "list", "waits_ms": [1000, 90_000]}, "3 attempts, after 1s, 90s"),
        (
            {"jitter": "full", "max_elapsed_ms": 60_000, "deadline_ms": 1, "on": [503, "timeout"]},
            "3 attempts, exponential from 1s to 1h, jitter full, none later than 1 min,"
            " over after 1 ms, on 503, timeout",
        ),
    ],
)
def test_a_retry_policy_is_a_line(
    capsys: pytest.CaptureFixture[str], changed: dict[str, Any], told: str
) -> None:
    assert card(capsys, retry={**JOB["retry"], **changed})["retry"] == told


def test_a_target_that_answers_at_once_has_no_heartbeat(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "heartbeat" not in card(capsys, target={**ASYNC, "respond_async": False})


def test_nothing_of_a_job_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in "".join(summary(capsys, job_id="a\x1b[2J", description="\x1b[2J"))


def test_a_query_is_kept_back_unless_all_is_wanted() -> None:
    assert target_text(JOB) == "https://a.example/x?…"
    assert target_text({**JOB, "target": {"type": "worker"}}) == "queue http"


def test_when_says_what_is_waited_for() -> None:
    upstream = [{"job": "a", "condition": "succeeded"}, {"job": "b", "condition": "failed"}]
    alone = {**JOB, "schedule_expr": None, "depends_on": upstream}
    assert when_text(alone) == "after a, b (failed)"
    joined = {**JOB, "schedule_expr": ["@daily", "@hourly"], "description": None}
    assert when_text(joined) == "@daily, @hourly (Europe/Zurich)"
    assert when_text({**joined, "depends_on": upstream[:1]}).endswith("(Europe/Zurich), after a")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (1, "1 ms"), (1500, "1500 ms"), (90_000, "90s"), (7_200_000, "2h")],
)
def test_a_span_has_the_largest_unit_that_divides_it(ms: int, text: str) -> None:
    assert span(ms) == text
