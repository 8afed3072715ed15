"""`waterclock jobs …`: register, look at and steer jobs, over the HTTP API."""

from __future__ import annotations

import json
from typing import Any, get_args

import click

from engine.backoff import Jitter
from engine.cli.client import Api
from engine.cli.importing import crontab
from engine.cli.options import over_api
from engine.cli.show import print_facts, print_json, print_table
from engine.model import Overlap
from engine.plan.plan import MisfirePolicy


@click.group()
def jobs() -> None:
    """Register, look at and steer jobs, over the HTTP API."""


class _Json(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value, parse_constant=_no_number)
        except ValueError as error:
            self.fail(f"not JSON: {error}; a text needs quotes of its own: '\"text\"'", param, ctx)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number in JSON")


@jobs.command()
@click.option("--id", "job_id", help="The job's id; a random one if none is given.")
@click.option(
    "--schedule",
    "schedule_expr",
    help='Cron ("*/5 * * * *", "@daily"), "every 30s", or an RFC 3339 time; without it the job'
    " runs once, at once.",
)
@click.option("--timezone", help="The IANA zone of a cron schedule. [default: UTC]")
@click.option("--url", help="POST the payload to this URL.")
@click.option("--worker", "is_worker", is_flag=True, help="Leave it to consumers of your own.")
@click.option("--header", "headers", multiple=True, help='"Name: value"; may be given again.')
@click.option("--timeout-ms", type=int, help="How long the URL has to answer.")
@click.option("--payload", type=_Json(), help="Any JSON value.")
@click.option("--queue", help="The queue that workers read.")
@click.option("--max-attempts", type=int, help="Attempts in all, the first included.")
@click.option("--retry-base-ms", type=int, help="The wait after the first attempt.")
@click.option("--retry-max-ms", type=int, help="The wait stops growing here.")
@click.option("--retry-jitter", type=click.Choice(get_args(Jitter)), help="How waits are spread.")
@click.option("--misfire", type=click.Choice(get_args(MisfirePolicy)), help="If it comes late.")
@click.option("--grace-ms", type=int, help="How late is still on time.")
@click.option("--overlap", type=click.Choice(list(map(str, Overlap))), help="If one still runs.")
@over_api
def add(api: Api, as_json: bool, **options: Any) -> None:
    """Register a job, with --url or with --worker."""
    _print_job(api.post("jobs", body=_new_job(**options)), as_json)


def _new_job(
    *,
    url: str | None,
    is_worker: bool,
    headers: tuple[str, ...],
    timeout_ms: int | None,
    max_attempts: int | None,
    retry_base_ms: int | None,
    retry_max_ms: int | None,
    retry_jitter: str | None,
    misfire: str | None,
    grace_ms: int | None,
    **rest: Any,
) -> dict[str, Any]:
    """Return the body that registers a job: what was given, and nothing else."""
    if (url is None) is not is_worker:
        raise click.UsageError("give either --url or --worker")
    if is_worker and (headers or timeout_ms is not None):
        raise click.UsageError("--header and --timeout-ms go with --url")
    target = {
        "type": "worker" if is_worker else "http",
        "url": url,
        "headers": dict(map(_header, headers)) or None,
        "timeout_ms": timeout_ms,
    }
    retry = {
        "max_attempts": max_attempts,
        "base_ms": retry_base_ms,
        "max_ms": retry_max_ms,
        "jitter": retry_jitter,
    }
    body = {
        "target": _given(target),
        "retry": _given(retry) or None,
        "misfire": _given({"policy": misfire, "grace_ms": grace_ms}) or None,
        **rest,
    }
    return _given(body)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError("--header takes 'Name: value'")
    return name.strip(), value.strip()


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
                job["schedule_expr"],
                job["timezone"],
                job["next_run_at"],
                job["target"].get("url", f"queue {job['queue']}"),
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
@over_api
def pause(api: Api, job_id: str, as_json: bool) -> None:
    """Keep a job from firing until it is resumed."""
    _print_job(api.post("jobs", job_id, "pause"), as_json)


@jobs.command()
@click.argument("job_id")
@click.option("--skip-missed", is_flag=True, help="Skip, with a record, what the pause kept back.")
@over_api
def resume(api: Api, job_id: str, as_json: bool, skip_missed: bool) -> None:
    """Let a paused job fire again; missed times go by its misfire policy."""
    body = {"missed": "skip" if skip_missed else "misfire"}
    _print_job(api.post("jobs", job_id, "resume", body=body), as_json)


@jobs.command()
@click.argument("job_id")
@over_api
def delete(api: Api, job_id: str, as_json: bool) -> None:
    """Delete a job, with its history."""
    api.delete("jobs", job_id)
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
