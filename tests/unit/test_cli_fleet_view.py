"""`waterclock shards | schedulers | workers | server`: what is asked, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from engine.cli import main, options

SHARD = {
    "shard": 3,
    "tag": "x",
    "holder": None,
    "fencing_token": 7,
    "lease_left_ms": 0,
    "oldest_due_at": None,
    "lag_ms": 12,
    "buckets": 1,
    "waiting": 4,
    "running": 5,
    "jobs": 6,
}
PROCESS = {
    "host": "here",
    "pid": 7,
    "version": "1.0",
    "timezones": "2026f",
    "clock_skew_ms": 2,
    "started_at": "2027-01-15T08:00:00.000Z",
    "last_seen_at": "2027-01-15T09:00:00.000Z",
}
SERVER = {
    "name": "valkey",
    "memory": {"used_bytes": 5, "most_bytes": None},
    "replicas": [{"address": "b:1", "state": "online"}],
    "deployment": {"versions": ["1.0", "1.1"]},
}


class FakeApi:
    """Answers each path with what `answers` has for it."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "shards": [SHARD],
            "schedulers": [{"scheduler": "s1", "shards": [0, 2], **PROCESS}],
            "workers": [
                {"worker": "w1", "queues": ["a", "b"], "concurrency": 9, "running": 1, **PROCESS}
            ],
            "server": SERVER,
        }

    def get(self, *path: str) -> Any:
        [name] = path
        return self.answers[name]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str) -> str:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", ["shards", "schedulers", "workers", "server"])
def test_json_is_what_the_api_says(api: FakeApi, command: str) -> None:
    assert json.loads(run(command, "--json")) == api.answers[command]


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("shards", ["3", "–", "7", "0", "12", "6", "4", "5"]),
        (
            "schedulers",
            ["s1", "here", "7", "1.0", "0,", "2", "2", "2027-01-15T09:00:00.000Z"],
        ),
        (
            "workers",
            ["w1", "here", "7", "1.0", "a,", "b", "9", "1", "2027-01-15T09:00:00.000Z"],
        ),
    ],
)
def test_lists_are_tables(api: FakeApi, command: str, row: list[str]) -> None:
    head, line = run(command).splitlines()
    assert head.isupper()
    assert line.split() == row


def test_the_server_is_a_fact_a_line(api: FakeApi) -> None:
    lines = [line.split(maxsplit=1) for line in run("server").splitlines()]
    assert lines == [
        ["name", "valkey"],
        ["memory.used_bytes", "5"],
        ["memory.most_bytes", "–"],
        ["replicas", "1"],
        ["replicas.0.address", "b:1"],
        ["replicas.0.state", "online"],
        ["deployment.versions", "1.0, 1.1"],
    ]
