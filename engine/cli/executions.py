"""`waterclock executions …`: steer single executions, over the HTTP API."""

from __future__ import annotations

import click

from engine.cli.client import Api
from engine.cli.job_options import given
from engine.cli.options import over_api
from engine.cli.show import print_facts, print_json


@click.group()
def executions() -> None:
    """Steer single executions, over the HTTP API."""


@executions.command()
@click.argument("execution_id")
@click.option("--note", help="Why, for whoever looks at the history.")
@over_api
def cancel(api: Api, execution_id: str, as_json: bool, note: str | None) -> None:
    """End an execution that waits, runs or will be tried again.

    Whoever runs it is told at the next heartbeat.
    """
    found = api.post("executions", execution_id, "cancel", body=given({"note": note}) or None)
    if as_json:
        print_json(found)
    else:
        print_facts([(name, found[name]) for name in ("execution_id", "status")])


@executions.command()
@click.argument("execution_id")
@click.option("--downstream", is_flag=True, help="Run what depends on it again, too.")
@over_api
def rerun(api: Api, execution_id: str, as_json: bool, downstream: bool) -> None:
    """Run an execution again that has ended."""
    body = {"downstream": True} if downstream else None
    found = api.post("executions", execution_id, "rerun", body=body)
    if as_json:
        print_json(found)
    else:
        then = ", ".join(found["downstream"]) or None
        print_facts([("execution_id", execution_id), ("attempt", found["attempt"]), ("then", then)])
