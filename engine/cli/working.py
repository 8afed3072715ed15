"""`waterclock executions claim | heartbeat | complete | fail`: be a worker by hand, to try a queue
or to find out what a consumer does wrong. Over the HTTP API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.job_options import JSON, given
from engine.cli.options import over_api
from engine.cli.reading import items_of
from engine.cli.show import print_facts, print_json
from engine.names import WORKER_QUEUE

USUAL_NAME = "waterclock-cli"


@click.command()
@click.option("--name", "worker", default=USUAL_NAME, show_default=True, help="Who you are.")
@click.option(
    "--queue", "queues", multiple=True, help=f"May be given again. [default: {WORKER_QUEUE}]"
)
@click.option("--max", type=int, help="Claim up to so many. [default: 1]")
@click.option("--wait-ms", type=int, help="How long to wait for work where there is none.")
@over_api
def claim(api: Api, as_json: bool, queues: tuple[str, ...], **body: Any) -> None:
    """Take work from a queue as a worker does; print the lease."""
    found = api.work("claim", body=given({"queues": [*queues] or None, **body}))
    if as_json:
        print_json(found)
        return
    claimed = found if isinstance(found, list) else [found] if found else []
    for one in claimed:
        print_facts((name, value) for name, value in one.items())
    if not claimed:
        click.echo("There is nothing to claim.", err=True)


def _leased(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an execution and the lease of it."""
    for decorator in (
        click.option("--lease", required=True, help="The lease that the claim printed."),
        click.argument("execution_id"),
    ):
        command = decorator(command)
    return command


def _ended(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command what is said of any end."""
    for decorator in (
        click.option("--duration-ms", type=int, help="How long the work took."),
        click.option("--status-code", type=int, help="The HTTP status that it came to."),
    ):
        command = decorator(command)
    return command


@click.command()
@_leased
@over_api
def heartbeat(api: Api, execution_id: str, as_json: bool, lease: str) -> None:
    """Extend the lease of claimed work to its full length."""
    _print(api.work(execution_id, "heartbeat", body={"lease": lease}), as_json)


@click.command()
@_leased
@click.option("--result", type=JSON, help="JSON for the jobs that depend on this one.")
@_ended
@over_api
def complete(api: Api, execution_id: str, as_json: bool, **body: Any) -> None:
    """Say that claimed work has succeeded."""
    ended = given({"status": "succeeded", **body})
    _print(api.work(execution_id, "complete", body=ended), as_json)


@click.command()
@_leased
@click.option("--error", help="What went wrong.")
@click.option("--final", is_flag=True, default=None, help="Trying again cannot help.")
@click.option("--retry-after-ms", type=int, help="No other attempt before so long.")
@_ended
@over_api
def fail(api: Api, execution_id: str, as_json: bool, **body: Any) -> None:
    """Say that claimed work has failed.

    It is tried again, or dead.
    """
    _print(api.work(execution_id, "fail", body=given(body)), as_json)


@click.command(name="complete-many")
@click.argument("file", type=click.File("rb"))
@over_api
def complete_many(api: Api, file: Any, as_json: bool) -> None:
    """Say how much claimed work ended, as a FILE has it.

    "-" is standard input. FILE is a JSON array, or a line for each, of {"execution_id", "lease",
    "status", …}. The exit code is 1 if a lease was lost.
    """
    answers = api.work("complete", body=items_of(file))
    if as_json:
        print_json(answers)
    else:
        for one in answers:
            print_facts([(one["execution_id"], one.get("detail") or one["status"])])
    if any("code" in one for one in answers):
        click.get_current_context().exit(1)


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_facts(found.items())
