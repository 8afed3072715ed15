"""The command line as a whole: exit codes, one-line errors, options that stand for settings."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from engine import __version__
from engine.cli import main, options
from engine.config import Config


@pytest.fixture(autouse=True)
def _keep_the_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "set_up_logging", lambda level: None)


def test_version_prints_the_packages_version() -> None:
    result = CliRunner().invoke(main, ["version"])
    assert (result.exit_code, result.output) == (0, f"waterclock {__version__}\n")


@pytest.mark.parametrize(
    "args",
    [
        ["fly"],
        ["up", "--port", "65536"],
        ["up", "--server-port", "0"],
        ["up", "--redis-url", "redis://127.0.0.1", "--server-port", "6379"],
        ["worker", "--concurrency", "0"],
        ["scheduler", "--log-level", "loud"],
    ],
)
def test_a_wrong_command_line_exits_with_2_before_anything_starts(args: list[str]) -> None:
    assert CliRunner().invoke(main, args).exit_code == 2


@pytest.mark.parametrize(
    ("args", "variable", "reason"),
    [
        (["worker"], ("WATERCLOCK_SHARDS", "0"), "WATERCLOCK_SHARDS: "),
        (["scheduler", "--redis-url", "http://127.0.0.1"], None, "must begin with redis://"),
        (["up"], ("WATERCLOCK_SERVER_BIN", "/no/such/server"), "not an executable file"),
        (["worker", "--queue", "a b"], None, "a queue name is"),
    ],
)
def test_what_cannot_work_exits_with_1_and_one_line(
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    variable: tuple[str, str] | None,
    reason: str,
) -> None:
    if variable:
        monkeypatch.setenv(*variable)
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 1
    [line] = result.output.splitlines()
    assert line.startswith("Error: ")
    assert reason in line


@pytest.mark.parametrize(
    ("command", "name"), [("up", "port"), ("api", "host"), ("worker", "worker_concurrency")]
)
def test_an_option_says_what_its_setting_says(command: str, name: str) -> None:
    [option] = [o for o in main.commands[command].params if o.name == name]
    field = Config.model_fields[name]
    text = str(option.to_info_dict()["help"])
    assert text.casefold().startswith(str(field.description).casefold())
    assert text.endswith(f"[WATERCLOCK_{name.upper()}; default: {field.default}]")


def test_no_command_writes_help_that_lacks_a_sentence() -> None:
    described = [*main.commands.values(), *main.commands["jobs"].commands.values()]  # type: ignore[attr-defined]
    assert [c.name for c in described if not (c.help or "").rstrip().endswith(".")] == []
