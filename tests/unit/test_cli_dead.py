"""`waterclock dead …` and cancelling: what is sent for a command line, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options
from engine.cli.client import Refused

AT = "2027-01-15T08:00:01.000Z"
LINE: dict[str, Any] = {
    "execution_id": "mail@5",
    "job_id": "mail",
    "scheduled_for": AT,
    "died_at": AT,
    "reason": "final",
    "queue": "http",
    "priority": "high",
    "attempt_count": 2,
    "error": None,
    "status_code": 404,
}
ATTEMPT = {
    "attempt": 2,
    "started_at": AT,
    "duration_ms": 40,
    "worker": "w1",
    "error": "HTTP 404: \x1b[31mno",
    "status_code": 404,
}
STEP: dict[str, Any] = {"examined": 2, "left": 0, "next": None}


class FakeApi:
    """Keeps what it is asked, and gives `answers` in turn."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: list[Any] = []

    def _answer(self, *call: Any) -> Any:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def get(self, *path: str) -> Any:
        return self._answer("GET", path)

    def get_page(self, *path: str, **query: Any) -> Any:
        return self._answer("GET", path, {k: v for k, v in query.items() if v is not None})

    def post(self, *path: str, body: Any = None) -> Any:
        return self._answer("POST", path, body)

    def delete(self, *path: str) -> Any:
        return self._answer("DELETE", path)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str, exit_code: int = 0, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, args, input=stdin)
    assert result.exit_code == exit_code, result.output
    return result


WANTED = {
    "job_id": "mail",
    "prefix": "ma",
    "queue": "http",
    "reason": "final",
    "error": "busy",
    "from": "2027-01-15T08:00:00Z",
    "to": "2027-01-16T08:00:00Z",
}
FILTER = [
    word
    for name, value in WANTED.items()
    for word in (f"--{'job' if name == 'job_id' else name}", value)
]


def test_list_sends_every_filter_and_prints_a_line_each(api: FakeApi) -> None:
    api.answers = [([LINE, {**LINE, "error": "HTTP 503: busy"}], None)]
    result = run("dead", "list", *FILTER, "--limit", "5", "--after", "9-a@1")
    assert api.calls == [("GET", ("dead",), {**WANTED, "limit": 5, "after": "9-a@1"})]
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["EXECUTION", "DIED", "AT", "REASON", "QUEUE", "ATTEMPTS", "ERROR"]
    assert first.split() == ["mail@5", AT, "final", "http", "2", "404"]
    assert second.split(maxsplit=5)[5] == "HTTP 503: busy"
    assert result.stderr == ""


def test_list_goes_on_through_short_pages_until_it_has_enough(api: FakeApi) -> None:
    api.answers = [([], "9-a@1"), ([LINE], "8-a@1"), ([LINE], "7-a@1")]
    result = run("dead", "list", "--limit", "2", "--json")
    assert [call[2] for call in api.calls] == [
        {"limit": 2},
        {"limit": 2, "after": "9-a@1"},
        {"limit": 1, "after": "8-a@1"},
    ]
    assert json.loads(result.stdout) == [LINE, LINE]
    assert result.stderr == "There are more: --after 7-a@1, or --all\n"


def test_show_prints_fields_and_attempts_and_nothing_that_steers_a_terminal(api: FakeApi) -> None:
    letter = {**LINE, "target": {"type": "worker"}, "payload": [1], "attempts": [ATTEMPT]}
    api.answers = [letter, letter]
    lines = run("dead", "show", "mail@5").output.splitlines()
    assert api.calls == [("GET", ("dead", "mail@5"))]
    assert lines[0].split() == ["execution_id", "mail@5"]
    assert ["payload", "[1]"] in [line.split(maxsplit=1) for line in lines]
    assert lines[-1].split(maxsplit=4) == ["2", AT, "40", "w1", r"HTTP 404: \x1b[31mno"]
    assert json.loads(run("dead", "show", "mail@5", "--json").output) == letter


