"""`waterclock doctor`: is all well, and if not, what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from engine.cli.client import Api
from engine.cli.options import over_api
from engine.cli.show import print_json, print_table
from engine.plan import ZONE_DATABASE


class Finding(NamedTuple):
    """One thing that was looked at. `advice` says what to do, where something is wrong."""

    check: str
    found: str
    advice: str | None = None


def findings(ready: dict[str, Any], zones_here: str = ZONE_DATABASE) -> Iterator[Finding]:
    """Yield what `/readyz` tells, with advice where it is not as it should be."""
    server = ready["server"]
    yield Finding("server", f"{server['name']} {server['version']}")
    yield Finding("maxmemory-policy", server["maxmemory_policy"])
    persistence = "append-only file" if server["is_persistent"] else "none"
    yield Finding(
        "persistence",
        persistence,
        None if server["is_persistent"] else "jobs go when the server ends: set appendonly yes",
    )
    alone = ready["shards_without_scheduler"]
    yield Finding(
        "shards with a scheduler",
        f"{ready['shards'] - alone} of {ready['shards']}",
        "nothing of the others fires: start `waterclock scheduler`" if alone else None,
    )
    zones = ready["timezones"]
    yield Finding(
        "time zones of the API",
        f"tzdata {zones}",
        None
        if zones == zones_here
        else f"this machine has {zones_here}: install the same tzdata on all",
    )


@click.command()
@over_api
def doctor(api: Api, as_json: bool) -> None:
    """Look at server, schedulers and time zones; exit code 1 if something is wrong."""
    found = list(findings(api.ready()))
    if as_json:
        print_json([finding._asdict() for finding in found])
    else:
        print_table(("CHECK", "FOUND", "WHAT TO DO"), found)
    if any(finding.advice for finding in found):
        raise SystemExit(1)
