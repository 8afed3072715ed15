"""`waterclock backfill JOB …`: run a job's past times, over the HTTP API."""

from __future__ import annotations

import time
from typing import Any

import click

from engine.backfill import MOST_CONCURRENT, Reprocess
from engine.cli.client import Api
from engine.cli.options import over_api
from engine.cli.progress import progress, told_at_the_end
from engine.cli.show import print_facts, print_json

POLL_S = 0.5


@click.command()
@click.argument("job_id")
@click.option("--from", "from_", metavar="TIME", help="The first time, RFC 3339 with its offset.")
@click.option("--to", metavar="TIME", help="The last time; it has passed already.")
@click.option(
    "--reprocess",
    type=click.Choice(list(map(str, Reprocess))),
    help="Which times that ran already run again. [default: none]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, MOST_CONCURRENT),
    help="How many are live at once. [default: 1]",
)
@click.option("--backwards", is_flag=True, help="Begin with the latest time.")
@click.option("--dry-run", is_flag=True, help="Start nothing; show what would run.")
@click.option("--wait", is_flag=True, help="Stay until the backfill is at its end.")
@click.option("--status", "action", flag_value="status", help="Show the job's newest backfill.")
@click.option("--cancel", "action", flag_value="cancel", help="Start nothing more of it.")
@over_api
def backfill(
    api: Api,
    as_json: bool,
    job_id: str,
    action: str | None,
    dry_run: bool,
    wait: bool,
    **options: Any,
) -> None:
    """Run past times of a job that have not run.

    Those from --from to --to, both included. The exit code is 1 if --wait saw executions that are
    dead in the end.
    """
    looks = [_act(api, job_id, action, _body(action, dry_run, **options))]

    def tell() -> None:
        if as_json:
            print_json(looks[-1])
        else:
            print_facts(_facts(looks[-1]))

    # One that is no more waited for goes on.
    with told_at_the_end(tell, lambda: looks):
        if wait and not dry_run:
            _wait(api, job_id, looks)
    if wait and looks[-1].get("dead"):
        click.get_current_context().exit(1)


def _act(api: Api, job_id: str, action: str | None, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any]
    if action == "cancel":
        answer = api.delete("jobs", job_id, "backfill")
    elif action == "status":
        answer = api.get("jobs", job_id, "backfill")
    else:
        answer = api.post("jobs", job_id, "backfills", body=body)
    return answer


def _body(action: str | None, dry_run: bool, **options: Any) -> dict[str, Any]:
    """Return the order: what was given, and nothing else. Refuses it beside --status, --cancel."""
    backwards = options.pop("backwards")
    given = {name.rstrip("_"): value for name, value in options.items() if value is not None}
    if backwards:
        given["direction"] = "backwards"
    if dry_run:
        given["dry_run"] = True
    if action and given:
        raise click.UsageError(f"--{action} goes with no option of a new backfill")
    if not action and not {"from", "to"} <= given.keys():
        raise click.UsageError("give --from and --to, or --status or --cancel")
    return given


def _wait(api: Api, job_id: str, looks: list[dict[str, Any]]) -> None:
    """Look at a backfill until it is at its end; meanwhile show how far it is, on a terminal."""
    with progress() as bar:
        task = bar.add_task(f"backfill of {job_id}", total=looks[-1]["times"])
        while True:
            # Live ones have been passed and are not done.
            bar.update(task, completed=looks[-1]["passed"] - looks[-1]["live"])
            if looks[-1]["state"] in ("done", "cancelled"):
                return
            time.sleep(POLL_S)
            looks[:] = [api.get("jobs", job_id, "backfill")]


def _facts(found: dict[str, Any]) -> list[tuple[str, object]]:
    """Return what to print of a backfill or a preview, a fact a line."""
    facts: list[tuple[str, object]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            facts += [(f"{name} as {reason}", count) for reason, count in value.items()]
        elif isinstance(value, list):
            facts += [(name if not at else "", item) for at, item in enumerate(value)]
        else:
            facts.append((name, value))
    return facts
