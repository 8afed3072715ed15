"""`python -m bench SCENARIO`: run a scenario, compare results, or write the report of all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bench import scenarios
from bench.against import measure_against
from bench.compare import WORSE_THAN, Row, compare, differences, table
from bench.environment import ROOT
from bench.report import README, RESULTS, load_plots, write_report
from bench.result import as_text, read_results
from bench.running import find_binary, run_scenario
from engine.errors import BadInput, WaterclockError

PATH = click.Path(path_type=Path)

QUICK = click.Option(["--quick"], is_flag=True, help="a small run, under half a minute")
JOBS = click.Option(
    ["--jobs"], type=click.IntRange(min=1), help="how many jobs, in place of the scenario's own"
)
SERVER = click.Option(["--server"], metavar="BIN", help="the server binary to start")
URL = click.Option(
    ["--url"],
    metavar="URL",
    help="run on this server, in place of one of its own. Its database must be empty, and is"
    " emptied (FLUSHDB) afterwards: nobody else may use it meanwhile",
)
JSON = click.Option(["--json"], type=PATH, metavar="FILE", help="write the result here, too")
FOLDER = click.option(
    "--results", type=PATH, default=RESULTS, help="the folder of results, if not bench/results"
)
PAGE = click.option(
    "--readme", type=PATH, default=README, help="the page to write into, if not README.md"
)


class Harness(click.Group):
    """Has a command for each scenario, and then its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*scenarios.NAMES, *self.commands]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return ScenarioCommand(name) if name in scenarios.NAMES else self.commands.get(name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WaterclockError as error:
            raise click.ClickException(error.message) from None


class ScenarioCommand(click.Command):
    """Runs one scenario. It is imported only then: some bring much."""

    def __init__(self, name: str) -> None:
        self._scenario = name
        help_text = scenarios.describe(name)
        super().__init__(
            name,
            callback=self._run,
            params=[JOBS, QUICK, SERVER, URL, JSON],
            help=help_text,
            short_help=" ".join(help_text.partition("\n\n")[0].split()),
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = scenarios.load(self._scenario).options
        return [
            *(click.Option([f"--{name}"], help=text) for name, text in own.items()),
            *super().get_params(ctx),
        ]

    def _run(
        self,
        jobs: int | None,
        quick: bool,
        server: str | None,
        url: str | None,
        json: Path | None,
        **own: str | None,
    ) -> None:
        if server and url:
            raise click.UsageError("--server starts one, --url names one: give one of them")
        if json is not None and not json.parent.is_dir():
            raise click.UsageError(f"--json: {json.parent} is no folder")
        result = run_scenario(
            self._scenario,
            jobs=jobs,
            is_quick=quick,
            url=url,
            binary=server,
            options={name: value for name, value in own.items() if value is not None},
        )
        text = as_text(result)
        click.echo(text)
        if json is not None:
            json.write_text(text + "\n", "utf-8")


@click.group(cls=Harness, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Waterclock: run a SCENARIO, compare results, or write the report of all.

    bench/README.md says how to read the figures.
    """


@main.command("compare", short_help="Hold results, or two revisions, against each other.")
@click.argument("what", nargs=-1, required=True, metavar="BEFORE AFTER | --against REV SCENARIO")
@click.option("--against", metavar="REV", help="run SCENARIO in turns at REV and in this tree")
@click.option("--rounds", type=click.IntRange(min=1), default=3, help="pairs of runs; 3 unless set")
@click.option("--jobs", type=click.IntRange(min=1), help="how many jobs a run has")
@click.option("--quick", is_flag=True, help="small runs")
@click.option("--server", metavar="BIN", help="the server binary to start")
@click.option(
    "--worse-than",
    type=click.FloatRange(min=0),
    default=WORSE_THAN,
    help=f"the part of a figure whose loss is told; {WORSE_THAN} unless set",
)
@click.option("--check", is_flag=True, help="exit with 1 if a figure is worse by more than that")
def compare_command(
    what: tuple[str, ...],
    against: str | None,
    rounds: int,
    worse_than: float,
    check: bool,
    **amounts: Any,
) -> None:
    """Print each figure before and after, and their ratio.

    BEFORE and AFTER are results, or folders of them. Machines are noisy, so that two results of
    different hours say little: with --against, SCENARIO is run at a revision of git and in this
    tree, in pairs, and medians are compared.
    """
    if against is None:
        compared = _compare_files(*_exactly(2, what, "BEFORE and AFTER"))
        for option in _words(amounts)[:1]:
            raise click.UsageError(f"{option} is for --against: results are there already")
    else:
        (name,) = _exactly(1, what, "one SCENARIO")
        compared = _compare_trees(name, against, rounds, amounts)
    is_worse = False
    for heading, warnings, rows in compared:
        click.echo(f"{heading}\n{table(rows, worse_than)}\n")
        for warning in warnings:
            click.echo(f"warning: not the same conditions: {warning}", err=True)
        is_worse |= any(row.is_worse(worse_than) for row in rows)
    if check and is_worse:
        sys.exit(1)


Compared = tuple[str, Sequence[str], Sequence[Row]]


def _exactly(count: int, what: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    if len(what) != count:
        raise click.UsageError(f"give {wanted}, not {' '.join(what)}")
    return what


def _compare_files(before: str, after: str) -> Iterator[Compared]:
    first, second = read_results(Path(before)), read_results(Path(after))
    if not first.keys() & second.keys():
        raise BadInput(f"{before} and {after} have no scenario in common")
    for name in (name for name in second if name in first):
        pair = first[name], second[name]
        yield name, differences(*pair), compare([pair])


def _compare_trees(
    name: str, revision: str, rounds: int, amounts: dict[str, Any]
) -> Iterator[Compared]:
    if name not in scenarios.NAMES:
        raise click.UsageError(f"{name!r} is no scenario; there are {', '.join(scenarios.NAMES)}")
    if amounts["server"]:
        amounts["server"] = str(find_binary(amounts["server"]))  # for two working directories
    pairs = measure_against(ROOT, revision, name, rounds, _words(amounts), _tell)
    yield f"{name}: {revision}, then this tree", differences(*pairs[-1]), compare(pairs)


@main.command("all", short_help="Run all scenarios and write the report.")
@click.option("--quick", is_flag=True, help="small runs: a look at whether all work")
@click.option("--server", metavar="BIN", help="the server binary to start")
@click.option("--url", metavar="URL", help="run on this server, as of a scenario")
@FOLDER
@PAGE
def all_command(results: Path, readme: Path, **given: Any) -> None:
    """Run all scenarios, each in a process of its own; write their results, and the report of them.

    What fails is told at the end; the others are in the report nevertheless.
    """
    load_plots()  # what they need is missed now rather than at the end
    results.mkdir(parents=True, exist_ok=True)
    failed = [
        name
        for name in scenarios.NAMES
        if not _run_apart(name, [*_words(given), "--json", str(results / f"{name}.json")])
    ]
    write_report(results, readme)
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


def _run_apart(name: str, options: Sequence[str]) -> bool:
    """Return whether a scenario, run in a process of its own, ended well. It tells by itself what
    is wrong."""
    _tell(f"{name} …")
    command = [sys.executable, "-m", "bench", name, *options]
    return not subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


@main.command("report", short_help="Write the report from the results that are there.")
@FOLDER
@PAGE
def report_command(results: Path, readme: Path) -> None:
    """Write the table of goals, and two plots, of the results in a folder into the page."""
    write_report(results, readme)


def _tell(text: str) -> None:
    """Say how far a long command is."""
    click.echo(text, err=True)


def _words(options: dict[str, Any]) -> list[str]:
    """Return options as words of a command line."""
    return [
        word
        for name, value in options.items()
        if value
        for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])
    ]


if __name__ == "__main__":
    main()
