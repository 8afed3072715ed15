"""`waterclock import --deployment` and `export --deployment` are `waterclock deployment …`."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from engine.cli import main
from engine.cli.carrying import with_deployment


def tried(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, args)
    return result.exit_code, result.output


@pytest.mark.parametrize("verb", ["import", "export"])
def test_the_help_with_the_flag_is_that_of_a_whole_deployment(verb: str) -> None:
    code, text = tried(verb, "--deployment", "--help")
    assert code == 0
    assert f"Usage: waterclock {verb} --deployment [OPTIONS]" in text.replace("main", "waterclock")
    assert "--redis-url" in text
    code, text = tried(verb, "--help")
    assert (code, "--deployment" in text, "--redis-url" in text) == (0, True, False)


def test_the_flag_may_stand_anywhere_among_the_options() -> None:
    for args in (("-", "--deployment", "--shards", "900"), ("--shards", "900", "--deployment")):
        code, text = tried("import", *args)
        assert (code, "1<=x<=256" in text) == (2, True)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--deployment", "--shards", "3", "x"], ["whole 3 x"]),
        (["x"], ["jobs x"]),
        (["--", "--deployment"], ["jobs --deployment"]),
    ],
)
def test_it_is_one_command_or_the_other(args: Sequence[str], told: list[str]) -> None:
    @click.command()
    @click.argument("file")
    @click.option("--shards", type=int)
    def whole(file: str, shards: int) -> None:
        click.echo(f"whole {shards} {file}")

    @click.command(cls=with_deployment(whole))
    @click.argument("file")
    def some(file: str) -> None:
        click.echo(f"jobs {file}")

    group = click.Group(commands=[some])
    assert CliRunner().invoke(group, ["some", *args]).output.splitlines() == told
