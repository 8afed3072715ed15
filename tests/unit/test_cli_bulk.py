"""`waterclock jobs bulk` and `bulk-delete`: what is sent, and what is printed of the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from engine.cli import bulk, main, options

REFUSAL = {
    "status": 400,
    "code": "bad_input",
    "detail": "2 parts are wrong",
    "errors": [
        {"pointer": "/queue", "detail": "no queue"},
        {"pointer": "/retry/max_ms", "detail": "too long"},
    ],
}


class FakeApi:
    """Keeps what it is sent. A line that holds an object is refused with its content."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], list[bytes], dict[str, object]]] = []
        self.fails_at = 0

    def post_lines(self, *path: str, lines: bytes, **query: object) -> Iterator[dict[str, Any]]:
        given = {name: value for name, value in query.items() if value is not None}
        sent = lines.splitlines()
        self.calls.append((path, sent, given))
        if len(self.calls) == self.fails_at:
            raise click.ClickException("no API answers")
        for number, line in enumerate(sent, 1):
            if (what := json.loads(line)) is not None:
                job = {"line": number, "job_id": f"job-{number}", "status": 201}
                yield job | (what if isinstance(what, dict) else {"status": what})


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def jobs(*args: str, lines: list[object]) -> Result:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return CliRunner().invoke(main, ["jobs", *args], input=text)


def test_lines_go_out_as_they_are_and_are_counted(api: FakeApi) -> None:
    result = jobs("bulk", "-", lines=[201, 201, 200])
    assert result.exit_code == 0, result.output
    assert api.calls == [(("jobs", "bulk"), [b"201", b"201", b"200"], {})]
    assert result.output.split() == ["created", "2", "replaced", "1"]


def test_a_file_is_read_by_its_name(api: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("204\n204")
    result = CliRunner().invoke(main, ["jobs", "bulk-delete", str(tmp_path / "jobs")])
    assert (result.exit_code, result.output.split()) == (0, ["deleted", "2"])
    assert api.calls == [(("jobs", "bulk-delete"), [b"204", b"204"], {})]


@pytest.mark.parametrize(
    ("args", "query"),
    [
        (["bulk", "--replace"], {"on_conflict": "replace"}),
        (["bulk-delete", "--cascade"], {"dependents": "cascade"}),
        (["bulk-delete", "--detach"], {"dependents": "detach"}),
    ],
)
def test_options_become_the_query(api: FakeApi, args: list[str], query: dict[str, str]) -> None:
    assert jobs(*args, "-", lines=[200]).exit_code == 0
    assert api.calls[0][2] == query


def test_dependents_have_one_fate(api: FakeApi) -> None:
    assert jobs("bulk-delete", "-", "--cascade", "--detach", lines=[]).exit_code == 2
    assert api.calls == []


def test_what_failed_is_shown_with_its_reasons_and_the_exit_code(api: FakeApi) -> None:
    result = jobs("bulk", "-", lines=[201, REFUSAL])
    assert result.exit_code == 1
    heading, row, *counts = result.output.splitlines()
    assert heading.split() == ["LINE", "ID", "CODE", "REASON"]
    assert row.split(maxsplit=3) == [
        "2",
        "job-2",
        "bad_input",
        "queue: no queue; retry.max_ms: too long",
    ]
    assert [line.split() for line in counts] == [["created", "1"], ["failed", "1"]]


def test_of_many_that_failed_some_are_shown(api: FakeApi) -> None:
    result = jobs("bulk", "-", lines=[REFUSAL] * 25)
    assert result.output.count("no queue") == bulk.MOST_SHOWN
    assert "and 5 more: --json shows all" in result.output


def test_json_is_a_line_for_each_line(api: FakeApi) -> None:
    result = jobs("bulk", "-", "--json", lines=[201, REFUSAL])
    assert result.exit_code == 1
    assert [json.loads(line) for line in result.output.splitlines()] == [
        {"line": 1, "job_id": "job-1", "status": 201},
        {"line": 2, "job_id": "job-2", **REFUSAL},
    ]


def test_a_long_file_goes_out_in_parts_and_keeps_its_line_numbers(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_LINES", 2)
    result = jobs("bulk", "-", "--json", lines=[201, None, 201, 201, REFUSAL])
    assert [len(sent) for _, sent, _ in api.calls] == [2, 2, 1]
    numbers = [json.loads(line)["line"] for line in result.output.splitlines()]
    assert numbers == [1, 3, 4, 5]


def test_parts_are_bounded_in_bytes_and_hold_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST_BYTES", 8)
    text = b"aaa\nbbb\nc\nlonger than all\n\nlast"
    found = list(bulk.parts(BytesIO(text)))
    assert found == [[b"aaa\n", b"bbb\n"], [b"c\n"], [b"longer than all\n"], [b"\n", b"last"]]


def test_when_the_api_goes_what_was_answered_is_told(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MOST_LINES", 2)
    api.fails_at = 2
    result = jobs("bulk", "-", lines=[201, 201, 201])
    assert result.exit_code == 1
    assert result.output.split() == ["created", "2", "Error:", "no", "API", "answers"]


def test_nothing_to_send_is_nothing_to_say(api: FakeApi) -> None:
    result = jobs("bulk", "-", lines=[])
    assert (result.exit_code, result.output, api.calls) == (0, "", [])
