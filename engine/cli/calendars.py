"""`waterclock calendars …`: look at calendars and change them, over the HTTP API."""

from __future__ import annotations

import json
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.options import confirm_one, over_api, yes_option
from engine.cli.show import print_facts, print_json, print_table

FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.group()
def calendars() -> None:
    """Look at calendars and change them."""


@calendars.command(name="list")
@over_api
def list_(api: Api, as_json: bool) -> None:
    """List calendars in order of their names."""
    found = api.get("calendars")
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "VERSION", "ZONE", "WEEKDAYS", "HOURS", "EXCLUDED", "INCLUDED"),
        [
            (
                line["name"],
                line["version"],
                line["timezone"],
                ",".join(line["weekdays"]) or None,
                ",".join(line["hours"]) or None,
                line["excluded"],
                line["included"],
            )
            for line in found["calendars"]
        ],
    )


@calendars.command()
@click.argument("name")
@over_api
def show(api: Api, name: str, as_json: bool) -> None:
    """Show a calendar."""
    _print(api.get("calendars", name), as_json)


@calendars.command()
@click.argument("name")
@click.argument("file", type=FILE)
@click.option("--if-version", type=int, help="Only if this version still stands.")
@over_api
def put(api: Api, name: str, file: str, if_version: int | None, as_json: bool) -> None:
    """Store a calendar as a JSON FILE says.

    "-" is standard input. The fields: timezone, weekdays (["MO", …]), hours (["09:00-17:30"]),
    exclude and include (["2026-12-25"]). `show --json` prints one; its name and version may stay in
    the file.
    """
    try:
        fields = json.loads(_bytes_of(file))
    except ValueError as error:
        raise click.ClickException(f"{file} is not JSON: {error}") from None
    if isinstance(fields, dict):
        fields.pop("name", None)
        fields.pop("version", None)
    _print(api.put("calendars", name, body=fields, version=if_version), as_json)


@calendars.command(name="import-ical")
@click.argument("name")
@click.argument("file", type=FILE)
@click.option(
    "--as",
    "dates",
    type=click.Choice(["exclude", "include"]),
    help="Which dates become those of the file. [default: exclude]",
)
@click.option("--if-version", type=int, help="Only if this version still stands.")
@over_api
def import_ical(
    api: Api, name: str, file: str, dates: str | None, if_version: int | None, as_json: bool
) -> None:
    """Take the days of an iCalendar FILE into a calendar.

    "-" is standard input. They take the place of its excluded dates; weekdays and hours stay. A
    calendar that is not there yet is made.
    """
    text = _bytes_of(file)
    found = api.put("calendars", name, ical=text, version=if_version, dates=dates)
    _print(found, as_json)


@calendars.command()
@click.argument("name")
@yes_option
@over_api
def delete(api: Api, name: str, as_json: bool, yes: bool) -> None:
    """Delete a calendar that no job uses."""
    confirm_one(f"Delete calendar {name}?", yes)
    api.delete("calendars", name)
    if as_json:
        print_json({"name": name, "deleted": True})
    else:
        click.echo(f"deleted {name}")


def _bytes_of(path: str) -> bytes:
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    return data


def _print(calendar: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(calendar)
        return
    print_facts(
        (name, ", ".join(value) or None if isinstance(value, list) else value)
        for name, value in calendar.items()
    )
