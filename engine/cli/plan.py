"""`waterclock plan`: what would change so that all is as files declare it; and `schema`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.live import Scope
from engine.cli.options import over_api
from engine.cli.show import print_json
from engine.declared import Difference, Plan, Source, Step
from engine.errors import BadInput
from engine.importers.documents import MAX_BYTES
from engine.logs import printable

CHANGES = 2
"""The exit code that says that there is something to do."""
MOST_SHOWN = 80
_SIGNS = {"add": ("+", "green"), "change": ("~", "yellow"), "delete": ("-", "red")}
_SUFFIXES = (".yaml", ".yml", ".json")


class _ExitOne(click.Command):
    """A command whose code 2 means something: a wrong command line is 1."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _exit_one():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _exit_one():
            return super().invoke(ctx)


@contextmanager
def _exit_one() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        error.show()
        raise click.exceptions.Exit(1) from None


def declared_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command FILE... and the options that say what is to go."""
    for option in (
        click.option("--prune", is_flag=True, help="Delete jobs of --group or --prefix, too."),
        click.option(
            "--group", help="With --prune: those of this group that are not in the files."
        ),
        click.option("--prefix", help="With --prune: those whose ids begin so."),
        click.option(
            "--prune-all",
            is_flag=True,
            help="Delete calendars that are not in the files, and lift such limits.",
        ),
        click.argument(
            "files",
            nargs=-1,
            required=True,
            metavar="FILE...",
            type=click.Path(exists=True, allow_dash=True),
        ),
    ):
        command = option(command)
    return command


@click.command(cls=_ExitOne)
@declared_files
@over_api
def plan(api: Api, as_json: bool, files: tuple[str, ...], **options: Any) -> None:
    """Show what `apply` would change, and change nothing.

    A FILE is YAML or JSON, a directory of such files, or "-" for standard input. The exit code is 0
    if there is nothing to do, 2 if there is, and 1 if something is wrong.
    """
    found = planned(api, files, **options)
    show_plan(found, as_json)
    if found.steps:
        click.get_current_context().exit(CHANGES)


@click.command()
def schema() -> None:
    """Print the JSON Schema of declared files, for editors."""
    from api.declared import file_schema

    print_json(file_schema())


def planned(
    api: Api,
    files: tuple[str, ...],
    prune: bool,
    group: str | None,
    prefix: str | None,
    prune_all: bool,
) -> Plan:
    """Return the plan of files. Ends with all that is wrong in them, a line each, if anything
    is."""
    # Imported here, since most commands do without the rules of the API.
    from engine.cli.declaring import make_plan

    if prune is (group is None and prefix is None):
        raise click.UsageError("--prune goes with --group or --prefix, and they with it")
    found = make_plan(api, list(_sources(files)), Scope(group, prefix or None, prune_all))
    if found.faults:
        raise click.ClickException("\n".join(printable(str(fault)) for fault in found.faults))
    return found


def _sources(names: tuple[str, ...]) -> Iterator[Source]:
    for name in names:
        if name == "-":
            yield Source("standard input", _text(name, sys.stdin.buffer.read(MAX_BYTES + 1)))
        elif not (path := Path(name)).is_dir():
            yield _source(path)
        else:
            inside = [one for one in sorted(path.rglob("*")) if one.suffix in _SUFFIXES]
            if not inside:
                raise click.ClickException(f"{name}: no {', '.join(_SUFFIXES)} in this directory")
            yield from map(_source, filter(Path.is_file, inside))


def _source(path: Path) -> Source:
    try:
        with path.open("rb") as file:
            return Source(str(path), _text(str(path), file.read(MAX_BYTES + 1)))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # What is too long is cut off, perhaps within a character, and refused for its length.
        if len(data) > MAX_BYTES:
            return data.decode("utf-8", "replace")
        raise BadInput(f"{name}: not UTF-8 at byte {error.start}") from None


def show_plan(plan: Plan, as_json: bool) -> None:
    """Print a plan."""
    if as_json:
        print_json(
            {
                "steps": [step_out(step) for step in plan.steps],
                "unchanged": plan.unchanged,
                "notes": plan.notes,
            }
        )
        return
    for step in plan.steps:
        for line in _lines(step):
            click.echo(line)
    for note in plan.notes:
        click.echo(printable(note), err=True)
    click.echo(summary(plan))


def step_out(step: Step) -> dict[str, Any]:
    """Return a step as JSON: nothing of its body, which may hold a secret."""
    return {
        "verb": step.verb,
        "kind": step.kind,
        "name": step.name,
        "fields": [asdict(one) for one in step.differences],
        "times": step.times,
        "notes": step.notes,
    }


def summary(plan: Plan) -> str:
    """Return how much is to be done, in a line."""
    counts = [
        f"{sum(step.verb == verb for step in plan.steps)} to {verb}"
        for verb in ("add", "change", "delete")
    ]
    return f"{', '.join(counts)}, {plan.unchanged} unchanged"


def _lines(step: Step) -> Iterator[str]:
    sign, colour = _SIGNS[step.verb]
    expr = (step.body or {}).get("schedule_expr") if step.verb == "add" else None
    about = f"  {_short(expr)}" if expr is not None else ""
    yield click.style(f"{sign} {step.kind} {printable(step.name)}{about}", fg=colour)
    for one in step.differences:
        yield f"    {_difference(one)}"
    if step.times is not None and not any(step.times.values()):
        yield "    same times"
    for name, times in (step.times or {}).items():
        if times:
            yield f"    times {name}: {', '.join(times)}"
    for note in step.notes:
        yield click.style(f"    warning: {printable(note)}", fg="yellow")


def _difference(one: Difference) -> str:
    old, new = _short(one.old), _short(one.new)
    if old == new:
        # What differs is not shown, or cut off.
        return f"{one.field}: changes {new}"
    return f"{one.field}: {old} → {new}"


def _short(value: Any) -> str:
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
