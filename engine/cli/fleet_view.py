"""`waterclock shards | schedulers | workers | server`: the fleet as it stands."""

from __future__ import annotations

from typing import Any

import click

from engine.cli.client import Api
from engine.cli.options import over_api
from engine.cli.show import print_facts, print_json, print_table


@click.command()
@over_api
def shards(api: Api, as_json: bool) -> None:
    """List the shards: who fires for each, and how late it is."""
    _print(
        api.get("shards"),
        (
            "shard",
            "holder",
            "fencing_token",
            "lease_left_ms",
            "lag_ms",
            "jobs",
            "waiting",
            "running",
        ),
        as_json,
    )


@click.command()
@over_api
def schedulers(api: Api, as_json: bool) -> None:
    """List the schedulers, and which shards they hold."""
    _print(
        api.get("schedulers"),
        ("scheduler", "host", "pid", "version", "shards", "clock_skew_ms", "last_seen_at"),
        as_json,
    )


@click.command()
@over_api
def workers(api: Api, as_json: bool) -> None:
    """List the workers: what they read, and what they run."""
    names = ("worker", "host", "pid", "version", "queues", "concurrency", "running", "last_seen_at")
    _print(api.get("workers"), names, as_json)


@click.command()
@over_api
def server(api: Api, as_json: bool) -> None:
    """Show the server below it all, and what is deployed on it."""
    found = api.get("server")
    if as_json:
        print_json(found)
    else:
        print_facts(_flat(found))


def _print(found: list[dict[str, Any]], names: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [tuple(_told(one[name]) for name in names) for one in found]
    print_table([name.upper().replace("_", " ") for name in names], rows)


def _flat(found: dict[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Return names and values of an object, and of those inside it."""
    facts: list[tuple[str, object]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            facts += _flat(value, f"{before}{name}.")
        elif name == "replicas":
            facts.append((name, len(value)))
            for at, replica in enumerate(value):
                facts += _flat(replica, f"replicas.{at}.")
        else:
            facts.append((before + name, _told(value)))
    return facts


def _told(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
