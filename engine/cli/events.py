"""`waterclock events`: what happens, as it happens, over the HTTP API."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich.text import Text

from engine.cli.client import Api, Refused, Unreachable
from engine.cli.options import over_api
from engine.cli.show import cell, print_line

Event = dict[str, Any]

WAIT_S = 2.0
"""After a cut, so long until the next try."""
_PASSING = ("busy", "unavailable", "rate_limited", "internal")
"""Codes of refusals that a later try may not meet."""
_AT_FRONT = ("event", "at", "job_id", "execution_id", "scheduled_for", "position")
"""What a line shows before the rest, or not at all."""
_WIDEST_KIND = len("backfill_cancelled")


@click.command()
@click.option("--kind", multiple=True, help="Only events of this kind; may be given again.")
@click.option("--job", "job_id", help="Only those of a job.")
@click.option("--prefix", help="Only those of jobs whose ids begin so.")
@click.option("--group", help="Only those of a group's jobs.")
@click.option(
    "--since", "after", metavar="POSITION", help="Begin there; 0 is the oldest that is kept."
)
@over_api
def events(api: Api, as_json: bool, after: str | None, **asked: Any) -> None:
    """Print what happens, as it happens; Ctrl-C ends.

    Goes on by itself where it was, after a connection that was cut. With --json it prints an object
    a line; `position` in it is what --since takes.
    """
    query = {name: value for name, value in asked.items() if value}
    try:
        for event in follow(api, after, **query):
            if as_json:
                click.echo(json.dumps(event))
            else:
                print_line(_line(event))
    except KeyboardInterrupt:
        pass


def follow(api: Api, since: str | None = None, **query: object) -> Iterator[Event]:
    """Yield events for ever, each once: those of a read when it is there in full, the last of them
    with the `position` behind it. What was cut off comes again.

    Raises as `Api` does where the first connection fails, or a later one is refused for good.
    """
    position, was_reached = since, False
    while True:
        try:
            with api.stream("events", after=position, **query) as lines:
                was_reached = True
                held: list[Event] = []
                for event, place in read_events(lines):
                    if event is not None:
                        held.append({**event, "position": place} if place else event)
                    # A gap has no place: what follows it has.
                    if place or (event and event["event"] == "gap"):
                        position = place or position
                        yield from held
                        held = []
        except Unreachable as error:
            if not was_reached:
                raise
            _tell(f"{error.message}; trying again")
        except Refused as error:
            if not was_reached or error.code not in _PASSING:
                raise
            _tell(f"{error.message}; trying again")
        time.sleep(WAIT_S)


def read_events(lines: Iterable[bytes]) -> Iterator[tuple[Event | None, str | None]]:
    """Yield what a stream of server-sent events says: data if there is any, and the id behind it if
    it has one."""
    data, place = "", None
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name == "data":
            data = value
        elif name == "id":
            place = value
        elif not name:
            if data or place:
                yield json.loads(data) if data else None, place
            data, place = "", None


def _tell(what: str) -> None:
    click.echo(what, err=True)


def _line(event: Event) -> Text:
    """Return an event as a line: when, what, of which, and what else there is to say."""
    kind = cell(event["event"])
    kind.pad_right(_WIDEST_KIND - kind.cell_len)
    subject = event.get("execution_id") or event.get("job_id", "events before this are lost")
    more = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in event.items()
        if name not in _AT_FRONT and value is not None
    ]
    at = event.get("at") or event.get("until")
    return Text("  ").join([cell(at), kind, cell(subject), cell(" ".join(more))])
