"""The house rules of the command line, held against every command that there is."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from engine.cli import main
from engine.cli.examples import EXAMPLES
from engine.cli.themes import THEMES

PROCESSES = {"up", "scheduler", "worker", "api"}
NO_JSON = {
    **dict.fromkeys(PROCESSES, "what it prints is its log"),
    "completion": "prints a script",
    "openapi": "prints JSON anyhow",
    "schema": "prints JSON anyhow",
    "deployment export": "prints JSON lines anyhow",
    "deployment thaw": "prints nothing on standard output",
}
"""Commands without `--json`, and why."""

DESTROYS = ("delete", "bulk-delete", "discard", "revoke", "thaw", "move")
"""Names of commands that something goes by for good."""


SYNONYMS = {
    "--force": "--yes",
    "-y": "--yes",
    "--output": "--json",
    "--count": "--limit",
    "--max-results": "--limit",
    "--cursor": "--after",
    "--namespace": "--group",
    "--starts-with": "--prefix",
    "--url-api": "--api",
    "--reason-text": "--note",
    "--comment": "--note",
    "--id-prefix": "--prefix",
}
"""Spellings that mean what another option means already."""


def walk(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command that does something, by its path."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from walk(inner, *path, name)
    else:
        yield " ".join(path), command


COMMANDS = dict(walk(main))


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return a command's options by each of their spellings."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {spelling: option for option in options for spelling in option.opts}


def test_each_command_that_prints_can_print_json() -> None:
    without = {path for path, command in COMMANDS.items() if "--json" not in options_of(command)}
    assert without == {*NO_JSON}


def test_each_command_that_destroys_asks_unless_it_is_told_not_to() -> None:
    destroying = {path for path in COMMANDS if path.split()[-1] in DESTROYS}
    assert len(destroying) > 8
    assert {path for path in destroying if "--yes" not in options_of(COMMANDS[path])} == set()


def test_one_thing_is_spelled_in_one_way() -> None:
    spelled = {word for command in COMMANDS.values() for word in options_of(command)}
    assert spelled & SYNONYMS.keys() == set()
    assert all(word.startswith("--") for word in spelled - {"-n"})


def test_an_option_of_one_name_is_of_one_kind_everywhere() -> None:
    kinds: defaultdict[str, set[object]] = defaultdict(set)
    for command in COMMANDS.values():
        for word, option in options_of(command).items():
            kinds[word].add((option.is_flag, option.count))
    mixed = {word for word, found in kinds.items() if len(found) > 1}
    # `backfill --status` is what to do; elsewhere it is a word to look for.
    assert mixed == {"--status"}


def test_options_of_the_api_are_the_same_on_each_command_that_asks_it() -> None:
    for path, command in COMMANDS.items():
        found = options_of(command)
        assert ("--api" in found) is ("--api-key-file" in found), path


@pytest.mark.parametrize("path", [*COMMANDS])
def test_a_command_says_what_it_does_in_a_line(path: str) -> None:
    said = COMMANDS[path].get_short_help_str(limit=61)
    assert said.endswith(".")
    assert not said.endswith("...")
    assert CliRunner().invoke(main, [*path.split(), "--help"]).exit_code == 0


@pytest.mark.parametrize("path", [*COMMANDS])
def test_each_option_says_what_it_is_for(path: str) -> None:
    # Where a name says it all, there is nothing to add.
    bare = {"--dialect"}
    options = options_of(COMMANDS[path])
    assert {word for word, option in options.items() if not option.help} <= bare


def test_each_command_has_its_theme() -> None:
    listed = [name for names in THEMES.values() for name in names]
    assert len(listed) == len({*listed})
    assert main.commands.keys() <= {*listed}
    shown = CliRunner().invoke(main, ["--help"]).output
    assert [line[:-1] for line in shown.splitlines() if line[:-1] in THEMES] == [*THEMES]
    assert main.list_commands(click.Context(main)) == [n for n in listed if n in main.commands]


@pytest.mark.parametrize("path", [*EXAMPLES])
def test_an_example_is_a_command_line_that_can_be_read(path: str) -> None:
    assert COMMANDS[path].epilog, "the help does not show it"
    for line in EXAMPLES[path]:
        if line.startswith("source <("):
            line = line[9:-1]
        words = shlex.split(line)
        assert words[: 1 + len(path.split())] == ["waterclock", *path.split()]
        rest = words[1 + len(path.split()) :]
        # A file of an example need not be here.
        rest = ["-" if word.endswith((".json", ".yaml")) else word for word in rest]
        with COMMANDS[path].make_context(path, rest):
            pass


def test_an_example_stands_in_the_help_as_it_is() -> None:
    shown = CliRunner().invoke(main, ["jobs", "add", "--help"], terminal_width=60).output
    for line in EXAMPLES["jobs add"]:
        assert f"  {line}\n" in shown
