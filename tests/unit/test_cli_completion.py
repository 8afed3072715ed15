"""What the Tab key offers: commands, options, and from the API what it knows; or nothing at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from test_cli_client import Answering, server

from engine.cli import main
from engine.cli.client import Api
from engine.cli.completion import OFFERED, SHELLS, Offered

__all__ = ["server"]

JOBS = {"jobs": [{"job_id": "report", "state": "active"}, {"job_id": "re:2", "state": "paused"}]}
EXECUTIONS = [
    {"execution_id": "report@5", "status": "dead", "reason": "final"},
    {"job_id": "report", "status": "skipped"},
]


def offered(line: str, shell: str = "zsh", **env: str) -> list[str]:
    """Return what is offered at the end of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), **env}
    result = CliRunner().invoke(
        main, [], prog_name="waterclock", env={"_WATERCLOCK_COMPLETE": f"{shell}_complete", **asked}
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    if shell == "bash":
        return [line.partition(",")[2] for line in result.stdout.splitlines() if line]
    lines = result.stdout.strip("\n").split("\n")
    return [value.replace("\\:", ":") for value in lines[1::3]]


def on(api: Answering, line: str, **env: str) -> list[str]:
    return offered(line, WATERCLOCK_API_URL=api.url, **env)


def test_commands_and_options_need_no_api() -> None:
    assert {"jobs", "groups"} < {*offered("waterclock ")}
    assert "show" in offered("waterclock jobs s")
    assert "--schedule" in offered("waterclock jobs add --sch")
    assert offered("waterclock jobs add --overlap queue_") == ["queue_one", "queue_all"]


@pytest.mark.parametrize(
    ("line", "answer", "path", "found"),
    [
        ("jobs show re", JOBS, "jobs?prefix=re&limit=100", ["report", "re:2"]),
        ("jobs show ", JOBS, "jobs?limit=100", ["report", "re:2"]),
        ("jobs show reporting", JOBS, "jobs?prefix=reporting&limit=100", []),
        ("jobs add --depends-on rep", JOBS, "jobs?prefix=rep&limit=100", ["report"]),
        ("secrets list --job rep", JOBS, "jobs?prefix=rep&limit=100", ["report"]),
        ("executions show rep", EXECUTIONS, "executions?limit=100", ["report@5"]),
        (
            "executions show report@",
            EXECUTIONS,
            "jobs/report/executions?limit=100",
            ["report@5"],
        ),
        ("dead show report@", EXECUTIONS[:1], "dead?prefix=report&limit=100", ["report@5"]),
        ("dead redrive rep", EXECUTIONS[:1], "dead?prefix=rep&limit=100", ["report@5"]),
        ("queues show m", [{"queue": "mail"}, {"queue": "http"}], "queues", ["mail"]),
        ("jobs list --queue ", [{"queue": "mail"}], "queues", ["mail"]),
        ("jobs list --group ", [{"group": "acme"}], "groups", ["acme"]),
        ("groups show ", [{"group": "acme"}], "groups", ["acme"]),
        ("calendars show ", {"calendars": [{"name": "office"}]}, "calendars", ["office"]),
        (
            "jobs add --calendar ",
            {"calendars": [{"name": "office"}]},
            "calendars",
            ["office"],
        ),
        ("hosts show ", [{"host": "a.example"}], "hosts", ["a.example"]),
    ],
)
def test_names_come_from_the_api(
    server: Answering, line: str, answer: object, path: str, found: list[str]
) -> None:
    server.body = json.dumps(answer).encode()
    assert on(server, f"waterclock {line}") == found
    assert [request[1] for request in server.requests] == [f"/v1/{path}"]


def test_the_api_is_the_one_of_the_line(server: Answering) -> None:
    server.body = json.dumps(JOBS).encode()
    assert offered(f"waterclock jobs show --api {server.url} rep") == ["report"]


@pytest.mark.parametrize("line", ["jobs add --id ", "calendars put new extra ", "up --host "])
def test_what_is_new_is_not_offered(server: Answering, line: str) -> None:
    on(server, f"waterclock {line}")
    assert server.requests == []


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"jobs": [{}]}', b'{"jobs": null}', b"3"]
)
def test_an_answer_that_means_nothing_offers_nothing(server: Answering, body: bytes) -> None:
    server.body = body
    assert on(server, "waterclock jobs show ") == []


