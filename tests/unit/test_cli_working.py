"""`waterclock executions claim …`: what a worker by hand sends, and what it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

CLAIMED = {"execution_id": "mail@5", "attempt": 1, "payload": None, "lease": "L"}


class FakeApi:
    """Keeps what it is asked, and answers `answer`."""

    answer: Any = CLAIMED

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], object]] = []

    def work(self, *path: str, body: object) -> Any:
        self.calls.append((path, body))
        return self.answer


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["executions", *args])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    ("args", "path", "body"),
    [
        (["claim"], ("claim",), {"worker": "waterclock-cli"}),
        (
            [
                "claim",
                "--queue",
                "a",
                "--queue",
                "b",
                "--max",
                "3",
                "--wait-ms",
                "9",
                "--name",
                "me",
            ],
            ("claim",),
            {"worker": "me", "queues": ["a", "b"], "max": 3, "wait_ms": 9},
        ),
        (["heartbeat", "m@5", "--lease", "L"], ("m@5", "heartbeat"), {"lease": "L"}),
        (
            [
                "complete",
                "m@5",
                "--lease",
                "L",
                "--result",
                "[1]",
                "--duration-ms",
                "7",
                "--status-code",
                "200",
            ],
            ("m@5", "complete"),
            {
                "status": "succeeded",
                "lease": "L",
                "result": [1],
                "duration_ms": 7,
                "status_code": 200,
            },
        ),
        (
            ["fail", "m@5", "--lease", "L", "--error", "disk", "--final", "--retry-after-ms", "8"],
            ("m@5", "fail"),
            {"lease": "L", "error": "disk", "final": True, "retry_after_ms": 8},
        ),
    ],
)
def test_each_is_one_request(
    api: FakeApi, args: list[str], path: tuple[str, ...], body: object
) -> None:
    assert json.loads(run(*args, "--json").stdout) == CLAIMED
    assert api.calls == [(path, body)]


def test_a_claim_is_printed_with_its_lease_and_so_are_several(api: FakeApi) -> None:
    assert ["lease", "L"] in [line.split() for line in run("claim").stdout.splitlines()]
    api.answer = [CLAIMED, CLAIMED]
    assert run("claim", "--max", "2").stdout.count("mail@5") == 2


@pytest.mark.parametrize("nothing", [None, []])
def test_where_there_is_no_work_it_says_so(api: FakeApi, nothing: object) -> None:
    api.answer = nothing
    result = run("claim")
    assert (result.stdout, result.stderr) == ("", "There is nothing to claim.\n")
    assert json.loads(run("claim", "--json").stdout) == nothing


def test_an_end_needs_its_lease(api: FakeApi) -> None:
    run("complete", "m@5", code=2)
    assert api.calls == []


@pytest.mark.parametrize("text", ['[{"a": 1}, {"a": 2}]', '{"a": 1}\n\n{"a": 2}\n'])
def test_many_ends_come_from_an_array_or_from_lines(
    api: FakeApi, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "ends"
    file.write_text(text)
    api.answer = [{"execution_id": "m@5", "status": "succeeded", "already": False}]
    assert run("complete-many", str(file)).stdout == "m@5  succeeded\n"
    assert api.calls == [(("complete",), [{"a": 1}, {"a": 2}])]


def test_a_lost_lease_among_many_is_the_exit_code(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "ends").write_text("[]")
    api.answer = [{"execution_id": "m@5", "code": "stale_delivery", "detail": "it is lost"}]
    assert "it is lost" in run("complete-many", str(tmp_path / "ends"), code=1).stdout
