"""`waterclock jobs …`: register, look at and steer jobs, over the HTTP API."""

from __future__ import annotations

import json
from typing import Any, get_args

import click

from engine.cli.client import Api
from engine.cli.importing import crontab
from engine.cli.job_options import given, job_body, job_options
from engine.cli.options import over_api
from engine.cli.show import print_facts, print_json, print_table
from engine.plan import MisfirePolicy


@click.group()
def jobs() -> None:
    """Register, look at and steer jobs, over the HTTP API."""


@jobs.command()
@click.option("--id", "job_id", help="The job's id; a random one if none is given.")
@job_options
@over_api
def add(api: Api, as_json: bool, job_id: str | None, **options: Any) -> None:
    """Register a job, with one of --url, --worker and --command."""
    targets = (options["url"] is not None, options["is_worker"], options["command"] is not None)
    if sum(targets) != 1:
        raise click.UsageError("give one of --url, --worker and --command")
    body = given({"job_id": job_id}) | job_body(**options)
    _print_job(api.post("jobs", body=body), as_json)


@jobs.command()
@click.argument("job_id")
@click.option("--reset", multiple=True, metavar="FIELD", help="Take a field back to its default.")
@click.option("--if-version", "version", type=int, help="Only if this version still stands.")
@job_options
@over_api
def edit(
    api: Api,
    as_json: bool,
    job_id: str,
    reset: tuple[str, ...],
    version: int | None,
    **options: Any,
) -> None:
    """Change a job: what is given, and nothing else. Its history stays."""
    body = dict.fromkeys(reset) | job_body(**options)
    if not body:
        raise click.UsageError("say what to change")
    _print_job(api.patch("jobs", job_id, body=body, version=version), as_json)


@jobs.command(name="list")
@click.option("--prefix", help="Only ids that begin so.")
@click.option("--limit", type=click.IntRange(1, 1000), help="At most so many. [default: 100]")
@click.option("--after", help="Go on after this id.")
@over_api
def list_(api: Api, as_json: bool, **query: Any) -> None:
    """List jobs in order of their ids."""
    page = api.get("jobs", **query)
    if as_json:
        print_json(page)
        return
    print_table(
        ("ID", "STATE", "SCHEDULE", "ZONE", "NEXT RUN", "TARGET"),
        [
            (
                job["job_id"],
                job["state"],
                _joined(job["schedule_expr"]),
                job["timezone"],
                job["next_run_at"],
                _target(job),
            )
            for job in page["jobs"]
        ],
    )
    if page["next"]:
        click.echo(f"There are more: --after {page['next']}", err=True)


@jobs.command()
@click.argument("job_id")
@over_api
def show(api: Api, job_id: str, as_json: bool) -> None:
    """Show a job."""
    _print_job(api.get("jobs", job_id), as_json)


@jobs.command()
@click.argument("job_id")
@click.option("--limit", type=click.IntRange(1, 1000), help="At most so many.")
@over_api
def executions(api: Api, job_id: str, as_json: bool, limit: int | None) -> None:
    """Show a job's executions, the newest first."""
    found = api.get("jobs", job_id, "executions", limit=limit)
    if as_json:
        print_json(found)
        return
    columns = ("SCHEDULED FOR", "STATUS", "ATTEMPTS", "LAG MS", "TOOK MS", "RESULT")
    print_table(columns, map(_execution_row, found))


@jobs.command()
@click.argument("job_id")
@over_api
def run(api: Api, job_id: str, as_json: bool) -> None:
    """Start an execution now, whatever the schedule says."""
    started = api.post("jobs", job_id, "run")
    if as_json:
        print_json(started)
    else:
        print_facts([("execution_id", started["execution_id"])])


@jobs.command()
@click.argument("job_id")
@click.option("--note", help="Why, for those who find it paused.")
@over_api
def pause(api: Api, job_id: str, as_json: bool, note: str | None) -> None:
    """Keep a job from firing until it is resumed."""
    body = None if note is None else {"note": note}
    _print_job(api.post("jobs", job_id, "pause", body=body), as_json)


