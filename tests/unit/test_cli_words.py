"""What the API refuses is told in the options of the command that was given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
import pytest

from engine.cli import main
from engine.cli.client import Refused, fault_text
from engine.cli.words import in_own_words, option_for, place_of


@contextmanager
def running(path: str) -> Iterator[None]:
    """A command is being carried out."""
    command: click.Command = main
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.commands[name]
    with click.Context(command, info_name=path):
        yield


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("/target/url", "--url"),
        ("/target/headers/a~1b~0c", "--header a/b~c"),
        ("/target/env/PATH", "--env PATH"),
        ("/target/env", "--env"),
        ("/retry/max_attempts", "--max-attempts"),
        ("/retry/waits_ms/2", "--retry-wait-ms"),
        ("/retry/on/0", "--retry-on"),
        ("/misfire/policy", "--misfire"),
        ("/misfire/grace_ms", "--grace-ms"),
        ("/schedule_expr", "--schedule"),
        ("/schedule_expr/1", "--schedule"),
        ("/depends_on/0/job", "--depends-on"),
        ("/job_id", "--id"),
        ("/tags/3", "--tag"),
        ("/never_heard_of", "never_heard_of"),
        ("", ""),
    ],
)
def test_a_pointer_is_the_option_that_sets_it(pointer: str, place: str) -> None:
    with running("jobs add"):
        assert place_of(pointer) == place


def test_an_argument_is_called_as_the_usage_calls_it() -> None:
    with running("jobs edit"):
        assert place_of("/job_id") == "JOB_ID"


def test_a_parameter_of_a_query_is_its_option_too() -> None:
    with running("jobs list"):
        assert place_of("", "due_after") == "--due-after"
        assert place_of("", "other") == "other"
    with running("backfill"):
        assert place_of("/from") == "--from"


def test_of_several_spellings_the_longest_is_told() -> None:
    with running("jobs upcoming"):
        assert option_for("n") == "--limit"


def test_a_command_without_the_option_keeps_the_words_of_the_api() -> None:
    with running("jobs bulk"):
        assert place_of("/target/url") == "target.url"
        assert in_own_words("or allow_missing, `url`") == "or allow_missing, `url`"
    assert place_of("/target/url") == "target.url"


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        (
            "jobs delete",
            "dependents=cascade or dependents=detach",
            "--cascade or --detach",
        ),
        (
            "jobs add",
            "register it first, or allow_missing",
            "register it first, or --allow-missing",
        ),
        ("jobs edit", "not the one of If-Match; read it", "not the one of --if-version; read it"),
        ("calendars put", "not the one of If-Match", "not the one of --if-version"),
        ("jobs list", "not the one of If-Match", "not the one of If-Match"),
        ("jobs add", "name either `queue` or `color`", "name either --queue or `color`"),
    ],
)
def test_words_of_the_api_are_those_of_the_command(path: str, text: str, told: str) -> None:
    with running(path):
        assert in_own_words(text) == told


def test_a_refusal_is_told_in_these_words_whole() -> None:
    problem = {
        "code": "bad_input",
        "errors": [{"pointer": "/target/url", "detail": "see `timeout_ms`"}],
    }
    with running("jobs add"):
        assert Refused(problem).message == "--url: see --timeout-ms"
        assert fault_text({"pointer": "/queue", "detail": "no"}) == "--queue: no"
        refused = Refused({"code": "conflict", "detail": "allow_missing"})
    assert refused.message == "--allow-missing"
