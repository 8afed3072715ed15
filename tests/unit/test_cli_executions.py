"""`waterclock executions …`: what is asked, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli import main, options

ATTEMPT = {
    "attempt": 2,
    "outcome": "dead",
    "started_at": "2027-01-15T08:00:01.000Z",
    "duration_ms": 40,
    "worker": "w1",
    "status_code": 503,
    "error": "HTTP 503",
}
TIMES = ("--scheduled-after", "A", "--scheduled-before", "B")
DEAD: dict[str, Any] = {
    "execution_id": "mail@1800000000000",
    "job_id": "mail",
    "scheduled_for": "2027-01-15T08:00:00.000Z",
    "status": "dead",
    "attempt_count": 2,
    "attempts": [ATTEMPT],
}
SKIPPED: dict[str, Any] = {
    "job_id": "mail",
    "status": "skipped",
    "reason": "paused",
    "scheduled_for": "2027-01-15T07:00:00.000Z",
    "last_scheduled_for": "2027-01-15T07:30:00.000Z",
    "count": 3,
    "count_is_exact": True,
}


class FakeApi:
    """Keeps what it is asked; a list comes in pages of one."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def get(self, *path: str) -> Any:
        self.calls.append(path)
        return dict(DEAD)

    def get_page(self, *path: str, **query: Any) -> tuple[Any, str | None]:
        self.calls.append((path, query))
        return ([DEAD], "next") if query["after"] is None else ([SKIPPED], None)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str) -> str:
    result = CliRunner().invoke(main, ["executions", *args])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_jobs_are_listed_page_after_page(api: FakeApi) -> None:
    head, dead, skipped = run("list").splitlines()
    assert head.split() == ["EXECUTION", "SCHEDULED", "FOR", "STATUS", "ATTEMPTS", "WORKER", "NOTE"]
    assert dead.split() == [
        "mail@1800000000000",
        "2027-01-15T08:00:00.000Z",
        "dead",
        "2",
        "w1",
        "HTTP",
        "503",
    ]
    assert skipped.split()[:3] == ["mail", "2027-01-15T07:00:00.000Z", "skipped"]
    assert skipped.endswith("paused (3 times)")
    assert api.calls == [
        (("executions",), {"limit": 100, "after": None}),
        (("executions",), {"limit": 99, "after": "next"}),
    ]


def test_a_limit_ends_the_list(api: FakeApi) -> None:
    assert json.loads(run("list", "--limit", "1", "--json")) == [DEAD]
    assert len(api.calls) == 1


def test_filters_are_sent(api: FakeApi) -> None:
    run("list", "mail", "--status", "dead", "--status", "skipped", *TIMES)
    path, query = api.calls[0]
    assert path == ("jobs", "mail", "executions")
    assert query == {
        "status": ("dead", "skipped"),
        "scheduled_after": "A",
        "scheduled_before": "B",
        "limit": 100,
        "after": None,
    }
    run("list", "--group", "acme", "--queue", "http")
    assert api.calls[2][1]["group"] == "acme"
    assert api.calls[2][1]["queue"] == "http"


@pytest.mark.parametrize("option", ["--group", "--queue"])
def test_one_job_is_of_one_group_and_one_queue(api: FakeApi, option: str) -> None:
    result = CliRunner().invoke(main, ["executions", "list", "mail", option, "acme"])
    assert result.exit_code == 2
    assert api.calls == []


def test_a_status_that_is_none_is_refused_before_anything_is_asked(api: FakeApi) -> None:
    result = CliRunner().invoke(main, ["executions", "list", "--status", "lost"])
    assert result.exit_code == 2
    assert api.calls == []


def test_one_is_shown_with_its_attempts(api: FakeApi) -> None:
    lines = [line.split() for line in run("show", "mail@1800000000000").splitlines()]
    assert ["status", "dead"] in lines
    assert lines[-1] == ["2", "dead", "2027-01-15T08:00:01.000Z", "40", "w1", "503", "HTTP", "503"]
    assert json.loads(run("show", "mail@1800000000000", "--json")) == DEAD
    assert api.calls[0] == ("executions", "mail@1800000000000")
