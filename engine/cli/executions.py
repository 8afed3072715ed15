"""`waterclock executions …`: look at executions and steer them, over the HTTP API."""

from __future__ import annotations

from typing import Any

import click

from engine.cli.client import Api
from engine.cli.job_options import given
from engine.cli.options import over_api
from engine.cli.paging import Paging, paged, tell_of_more
from engine.cli.show import print_facts, print_json, print_table
from engine.cli.working import claim, complete, complete_many, fail, heartbeat
from engine.execution import ExecutionState


@click.group()
def executions() -> None:
    """Look at executions and steer them; claim and end work."""


for command in (claim, heartbeat, complete, fail, complete_many):
    executions.add_command(command)


@executions.command(name="list")
@click.argument("job_id", required=False)
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([state.value for state in ExecutionState]),
    help="Only those that stand so; may be given again.",
)
@click.option("--scheduled-after", metavar="TIME", help="Only this time or later (RFC 3339).")
@click.option("--scheduled-before", metavar="TIME", help="Only before this time.")
@click.option("--group", help="Only those of a group's jobs. Without JOB_ID.")
@click.option("--queue", help="Only those of a queue. Without JOB_ID.")
@paged
@over_api
def list_executions(
    api: Api, as_json: bool, job_id: str | None, paging: Paging, **asked: Any
) -> None:
    """List executions, newest first.

    Of one job; or without JOB_ID what is live or recent of all jobs.
    """
    if job_id and (asked["group"] or asked["queue"]):
        raise click.UsageError("--group and --queue are for executions of all jobs")
    path = ("jobs", job_id, "executions") if job_id else ("executions",)
    query = {name: value for name, value in asked.items() if value}
    found, after = paging.read(
        lambda limit, after: api.get_page(*path, **query, limit=limit, after=after)
    )
    if as_json:
        print_json(found)
    else:
        names = ("EXECUTION", "SCHEDULED FOR", "STATUS", "ATTEMPTS", "WORKER", "NOTE")
        print_table(names, map(_row, found))
    tell_of_more(after)


@executions.command()
@click.argument("execution_id")
@over_api
def show(api: Api, execution_id: str, as_json: bool) -> None:
    """Show one execution with its attempts."""
    found = api.get("executions", execution_id)
    if as_json:
        print_json(found)
        return
    attempts = found.pop("attempts", [])
    print_facts([*found.items()])
    if attempts:
        click.echo()
        names = (
            "attempt",
            "outcome",
            "started_at",
            "duration_ms",
            "worker",
            "status_code",
            "error",
        )
        print_table(
            [name.upper().replace("_", " ") for name in names],
            [tuple(attempt[name] for name in names) for attempt in attempts],
        )


@executions.command()
@click.argument("execution_id")
@click.option("--note", help="Why, for whoever looks at the history.")
@over_api
def cancel(api: Api, execution_id: str, as_json: bool, note: str | None) -> None:
    """End an execution that waits, runs or will be tried again.

    Whoever runs it is told at the next heartbeat.
    """
    found = api.post("executions", execution_id, "cancel", body=given({"note": note}) or None)
    if as_json:
        print_json(found)
    else:
        print_facts([(name, found[name]) for name in ("execution_id", "status")])


@executions.command()
@click.argument("execution_id")
@click.option("--downstream", is_flag=True, help="Run what depends on it again, too.")
@over_api
def rerun(api: Api, execution_id: str, as_json: bool, downstream: bool) -> None:
    """Run an execution again that has ended."""
    body = {"downstream": True} if downstream else None
    found = api.post("executions", execution_id, "rerun", body=body)
    if as_json:
        print_json(found)
    else:
        then = ", ".join(found["downstream"]) or None
        print_facts([("execution_id", execution_id), ("attempt", found["attempt"]), ("then", then)])


def _row(found: dict[str, Any]) -> tuple[object, ...]:
    """Return a line of the list; the note is the newest error, or why a time was skipped."""
    if found["status"] == "skipped":
        more = f" ({found['count']} times)" if found["count"] > 1 else ""
        job_id, at = found["job_id"], found["scheduled_for"]
        return job_id, at, "skipped", None, None, found["reason"] + more
    attempts = found["attempts"]
    return (
        found["execution_id"],
        found["scheduled_for"],
        found["status"],
        found["attempt_count"],
        found.get("worker") or (attempts[0]["worker"] if attempts else None),
        attempts[0]["error"] if attempts else None,
    )