def test_a_refusal_offers_nothing_and_says_nothing(server: Answering) -> None:
    server.status, server.body = 401, b'{"code": "unauthorized"}'
    assert on(server, "waterclock jobs show ") == []


@pytest.mark.parametrize(
    "env",
    [
        {"WATERCLOCK_API_URL": "http://127.0.0.1:1"},
        {"WATERCLOCK_API_URL": "nonsense"},
        {"WATERCLOCK_API_KEY": "no key"},
        {"WATERCLOCK_API_KEY_FILE": "/no/such/file"},
        {"WATERCLOCK_SHARDS": "0"},
    ],
)
def test_where_no_api_can_be_asked_nothing_is_said(env: dict[str, str]) -> None:
    assert offered("waterclock jobs show ", **env) == []


def test_a_silent_api_is_not_waited_for(server: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Slow(Api):
        def __init__(self, *args: object, timeout_s: float, **more: object) -> None:
            asked.append(timeout_s)
            super().__init__(server.url, timeout_s=timeout_s)

    # The package has a command of the module's name.
    monkeypatch.setattr(sys.modules["engine.cli.completion"], "Api", Slow)
    offered("waterclock jobs show ")
    assert asked == [1.0]


def test_every_name_of_the_table_is_one_of_a_parameter() -> None:
    def walk(command: click.Command, *path: str) -> set[str]:
        own = {
            name
            for param in command.params
            if isinstance(param.type, Offered)
            for name in (str(param.name), f"{path[0]}.{param.name}")
        }
        for name, inner in getattr(command, "commands", {}).items():
            own |= walk(inner, *path, name)
        return own

    assert OFFERED.keys() <= walk(main)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_asks_this_program(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_WATERCLOCK_COMPLETE={shell}_complete" in result.stdout
    assert "waterclock" in result.stdout


def test_a_shell_that_is_not_known_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


BREAKS = " \t\n\"'@><=;|&(:"


@pytest.mark.parametrize(
    ("begun", "rest"),
    [("report@", ["5"]), ("rep", ["report@5"]), ("", ["report@5"]), ("report@9", [])],
)
def test_bash_is_given_what_is_behind_its_cut(
    server: Answering, begun: str, rest: list[str]
) -> None:
    server.body = json.dumps(EXECUTIONS).encode()
    line = f"waterclock executions show {begun}"
    cut = line.replace("@", " @ ")
    found = offered(
        cut,
        "bash",
        WATERCLOCK_API_URL=server.url,
        COMP_LINE=line,
        COMP_WORDBREAKS=BREAKS,
    )
    assert found == rest


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
def test_a_real_bash_completes_an_id_with_its_script(server: Answering, tmp_path: Path) -> None:
    server.body = json.dumps(EXECUTIONS).encode()
    program = tmp_path / "waterclock"
    program.write_text(
        f"#!{sys.executable}\nfrom engine.cli import main\nmain(prog_name='waterclock')\n"
    )
    program.chmod(0o755)
    script = """
        source <(waterclock completion bash)
        COMP_LINE='waterclock executions show report@'
        COMP_POINT=${#COMP_LINE}
        COMP_WORDS=(waterclock executions show report @)
        COMP_CWORD=4
        _waterclock_completion waterclock
        echo "${COMPREPLY[@]}"
    """
    env = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "WATERCLOCK_API_URL": server.url,
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, timeout=30
    )
    assert (done.stdout, done.stderr) == ("5\n", "")