@pytest.mark.parametrize(("verb", "done"), [("redrive", "redriven"), ("discard", "discarded")])
def test_a_filter_is_carried_out_step_by_step(api: FakeApi, verb: str, done: str) -> None:
    api.answers = [
        {done: 3, "skipped": {"live": 1}, "examined": 4, "left": 2, "next": "7-a@1"},
        {done: 2, "skipped": {"live": 1, "no_job": 2}, **STEP},
    ]
    result = run("dead", verb, *FILTER, "--yes")
    body = {**WANTED, "limit": 1_000}
    assert api.calls == [
        ("POST", ("dead", verb), body),
        ("POST", ("dead", verb), {**body, "after": "7-a@1"}),
    ]
    facts = [line.rsplit(maxsplit=1) for line in result.stdout.splitlines()]
    assert facts == [[done, "5"], ["skipped as live", "2"], ["skipped as no_job", "2"]]


def test_all_is_asked_about_and_no_means_no(api: FakeApi) -> None:
    result = run("dead", "redrive", "--all", stdin="n\n", exit_code=1)
    assert "Redrive all dead letters?" in result.stderr
    assert api.calls == []
    api.answers = [{"redriven": 2, **STEP}]
    told = run("dead", "redrive", "--all", "--json", stdin="y\n").stdout
    assert json.loads(told) == {"redriven": 2, "skipped": {}}
    assert api.calls == [("POST", ("dead", "redrive"), {"all": True, "limit": 1_000})]


def test_named_letters_are_redriven_one_by_one_without_a_question(api: FakeApi) -> None:
    no_job = Refused({"code": "conflict", "detail": "its job was deleted"})
    api.answers = [{"execution_id": "a@1"}, no_job]
    result = run("dead", "redrive", "a@1", "b@2", "--json")
    assert [call[1] for call in api.calls] == [
        ("dead", "a@1", "redrive"),
        ("dead", "b@2", "redrive"),
    ]
    assert json.loads(result.stdout) == {"redriven": 1, "skipped": {"conflict": 1}}
    assert result.stderr == "b@2: its job was deleted\n"


def test_the_exit_code_is_1_if_not_one_could_be_discarded(api: FakeApi) -> None:
    api.answers = [Refused({"code": "not_found", "detail": "no such letter"})]
    run("dead", "discard", "a@1", exit_code=1)
    assert api.calls == [("DELETE", ("dead", "a@1"))]
    api.answers = [{"discarded": 0, **STEP}]
    run("dead", "discard", "--all", "--yes")


@pytest.mark.parametrize("verb", ["redrive", "discard"])
@pytest.mark.parametrize(
    "args", [[], ["--yes"], ["a@1", "--all"], ["--all", "--job", "a"], ["a@1", "--queue", "b"]]
)
def test_a_choice_that_is_none_or_two_is_refused(api: FakeApi, verb: str, args: list[str]) -> None:
    result = run("dead", verb, *args, exit_code=2)
    assert "give execution ids, or a filter, or --all" in result.output
    assert api.calls == []


@pytest.mark.parametrize(
    ("args", "call", "answer", "printed"),
    [
        (
            ["executions", "cancel", "mail@5"],
            ("POST", ("executions", "mail@5", "cancel"), None),
            {"execution_id": "mail@5", "status": "cancelled", "attempts": []},
            "execution_id  mail@5\nstatus        cancelled\n",
        ),
        (
            ["jobs", "cancel", "mail", "--note", "enough"],
            ("POST", ("jobs", "mail", "cancel"), {"note": "enough"}),
            {"cancelled": 3},
            "cancelled  3\n",
        ),
    ],
)
def test_cancelling_is_one_request(
    api: FakeApi, args: list[str], call: tuple[Any, ...], answer: Any, printed: str
) -> None:
    api.answers = [answer, answer]
    assert run(*args).stdout == printed
    assert api.calls == [call]
    assert json.loads(run(*args, "--json").stdout) == answer
