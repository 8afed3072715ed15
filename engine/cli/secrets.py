"""`waterclock secrets …`: what signs the webhooks of a job or a group, over the HTTP API."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.job_options import given
from engine.cli.options import confirm_one, over_api, yes_option
from engine.cli.show import print_facts, print_json, print_table

FILE = click.File(lazy=False)


@click.group()
def secrets() -> None:
    """Make, list and end the secrets that sign webhooks."""


def _of_owner(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options `--job` and `--group`; it gets the path of the owner's secrets."""

    @click.option("--job", help="The job whose webhooks they sign.")
    @click.option("--group", help="The group whose jobs' webhooks they sign.")
    @over_api
    @functools.wraps(command)
    def of_owner(api: Api, *, job: str | None, group: str | None, **options: Any) -> None:
        if (job is None) is (group is None):
            raise click.UsageError("give one of --job and --group")
        owner = ("jobs", job) if job is not None else ("groups", str(group))
        command(api, (*owner, "secrets"), **options)

    return of_owner


@secrets.command()
@click.option("--from", "file", type=FILE, help='Take the secret in this file ("-": stdin).')
@click.option("--overlap-ms", type=int, help="How long the one before stays valid. [a day]")
@_of_owner
def create(
    api: Api, path: tuple[str, ...], *, file: Any, overlap_ms: int | None, as_json: bool
) -> None:
    """Make a secret, and print it: nobody shows it again."""
    secret = file.read().strip() if file else None
    made = api.post(*path, body=given({"secret": secret, "overlap_ms": overlap_ms}))
    if as_json:
        print_json(made)
    else:
        print_facts(made.items())


@secrets.command(name="list")
@_of_owner
def list_(api: Api, path: tuple[str, ...], *, as_json: bool) -> None:
    """List the secrets that are valid, the newest first.

    Without the secrets themselves.
    """
    found = api.get(*path)
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "CREATED", "EXPIRES"),
        [(one["id"], one["created_at"], one["expires_at"]) for one in found["secrets"]],
    )


@secrets.command()
@click.argument("secret_id")
@yes_option
@_of_owner
def delete(api: Api, path: tuple[str, ...], *, secret_id: str, as_json: bool, yes: bool) -> None:
    """End a secret. Where it was the newest, the one before has no end any more."""
    confirm_one(f"End secret {secret_id}?", yes)
    api.delete(*path, secret_id)
    if as_json:
        print_json({"id": secret_id, "deleted": True})
    else:
        click.echo(f"ended {secret_id}")
