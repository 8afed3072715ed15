"""The command line: `waterclock COMMAND …`; `--help` says what each command does.

Processes run until a signal stops them; `next` and `lint` need no server; the others talk to the
HTTP API. Exit codes: 0 done, 1 it could not be done (one line says why), 2 the command line itself
is wrong.
"""

from __future__ import annotations

from typing import Any

import click

from engine import __version__
from engine.cli.backfill import backfill
from engine.cli.calendars import calendars
from engine.cli.dead import dead
from engine.cli.doctor import doctor
from engine.cli.executions import executions
from engine.cli.fleet import api, scheduler, worker
from engine.cli.graph import graph
from engine.cli.jobs import jobs
from engine.cli.queues import hosts, queues
from engine.cli.schedules import explain, lint, next_
from engine.cli.scripts import scripts
from engine.cli.up import up
from engine.errors import WaterclockError


class _Main(click.Group):
    """A group whose commands may raise any WaterclockError: shown as one line, exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WaterclockError as error:
            raise click.ClickException(error.message) from error


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Waterclock runs jobs at a time, on a schedule, or as soon as possible."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"waterclock {__version__}")


for command in (
    up,
    scheduler,
    worker,
    api,
    jobs,
    graph,
    executions,
    dead,
    queues,
    hosts,
    backfill,
    calendars,
    next_,
    lint,
    explain,
    doctor,
    scripts,
):
    main.add_command(command)
