"""`waterclock backfill`: what is sent for a command line, and what is printed of the answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

RUNNING = {
    "job_id": "nightly",
    "state": "running",
    "from": "2026-11-01T00:00:00.000Z",
    "times": 30,
    "passed": 12,
    "live": 2,
    "succeeded": 9,
    "dead": 1,
    "next": "2026-11-13T01:00:00.000Z",
}
DONE = {**RUNNING, "state": "done", "passed": 30, "live": 0, "succeeded": 30, "dead": 0}
RANGE = ("--from", "2026-11-01T00:00:00Z", "--to", "2026-11-30T00:00:00Z")
BODY = {"from": RANGE[1], "to": RANGE[3]}


class FakeApi:
    """Keeps what it is asked, and gives its answers one after the other, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = [RUNNING]
        self.calls: list[tuple[str, tuple[str, ...], object]] = []

    def get(self, *path: str) -> Any:
        return self._answer("GET", path)

    def post(self, *path: str, body: object = None) -> Any:
        return self._answer("POST", path, body)

    def delete(self, *path: str) -> Any:
        return self._answer("DELETE", path)

    def _answer(self, method: str, path: tuple[str, ...], body: object = None) -> dict[str, Any]:
        self.calls.append((method, path, body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return api


def backfill(*args: str) -> Result:
    return CliRunner().invoke(main, ["backfill", "nightly", *args])


def test_a_range_is_sent_and_nothing_else(api: FakeApi) -> None:
    assert backfill(*RANGE).exit_code == 0
    assert api.calls == [("POST", ("jobs", "nightly", "backfills"), BODY)]


def test_every_option_is_sent(api: FakeApi) -> None:
    more = ["--reprocess", "failed", "--concurrency", "5", "--backwards", "--dry-run"]
    assert backfill(*RANGE, *more).exit_code == 0
    [(_, _, body)] = api.calls
    assert body == {
        **BODY,
        "reprocess": "failed",
        "concurrency": 5,
        "direction": "backwards",
        "dry_run": True,
    }


@pytest.mark.parametrize(("flag", "method"), [("--status", "GET"), ("--cancel", "DELETE")])
def test_one_is_looked_at_or_cancelled(api: FakeApi, flag: str, method: str) -> None:
    assert backfill(flag).exit_code == 0
    assert api.calls == [(method, ("jobs", "nightly", "backfill"), None)]


@pytest.mark.parametrize(
    "args",
    [
        (),
        RANGE[:2],
        RANGE[2:],
        ("--status", *RANGE),
        ("--cancel", "--dry-run"),
        (*RANGE, "--concurrency", "0"),
        (*RANGE, "--reprocess", "some"),
    ],
)
def test_a_command_line_that_makes_no_sense_sends_nothing(
    api: FakeApi, args: tuple[str, ...]
) -> None:
    assert backfill(*args).exit_code == 2
    assert api.calls == []


def test_a_backfill_is_printed_a_fact_a_line(api: FakeApi) -> None:
    lines = backfill(*RANGE).output.splitlines()
    assert [line.split() for line in lines][:2] == [["job_id", "nightly"], ["state", "running"]]
    assert len(lines) == len(RUNNING)


def test_a_preview_is_printed_with_its_times_and_reasons(api: FakeApi) -> None:
    api.answers = [{"run": 2, "first": ["a", "b"], "passed": {"live": 1, "unknown": 3}}]
    lines = [line.split() for line in backfill(*RANGE, "--dry-run").output.splitlines()]
    assert lines == [
        ["run", "2"],
        ["first", "a"],
        ["b"],
        ["passed", "as", "live", "1"],
        ["passed", "as", "unknown", "3"],
    ]


def test_json_is_the_answer_as_it_came(api: FakeApi) -> None:
    assert json.loads(backfill(*RANGE, "--json").stdout) == RUNNING


def test_waiting_asks_until_it_is_at_its_end(api: FakeApi) -> None:
    api.answers = [RUNNING, RUNNING, DONE]
    result = backfill(*RANGE, "--wait", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, DONE)
    assert [method for method, _, _ in api.calls] == ["POST", "GET", "GET"]


def test_waiting_for_one_that_is_there_orders_none(api: FakeApi) -> None:
    api.answers = [RUNNING, DONE]
    assert backfill("--status", "--wait").exit_code == 0
    assert [method for method, _, _ in api.calls] == ["GET", "GET"]


def test_waiting_fails_if_something_is_dead_in_the_end(api: FakeApi) -> None:
    api.answers = [RUNNING, {**DONE, "dead": 1}]
    assert backfill(*RANGE, "--wait").exit_code == 1
    assert backfill("--status").exit_code == 0


def test_a_dry_run_is_not_waited_for(api: FakeApi) -> None:
    api.answers = [{"run": 1, "first": [], "passed": {}}]
    assert backfill(*RANGE, "--dry-run", "--wait").exit_code == 0
    assert len(api.calls) == 1