@jobs.command()
@click.argument("job_id")
@click.option(
    "--misfire",
    type=click.Choice(get_args(MisfirePolicy)),
    help="What becomes of the times that the pause kept back. [default: the job's own policy]",
)
@click.option("--dry-run", is_flag=True, default=None, help="Only say what would run.")
@click.option("--note", help="Why, for whoever looks at the job.")
@over_api
def resume(api: Api, job_id: str, as_json: bool, **body: Any) -> None:
    """Let a paused job fire again."""
    _print_job(api.post("jobs", job_id, "resume", body=given(body)), as_json)


@jobs.command()
@click.argument("job_id")
@click.option("--note", help="Why, for whoever looks at the history.")
@over_api
def cancel(api: Api, job_id: str, as_json: bool, note: str | None) -> None:
    """End all that is live of a job; its schedule goes on."""
    found = api.post("jobs", job_id, "cancel", body=given({"note": note}) or None)
    if as_json:
        print_json(found)
    else:
        print_facts([("cancelled", found["cancelled"])])


@jobs.command()
@click.argument("job_id")
@click.option("-n", type=click.IntRange(1, 1000), help="How many. [default: 10]")
@over_api
def upcoming(api: Api, job_id: str, as_json: bool, n: int | None) -> None:
    """Show when a job fires next."""
    times = api.get("jobs", job_id, "upcoming", n=n)
    if as_json:
        print_json(times)
        return
    columns = ("SCHEDULED FOR", "LOCAL TIME", "OFFSET", "NOTE")
    print_table(columns, map(_time_row, times))


@jobs.command()
@click.argument("job_id")
@click.option("--cascade", is_flag=True, help="Delete what depends on it, too.")
@click.option("--detach", is_flag=True, help="What depends on it then does so no longer.")
@over_api
def delete(api: Api, job_id: str, as_json: bool, cascade: bool, detach: bool) -> None:
    """Delete a job, with its history. One that others depend on stays, unless it is said what
    becomes of those."""
    if cascade and detach:
        raise click.UsageError("give one of --cascade and --detach")
    dependents = "cascade" if cascade else "detach" if detach else None
    api.delete("jobs", job_id, dependents=dependents)
    if as_json:
        print_json({"job_id": job_id, "deleted": True})
    else:
        click.echo(f"deleted {job_id}")


@jobs.group(name="import")
def import_() -> None:
    """Register the jobs that another scheduler's file describes."""


import_.add_command(crontab)


def _print_job(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    print_facts(
        (name, value if isinstance(value, str | None) else json.dumps(value))
        for name, value in job.items()
    )


def _target(job: dict[str, Any]) -> str:
    target: dict[str, str] = job["target"]
    return target.get("url") or target.get("command") or f"queue {job['queue']}"


def _joined(expr: str | list[str] | None) -> str | None:
    return ", ".join(expr) if isinstance(expr, list) else expr


def _time_row(time: dict[str, Any]) -> tuple[object, ...]:
    local = f"{time['local_time']} {time['zone_abbreviation']}"
    return (time["scheduled_for"], local, time["utc_offset"], time["dst"] or time["calendar"])


def _execution_row(execution: dict[str, Any]) -> tuple[object, ...]:
    if execution["status"] == "skipped":
        count = f"{execution['count']}{'' if execution['count_is_exact'] else ' or more'}"
        until = f"{count} until {execution['last_scheduled_for']}: {execution['reason']}"
        return (execution["scheduled_for"], "skipped", None, None, None, until)
    attempts = execution["attempts"] or [{}]
    newest, first = attempts[0], attempts[-1]
    return (
        execution["scheduled_for"],
        execution["status"],
        execution["attempt_count"],
        first.get("lag_ms"),
        newest.get("duration_ms"),
        newest.get("error") or newest.get("status_code"),
    )
