"""`waterclock groups …`: what is sent for a command line, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options
from engine.cli.groups import STEP

GROUP = {"group": "acme", "jobs": 2, "payload_bytes": 8}
STATES = {"active": 1, "paused": 1, "completed": 0}


def step(changed: int, left: int = 0, after: str | None = None, **more: Any) -> dict[str, Any]:
    """Return what one step of the API is answered with."""
    found = {"changed": changed, "unchanged": 0, "failed": 0, "first_failed": []}
    return {**found, "left": left, "next": after, **more}


class FakeApi:
    """Keeps what it is asked, and gives `answers` in turn."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: list[Any] = []

    def _answer(self, *call: Any) -> Any:
        self.calls.append(call)
        return self.answers.pop(0)

    def get(self, *path: str) -> Any:
        return self._answer("GET", path)

    def get_page(self, *path: str, **query: Any) -> Any:
        return self._answer("GET", path, query)

    def post(self, *path: str, body: Any) -> Any:
        return self._answer("POST", path, body)

    def delete(self, *path: str, **query: Any) -> Any:
        return self._answer("DELETE", path, {k: v for k, v in query.items() if v is not None})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def groups(*args: str, exit_code: int = 0, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, ["groups", *args], input=stdin)
    assert result.exit_code == exit_code, result.output
    return result


def test_list_shows_the_groups_of_all_pages(api: FakeApi) -> None:
    api.answers = [([GROUP], "acme"), ([{**GROUP, "group": "umbra"}], None)]
    head, *rows = (line.split() for line in groups("list").stdout.splitlines())
    assert head == ["GROUP", "JOBS", "PAYLOAD", "BYTES"]
    assert rows == [["acme", "2", "8"], ["umbra", "2", "8"]]
    assert [call[2]["after"] for call in api.calls] == [None, "acme"]


def test_show_is_a_line_for_each_state(api: FakeApi) -> None:
    api.answers = [{**GROUP, "states": STATES, "states_are_exact": True}]
    lines = [line.split() for line in groups("show", "acme").stdout.splitlines()]
    assert lines == [[name, str(value)] for name, value in {**GROUP, **STATES}.items()]


def test_show_says_where_states_are_not_all_counted(api: FakeApi) -> None:
    api.answers = [{**GROUP, "states": STATES, "states_are_exact": False}]
    assert "active         1 or more\n" in groups("show", "acme").stdout


def test_all_steps_are_made_and_their_sum_is_printed(api: FakeApi) -> None:
    api.answers = [step(1_000, 500, "m"), step(499, unchanged=1)]
    printed = groups("pause", "acme", "--note", "unpaid", "--json").stdout
    assert json.loads(printed) == {
        "changed": 1_499,
        "unchanged": 1,
        "failed": 0,
        "first_failed": [],
    }
    path = ("groups", "acme", "pause")
    assert api.calls == [
        ("POST", path, {"note": "unpaid", "limit": STEP}),
        ("POST", path, {"note": "unpaid", "limit": STEP, "after": "m"}),
    ]


def test_a_resume_says_what_it_starts_and_skips(api: FakeApi) -> None:
    more: dict[str, Any] = {"starts": 4, "skipped": 3, "skipped_is_exact": True, "dry_run": True}
    api.answers = [step(2, **more)]
    printed = groups("resume", "acme", "--misfire", "fire_all", "--dry-run").stdout
    assert dict(line.rsplit(None, 1) for line in printed.splitlines()) == {
        "would resume": "2",
        "unchanged": "0",
        "failed": "0",
        "starts": "4",
        "skipped": "3",
    }
    [(_, _, body)] = api.calls
    assert body == {"misfire": "fire_all", "dry_run": True, "limit": STEP}


def test_a_resume_says_where_not_all_skipped_times_were_counted(api: FakeApi) -> None:
    one: dict[str, Any] = {"starts": 0, "skipped": 3, "dry_run": False}
    api.answers = [
        step(1, 1, "a", **one, skipped_is_exact=False),
        step(1, **one, skipped_is_exact=True),
    ]
    printed = groups("resume", "acme").stdout.splitlines()
    assert printed[-1].split() == ["skipped", "6", "or", "more"]


def test_deleting_asks_first_and_says_how_many(api: FakeApi) -> None:
    api.answers = [GROUP]
    result = groups("delete", "acme", exit_code=1, stdin="n\n")
    assert "Delete the 2 jobs of acme?" in result.stderr
    assert api.calls == [("GET", ("groups", "acme"))]


@pytest.mark.parametrize(
    ("flags", "query"),
    [
        ([], {}),
        (["--cascade"], {"dependents": "cascade"}),
        (["--detach"], {"dependents": "detach"}),
    ],
)
def test_deleting_says_what_becomes_of_dependents(
    api: FakeApi, flags: list[str], query: dict[str, str]
) -> None:
    api.answers = [step(2)]
    assert groups("delete", "acme", "--yes", *flags).stdout.split()[:2] == ["deleted", "2"]
    assert api.calls == [("DELETE", ("groups", "acme"), {**query, "limit": STEP})]


def test_failures_are_told_and_are_the_exit_code(api: FakeApi) -> None:
    failure = {"job_id": "a", "code": "has_dependents", "detail": "job e depends on job a"}
    api.answers = [step(1, failed=1, first_failed=[failure])]
    result = groups("delete", "acme", "--yes", exit_code=1)
    assert result.stderr == "a: job e depends on job a\n"
    assert ["failed", "1"] in [line.split() for line in result.stdout.splitlines()]


def test_cascade_and_detach_do_not_go_together(api: FakeApi) -> None:
    groups("delete", "acme", "--yes", "--cascade", "--detach", exit_code=2)
    assert api.calls == []
