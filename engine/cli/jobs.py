"""`waterclock jobs …`: register, look at and steer jobs, over the HTTP API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, get_args

import click

from engine.cli.bulk import bulk, bulk_delete
from engine.cli.card import print_card, print_summary, schedule_text, target_text
from engine.cli.client import Api
from engine.cli.importing import crontab
from engine.cli.job_options import given, job_body, job_options
from engine.cli.options import confirm_one, over_api, yes_option
from engine.cli.paging import Paging, paged, tell_of_more
from engine.cli.reading import object_of
from engine.cli.schedules import print_times
from engine.cli.show import print_facts, print_json, print_table
from engine.model import JobState
from engine.plan import MisfirePolicy


@click.group()
def jobs() -> None:
    """Register, look at and steer jobs."""


_paused = click.option(
    "--paused", is_flag=True, default=None, help="It does not fire until it is resumed."
)
_file = click.option(
    "--file",
    type=click.File("rb"),
    help='Take fields from this JSON object ("-": stdin); options take their place.',
)
_if_version = click.option(
    "--if-version", "version", type=int, help="Only if this version still stands."
)


@jobs.command()
@click.option("--id", "job_id", help="The job's id; a random one if none is given.")
@job_options
@_paused
@_file
@over_api
def add(api: Api, as_json: bool, job_id: str | None, file: BinaryIO | None, **options: Any) -> None:
    """Register a job, with one of --url, --worker and --command."""
    body = given({"job_id": job_id}) | _definition(file, options)
    _print_job(api.post("jobs", body=_from_file(file) | body), as_json, print_summary)


@jobs.command()
@click.argument("job_id")
@job_options
@_paused
@_file
@_if_version
@over_api
def replace(
    api: Api,
    as_json: bool,
    job_id: str,
    version: int | None,
    file: BinaryIO | None,
    **options: Any,
) -> None:
    """Put a whole definition in the place of a job's.

    One that is not there is registered. Its history stays. What is not given goes back to its
    default; `edit` changes what is given alone.
    """
    body = _definition(file, options)
    body = _from_file(file) | body
    _print_job(api.put("jobs", job_id, body=body, version=version), as_json, print_summary)


def _definition(file: BinaryIO | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the body that options make. Refuses them unless they say what to run, or a file may
    do so."""
    targets = (options["url"] is not None, options["is_worker"], options["command"] is not None)
    if sum(targets) > 1 or (not any(targets) and file is None):
        raise click.UsageError("give one of --url, --worker and --command")
    return job_body(**options)


def _from_file(file: BinaryIO | None) -> dict[str, Any]:
    return {} if file is None else object_of(file)


@jobs.command()
@click.argument("job_id")
@click.option("--reset", multiple=True, metavar="FIELD", help="Take a field back to its default.")
@_if_version
@job_options
@_file
@over_api
def edit(
    api: Api,
    as_json: bool,
    job_id: str,
    reset: tuple[str, ...],
    version: int | None,
    file: BinaryIO | None,
    **options: Any,
) -> None:
    """Change a job: what is given, and nothing else. Its history stays."""
    body = _from_file(file) | dict.fromkeys(reset) | job_body(**options)
    if not body:
        raise click.UsageError("say what to change")
    _print_job(api.patch("jobs", job_id, body=body, version=version), as_json, print_summary)


@jobs.command(name="list")
@click.option("--prefix", help="Only ids that begin so.")
@click.option("--group", help="Only jobs of this group.")
@click.option("--tag", multiple=True, help="Only jobs with this tag; may be given again.")
@click.option("--state", type=click.Choice(list(map(str, JobState))), help="Only in this state.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--due-after", metavar="TIME", help="Only due at this time or later.")
@click.option("--due-before", metavar="TIME", help="Only due before this time (RFC 3339).")
@paged
@over_api
def list_(api: Api, as_json: bool, tag: tuple[str, ...], paging: Paging, **query: Any) -> None:
    """List jobs in order of their ids."""

    def ask(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        page = api.get("jobs", **query, tag=tag or None, limit=limit, after=after)
        return page["jobs"], page["next"]

    found, after = paging.read(ask)
    if as_json:
        print_json({"jobs": found, "next": after})
        return
    print_table(
        ("ID", "STATE", "SCHEDULE", "ZONE", "NEXT RUN", "TARGET"),
        [
            (
                job["job_id"],
                job["state"],
                schedule_text(job["schedule_expr"]),
                job["timezone"],
                job["next_run_at"],
                target_text(job),
            )
            for job in found
        ],
    )
    tell_of_more(after)


@jobs.command()
@click.argument("job_id")
@over_api
def show(api: Api, job_id: str, as_json: bool) -> None:
    """Show a job: what it does, when, and what is not as usual."""
    _print_job(api.get("jobs", job_id), as_json, print_card)


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
    _print_job(api.post("jobs", job_id, "pause", body=body), as_json, print_summary)


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
    _print_job(api.post("jobs", job_id, "resume", body=given(body)), as_json, print_summary)


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
@click.option("-n", "--limit", "n", type=click.IntRange(1, 1000), help="How many. [default: 10]")
@over_api
def upcoming(api: Api, job_id: str, as_json: bool, n: int | None) -> None:
    """Show when a job fires next."""
    times = api.get("jobs", job_id, "upcoming", n=n)
    if as_json:
        print_json(times)
    else:
        print_times(times)


@jobs.command()
@click.argument("job_id")
@click.option("--cascade", is_flag=True, help="Delete what depends on it, too.")
@click.option("--detach", is_flag=True, help="What depends on it then does so no longer.")
@yes_option
@over_api
def delete(api: Api, job_id: str, as_json: bool, cascade: bool, detach: bool, yes: bool) -> None:
    """Delete a job, with its history.

    One that others depend on stays, unless --cascade or --detach says what becomes of those.
    """
    if cascade and detach:
        raise click.UsageError("give one of --cascade and --detach")
    dependents = "cascade" if cascade else "detach" if detach else None
    confirm_one(f"Delete job {job_id}, with its history?", yes)
    api.delete("jobs", job_id, dependents=dependents)
    if as_json:
        print_json({"job_id": job_id, "deleted": True})
    else:
        click.echo(f"deleted {job_id}")


jobs.add_command(bulk)
jobs.add_command(bulk_delete)


@jobs.group(name="import")
def import_() -> None:
    """Register the jobs that another scheduler's file describes."""


import_.add_command(crontab)


def _print_job(job: dict[str, Any], as_json: bool, tell: Callable[[dict[str, Any]], None]) -> None:
    if as_json:
        print_json(job)
    else:
        tell(job)


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
