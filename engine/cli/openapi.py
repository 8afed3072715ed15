"""`waterclock openapi`: the description of the HTTP API, without a server."""

from __future__ import annotations

import click

from engine.cli.show import print_json


@click.command()
@click.option("--without-keys", is_flag=True, help="As an API that asks for no keys serves it.")
def openapi(without_keys: bool) -> None:
    """Print the OpenAPI description of the HTTP API.

    It is what a server has at /openapi.json.
    """
    from api.openapi import document  # which is a third of a second that no other command needs

    print_json(document(asks_for_keys=not without_keys))
