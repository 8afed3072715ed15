"""`waterclock groups …`: look at groups of jobs; pause, resume and delete all jobs of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, get_args

import click

from engine.cli.client import Api
from engine.cli.job_options import given
from engine.cli.options import confirm_all, over_api, yes_option
from engine.cli.progress import progress, told_at_the_end
from engine.cli.show import print_facts, print_json, print_table
from engine.cli.words import in_own_words
from engine.plan import MisfirePolicy

STEP = 1_000
"""Jobs that one request changes: the bar moves, and nothing times out."""

Ask = Callable[[str | None], dict[str, Any]]
"""Sends one step that begins behind a place, and returns its answer."""


@click.group()
def groups() -> None:
    """Look at groups; pause, resume, delete all jobs of one."""


@groups.command(name="list")
@over_api
def list_(api: Api, as_json: bool) -> None:
    """List the groups that have jobs."""
    found: list[dict[str, Any]] = []
    after = None
    while True:
        page, after = api.get_page("groups", after=after, limit=STEP)
        found += page
        if after is None:
            break
    if as_json:
        print_json(found)
        return
    rows = [(group["group"], group["jobs"], group["payload_bytes"]) for group in found]
    print_table(("GROUP", "JOBS", "PAYLOAD BYTES"), rows)


@groups.command()
@click.argument("group")
@over_api
def show(api: Api, as_json: bool, group: str) -> None:
    """Show what a group holds, and how its jobs stand."""
    found = api.get("groups", group)
    if as_json:
        print_json(found)
        return
    states = found.pop("states")
    note = "" if found.pop("states_are_exact") else " or more"
    print_facts([*found.items(), *((name, f"{count}{note}") for name, count in states.items())])


@groups.command()
@click.argument("group")
@click.option("--note", help="Why, for those who find the jobs paused.")
@over_api
def pause(api: Api, as_json: bool, group: str, note: str | None) -> None:
    """Keep the jobs of a group from firing. One that joins the group later fires."""

    def step(after: str | None) -> dict[str, Any]:
        body = given({"note": note, "limit": STEP, "after": after})
        return dict(api.post("groups", group, "pause", body=body))

    _carry_out("paused", step, as_json)


@groups.command()
@click.argument("group")
@click.option(
    "--misfire",
    type=click.Choice(get_args(MisfirePolicy)),
    help="What becomes of the times that the pause kept back. [default: each job's own policy]",
)
@click.option("--dry-run", is_flag=True, default=None, help="Only say what would run.")
@click.option("--note", help="Why, for whoever looks at the jobs.")
@over_api
def resume(api: Api, as_json: bool, group: str, **body: Any) -> None:
    """Let the paused jobs of a group fire again."""

    def step(after: str | None) -> dict[str, Any]:
        wanted = given({**body, "limit": STEP, "after": after})
        return dict(api.post("groups", group, "resume", body=wanted))

    _carry_out("would resume" if body["dry_run"] else "resumed", step, as_json)


@groups.command()
@click.argument("group")
@click.option("--cascade", is_flag=True, help="Delete what depends on its jobs, too.")
@click.option("--detach", is_flag=True, help="What depends on its jobs then does so no longer.")
@yes_option
@over_api
def delete(api: Api, as_json: bool, group: str, cascade: bool, detach: bool, yes: bool) -> None:
    """Delete the jobs of a group, with their histories."""
    if cascade and detach:
        raise click.UsageError("give one of --cascade and --detach")
    dependents = "cascade" if cascade else "detach" if detach else None
    if not yes:
        count = api.get("groups", group)["jobs"]
        confirm_all(f"Delete the {count} jobs of {group}?", yes=False)

    def step(after: str | None) -> dict[str, Any]:
        return dict(api.delete("groups", group, dependents=dependents, limit=STEP, after=after))

    _carry_out("deleted", step, as_json)


def _carry_out(done: str, ask: Ask, as_json: bool) -> None:
    """Make all steps, and print how many jobs were changed; say why some were not. The exit code is
    1 if some failed."""
    sums: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    is_exact = True

    def tell() -> None:
        if as_json:
            print_json({**sums, "first_failed": failures})
            return
        shown: dict[str, object] = {done: sums["changed"], **sums}
        del shown["changed"]
        if not is_exact:
            shown["skipped"] = f"{sums['skipped']} or more"
        print_facts(shown.items())
        for failure in failures:
            click.echo(f"{failure['job_id']}: {in_own_words(failure['detail'])}", err=True)

    with told_at_the_end(tell, lambda: sums):
        for step in _shown(done, _steps(ask)):
            names = ("changed", "unchanged", "failed", "starts", "skipped")
            sums.update({name: step[name] for name in names if name in step})
            failures += step["first_failed"]
            is_exact &= step.get("skipped_is_exact", True)
    if sums["failed"]:
        click.get_current_context().exit(1)


def _steps(ask: Ask) -> Iterator[dict[str, Any]]:
    after = None
    while True:
        step = ask(after)
        yield step
        after = step["next"]
        if after is None:
            return


def _shown(what: str, steps: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pass the steps on, and show how far they are, on a terminal."""
    with progress() as bar:
        task = bar.add_task(what, total=None)
        seen = 0
        for step in steps:
            seen += step["changed"] + step["unchanged"] + step["failed"]
            bar.update(task, completed=seen, total=seen + step["left"])
            yield step
