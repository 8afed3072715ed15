"""`waterclock queues …` and `waterclock hosts …`: what is sent, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli import main, options

QUEUE: dict[str, Any] = {
    "queue": "mail",
    "paused": True,
    "fair": False,
    "concurrency": 5,
    "rate": None,
    "burst": 1,
    "waiting": {"high": 1, "normal": 2, "low": 3},
    "running": 4,
    "held": {"queue": 7, "groups": 0, "room": 1},
}
HOST: dict[str, Any] = {
    "host": "example.com",
    "concurrency": None,
    "rate": 2.5,
    "burst": 3,
    "held": 9,
    "pushed_back_at": None,
}


class FakeApi:
    """Keeps what it is asked, and answers `answer`; a list comes in two pages."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answer: Any = QUEUE

    def get(self, *path: str) -> Any:
        self.calls.append(("GET", path))
        return self.answer

    def get_page(self, *path: str, after: str | None) -> Any:
        self.calls.append(("GET", path, after))
        return ([self.answer], "mail") if after is None else ([self.answer], None)

    def put(self, *path: str, body: Any) -> Any:
        self.calls.append(("PUT", path, body))
        return self.answer

    def post(self, *path: str) -> Any:
        self.calls.append(("POST", path))
        return self.answer

    def delete(self, *path: str) -> None:
        self.calls.append(("DELETE", path))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str) -> str:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("args", "call"),
    [
        (["queues", "show", "mail"], ("GET", ("queues", "mail"))),
        (["queues", "set", "mail"], ("PUT", ("queues", "mail"), {})),
        (
            ["queues", "set", "mail", "--concurrency", "5", "--rate", "2.5", "--burst", "3"],
            ("PUT", ("queues", "mail"), {"concurrency": 5, "rate": 2.5, "burst": 3}),
        ),
        (["queues", "pause", "mail"], ("POST", ("queues", "mail", "pause"))),
        (["queues", "resume", "mail"], ("POST", ("queues", "mail", "resume"))),
        (["hosts", "show", "example.com"], ("GET", ("hosts", "example.com"))),
        (
            ["hosts", "set", "example.com", "--rate", "1"],
            ("PUT", ("hosts", "example.com"), {"rate": 1.0}),
        ),
    ],
)
def test_each_command_is_one_request(api: FakeApi, args: list[str], call: tuple[Any, ...]) -> None:
    assert json.loads(run(*args, "--json")) == QUEUE
    assert api.calls == [call]


def test_queues_are_listed_whole(api: FakeApi) -> None:
    head, first, second = run("queues", "list").splitlines()
    assert api.calls == [("GET", ("queues",), None), ("GET", ("queues",), "mail")]
    assert head.split() == [
        "QUEUE",
        "STATE",
        "CONCURRENCY",
        "RATE",
        "BURST",
        "WAITING",
        "HELD",
        "RUNNING",
    ]
    assert first.split() == ["mail", "paused", "5", "–", "1", "6", "8", "4"]
    assert first == second
    assert json.loads(run("queues", "list", "--json")) == [QUEUE, QUEUE]


def test_a_queue_is_shown_a_fact_a_line(api: FakeApi) -> None:
    lines = [line.rsplit(maxsplit=1) for line in run("queues", "show", "mail").splitlines()]
    assert lines[0] == ["queue", "mail"]
    assert ["waiting (low)", "3"] in lines
    assert ["held (queue)", "7"] in lines
    assert ["rate", "–"] in lines


def test_hosts_are_listed_whole(api: FakeApi) -> None:
    api.answer = HOST
    head, first, _ = run("hosts", "list").splitlines()
    assert head.split() == ["HOST", "CONCURRENCY", "RATE", "BURST", "HELD", "PUSHED", "BACK", "AT"]
    assert first.split() == ["example.com", "–", "2.5", "3", "9", "–"]
    assert json.loads(run("hosts", "list", "--json")) == [HOST, HOST]


def test_unset_says_what_it_did(api: FakeApi) -> None:
    assert run("hosts", "unset", "example.com") == "lifted the limits of example.com\n"
    told = json.loads(run("hosts", "unset", "example.com", "--json"))
    assert told == {"host": "example.com", "limited": False}
    assert api.calls == [("DELETE", ("hosts", "example.com"))] * 2
