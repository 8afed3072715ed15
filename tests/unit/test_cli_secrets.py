"""`waterclock secrets …`: what is sent for a command line, and what is printed of the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

MADE = {"id": "sec_1", "created_at": "2027-01-15T08:00:00.000Z", "expires_at": None}
Call = tuple[str, tuple[str, ...], dict[str, Any] | None]


class FakeApi:
    """Keeps what it is asked, and answers with a secret, or a list of one."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def post(self, *path: str, body: dict[str, Any]) -> Any:
        self.calls.append(("POST", path, body))
        return {**MADE, "secret": "whsec_x"}

    def get(self, *path: str) -> Any:
        self.calls.append(("GET", path, None))
        return {"secrets": [MADE]}

    def delete(self, *path: str) -> None:
        self.calls.append(("DELETE", path, None))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["secrets", *arguments], input=stdin)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("create", "--job", "a"), ("POST", ("jobs", "a", "secrets"), {})),
        (
            ("create", "--group", "acme", "--overlap-ms", "5"),
            ("POST", ("groups", "acme", "secrets"), {"overlap_ms": 5}),
        ),
        (("list", "--job", "a"), ("GET", ("jobs", "a", "secrets"), None)),
        (("list", "--group", "acme"), ("GET", ("groups", "acme", "secrets"), None)),
        (
            ("delete", "--job", "a", "sec_1"),
            ("DELETE", ("jobs", "a", "secrets", "sec_1"), None),
        ),
    ],
)
def test_a_command_asks_the_api_once(api: FakeApi, arguments: tuple[str, ...], call: Call) -> None:
    answer = run(*arguments)
    assert (answer.exit_code, api.calls) == (0, [call]), answer.output


def test_a_secret_of_ones_own_comes_from_a_file_and_not_from_the_command_line(
    api: FakeApi, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("whsec_own\n", "utf-8")
    assert run("create", "--job", "a", "--from", str(file)).exit_code == 0
    assert run("create", "--job", "a", "--from", "-", stdin="whsec_own\n").exit_code == 0
    assert [body for _, _, body in api.calls] == [{"secret": "whsec_own"}] * 2


def test_what_is_made_is_printed_with_its_secret(api: FakeApi) -> None:
    assert "whsec_x" in run("create", "--job", "a").output
    assert json.loads(run("create", "--job", "a", "--json").output)["secret"] == "whsec_x"


def test_lists_and_ends_are_printed(api: FakeApi) -> None:
    assert "sec_1" in run("list", "--job", "a").output
    assert json.loads(run("list", "--job", "a", "--json").output) == {"secrets": [MADE]}
    assert run("delete", "--job", "a", "sec_1").output == "ended sec_1\n"
    said = run("delete", "--job", "a", "sec_1", "--json").output
    assert json.loads(said) == {"id": "sec_1", "deleted": True}


@pytest.mark.parametrize("owner", [(), ("--job", "a", "--group", "acme")])
def test_exactly_one_owner_is_named(api: FakeApi, owner: tuple[str, ...]) -> None:
    for command in (("create",), ("list",), ("delete", "sec_1")):
        answer = run(*command, *owner)
        assert answer.exit_code == 2
        assert "one of --job and --group" in answer.output
    assert api.calls == []


def test_a_job_is_signed_and_filled_in_by_options(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    class Refusing(FakeApi):
        def post(self, *path: str, body: dict[str, Any]) -> Any:
            sent.append(body["target"])
            raise SystemExit(0)

    monkeypatch.setattr(options, "Api", lambda *_: Refusing())
    add = ["jobs", "add", "--url", "https://a.test/", "--signing", "group", "--template"]
    CliRunner().invoke(main, add)
    assert sent == [
        {"type": "http", "url": "https://a.test/", "signing": "group", "template": True}
    ]
    answer = CliRunner().invoke(main, ["jobs", "add", "--worker", "--signing", "job"])
    assert answer.exit_code == 2
