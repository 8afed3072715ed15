"""The command line: `waterclock COMMAND …`; `--help` says what each command does.

Processes run until a signal stops them; `next` and `lint` need no server; the others talk to the
HTTP API. Exit codes: 0 done, 1 it could not be done (one line says why), 2 the command line itself
is wrong.
"""

from __future__ import annotations

import click

from engine import __version__
from engine.cli.apply import apply
from engine.cli.backfill import backfill
from engine.cli.calendars import calendars
from engine.cli.completion import completion, offer_from_api
from engine.cli.dead import dead
from engine.cli.doctor import doctor
from engine.cli.events import events
from engine.cli.examples import give_examples
from engine.cli.executions import executions
from engine.cli.export import export
from engine.cli.fleet import api, scheduler, worker
from engine.cli.fleet_view import schedulers, server, shards, workers
from engine.cli.graph import graph
from engine.cli.groups import groups
from engine.cli.import_ import import_
from engine.cli.jobs import jobs
from engine.cli.keys import keys
from engine.cli.openapi import openapi
from engine.cli.options import json_option
from engine.cli.plan import plan, schema
from engine.cli.queues import hosts, queues
from engine.cli.schedules import explain, lint, next_, preview
from engine.cli.scripts import scripts
from engine.cli.secrets import secrets
from engine.cli.show import print_json
from engine.cli.themes import Program
from engine.cli.top import top
from engine.cli.transfer import deployment
from engine.cli.up import up


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Waterclock runs jobs at a time, on a schedule, or as soon as possible."""


@main.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": __version__})
    else:
        click.echo(f"waterclock {__version__}")


for command in (
    up,
    scheduler,
    worker,
    api,
    jobs,
    groups,
    graph,
    executions,
    dead,
    queues,
    hosts,
    secrets,
    keys,
    backfill,
    events,
    calendars,
    import_,
    plan,
    apply,
    export,
    schema,
    next_,
    lint,
    preview,
    explain,
    shards,
    schedulers,
    workers,
    server,
    top,
    doctor,
    scripts,
    openapi,
    deployment,
    completion,
):
    main.add_command(command)

offer_from_api(main)
give_examples(main)
