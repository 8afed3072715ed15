"""`waterclock queues …` and `waterclock hosts …`: look at them, limit them, over the HTTP API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.job_options import given
from engine.cli.options import over_api
from engine.cli.show import print_facts, print_json, print_table


def _limits(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a limit."""
    for option in (
        click.option("--burst", type=int, help="How many may come at once. [default: 1]"),
        click.option("--rate", type=float, help="Executions a second."),
        click.option("--concurrency", type=int, help="Executions at once."),
    ):
        command = option(command)
    return command


def _all_pages(api: Api, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = None
    while True:
        page, after = api.get_page(path, after=after)
        found += page
        if after is None:
            return found


@click.group()
def queues() -> None:
    """Look at queues, limit, pause and resume them."""


@queues.command(name="list")
@over_api
def list_queues(api: Api, as_json: bool) -> None:
    """List queues, with their limits and what waits in them.

    Those that have settings or hold something back, and the usual ones.
    """
    found = _all_pages(api, "queues")
    if as_json:
        print_json(found)
        return
    columns = ("QUEUE", "STATE", "CONCURRENCY", "RATE", "BURST", "WAITING", "HELD", "RUNNING")
    print_table(columns, map(_queue_row, found))


@queues.command()
@click.argument("queue")
@over_api
def show(api: Api, queue: str, as_json: bool) -> None:
    """Show a queue: what is set, what waits, and what keeps it."""
    _print(api.get("queues", queue), as_json)


@queues.command(name="set")
@click.argument("queue")
@_limits
@over_api
def set_queue(api: Api, queue: str, as_json: bool, **limits: Any) -> None:
    """Set what a queue is allowed, in place of what was set.

    Without options it has no limits.
    """
    _print(api.put("queues", queue, body=given(limits)), as_json)


@queues.command()
@click.argument("queue")
@over_api
def pause(api: Api, queue: str, as_json: bool) -> None:
    """Hand out nothing more of a queue; what runs goes on."""
    _print(api.post("queues", queue, "pause"), as_json)


@queues.command()
@click.argument("queue")
@over_api
def resume(api: Api, queue: str, as_json: bool) -> None:
    """Hand out a queue's executions again."""
    _print(api.post("queues", queue, "resume"), as_json)


@click.group()
def hosts() -> None:
    """Look at the hosts of http targets and limit them."""


@hosts.command(name="list")
@over_api
def list_hosts(api: Api, as_json: bool) -> None:
    """List hosts with limits, or that asked for less."""
    found = _all_pages(api, "hosts")
    if as_json:
        print_json(found)
        return
    names = ("host", "concurrency", "rate", "burst", "held", "pushed_back_at")
    rows = [tuple(host[name] for name in names) for host in found]
    print_table([name.upper().replace("_", " ") for name in names], rows)


@hosts.command(name="show")
@click.argument("host")
@over_api
def show_host(api: Api, host: str, as_json: bool) -> None:
    """Show what a host is allowed, and what waits for it."""
    _print(api.get("hosts", host), as_json)


@hosts.command(name="set")
@click.argument("host")
@_limits
@over_api
def set_host(api: Api, host: str, as_json: bool, **limits: Any) -> None:
    """Set what a host is allowed, in place of what was set.

    HOST is as it stands in URLs.
    """
    _print(api.put("hosts", host, body=given(limits)), as_json)


@hosts.command()
@click.argument("host")
@over_api
def unset(api: Api, host: str, as_json: bool) -> None:
    """Lift all limits of a host."""
    api.delete("hosts", host)
    if as_json:
        print_json({"host": host, "limited": False})
    else:
        click.echo(f"lifted the limits of {host}")


def _queue_row(queue: dict[str, Any]) -> tuple[object, ...]:
    return (
        queue["queue"],
        "paused" if queue["paused"] else "active",
        queue["concurrency"],
        queue["rate"],
        queue["burst"],
        sum(queue["waiting"].values()),
        sum(queue["held"].values()),
        queue["running"],
    )


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    facts: list[tuple[str, object]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            facts += [(f"{name} ({part})", count) for part, count in value.items()]
        else:
            facts.append((name, value))
    print_facts(facts)
