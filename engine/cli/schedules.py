"""`waterclock next | lint | preview | explain`: when a schedule fires, what is odd about it, why a
job did not run. The first two need neither API nor server."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from engine.cli.client import Api
from engine.cli.job_options import given, timing_options
from engine.cli.options import json_option, over_api
from engine.cli.show import print_facts, print_json, print_table
from engine.errors import NeverFires, WaterclockError
from engine.plan import (
    DIALECT_SUMMARIES,
    Every,
    Once,
    Plan,
    moment_of,
    parse_instant,
    parse_schedule,
)
from engine.plan import lint as plan_lint  # the module
from engine.plan.moment import Moment

ANY_JOB = "job"
"""The id whose hash spreads `H` and `~` where none is given."""

_dialect = click.option("--dialect", type=click.Choice([*DIALECT_SUMMARIES]))
_timezone = click.option(
    "--timezone", "--tz", "timezone", default="UTC", show_default=True, help="IANA zone."
)
_job_id = click.option("--id", "job_id", default=ANY_JOB, help="The job, for H and ~.")
_after = click.option("--after", help="Begin at this RFC 3339 time in place of now.")


@click.command(name="next")
@click.argument("expr", required=False)
@click.option(
    "--file",
    type=click.File(encoding="utf-8", errors="replace"),
    help="Schedules as a table; see above.",
)
@_dialect
@_timezone
@click.option(
    "-n",
    "--limit",
    "n",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="How many.",
)
@_after
@_job_id
@json_option
def next_(
    expr: str | None,
    file: Any,
    dialect: str | None,
    timezone: str,
    n: int,
    after: str | None,
    job_id: str,
    as_json: bool,
) -> None:
    """Show when EXPR fires next, and what is odd about it.

    With --file it reads tab-separated lines under a heading with the columns dialect, expression
    and timezone, and prints a JSON object for each, whatever is wrong with it.
    """
    if (expr is None) is (file is None):
        raise click.UsageError("give either EXPR or --file")
    now = int(time.time() * 1000) if after is None else parse_instant(after)
    if file is not None:
        for row in read_table(file):
            click.echo(json.dumps(judge(row, now, n, job_id)))
        return
    assert expr is not None
    said = plan_lint.lint(expr, timezone, dialect, now=now, job_id=job_id)
    moments = find_times(expr, said.timezone, said.dialect, now, n, job_id)
    if as_json:
        print_json(
            {
                "dialect": said.dialect,
                "description": said.description,
                "warnings": [vars(warning) for warning in said.warnings],
                "times": [{"at": _text(moment), "dst": moment.dst} for moment in moments],
            }
        )
        return
    click.echo(f"{said.description} ({said.dialect}, {said.timezone})")
    print_table(
        ("LOCAL TIME", "ZONE", "NOTE"),
        [(_text(moment), f"{moment.local:%Z}", moment.dst) for moment in moments],
    )
    _print_warnings(said)


@click.command()
@click.argument("expr")
@_dialect
@_timezone
@_job_id
@json_option
def lint(expr: str, dialect: str | None, timezone: str, job_id: str, as_json: bool) -> None:
    """Say what EXPR means, and what is odd about it.

    Also how other dialects write it. Exit code 1: it cannot be read, or never fires.
    """
    said = plan_lint.lint(expr, timezone, dialect, now=int(time.time() * 1000), job_id=job_id)
    if as_json:
        warnings = [vars(warning) for warning in said.warnings]
        print_json({**vars(said), "warnings": warnings})
    else:
        facts = [("dialect", said.dialect), ("means", said.description)]
        print_facts([*facts, *said.conversions.items()])
        _print_warnings(said)
    if any(warning.code == NeverFires.code for warning in said.warnings):
        sys.exit(1)


@click.command()
@click.argument("job_id")
@click.argument("at")
@over_api
def explain(api: Api, job_id: str, at: str, as_json: bool) -> None:
    """Say why a job did or did not run at a time, or will.

    AT is an RFC 3339 time.
    """
    found = api.get("jobs", job_id, "explain", at=at)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{found['verdict']}: {found['text']}")


@click.command()
@click.argument("schedule_expr", metavar="EXPR...", nargs=-1, required=True)
@click.option("--job", "job_id", help="Say what it would change for this job.")
@timing_options
@click.option("-n", "--limit", "n", type=click.IntRange(1, 1000), help="How many. [default: 10]")
@over_api
def preview(
    api: Api,
    as_json: bool,
    schedule_expr: tuple[str, ...],
    calendars: tuple[str, ...],
    **options: Any,
) -> None:
    """Show when a job of this schedule would run.

    It asks the API, with its calendars and its clock. Several EXPRs are joined. `next` does it
    without an API, and without calendars.
    """
    expr = schedule_expr[0] if len(schedule_expr) == 1 else [*schedule_expr]
    body = {"schedule_expr": expr, "calendars": [*calendars] or None, **options}
    found = api.post("schedules", "preview", body=given(body))
    if as_json:
        print_json(found)
        return
    if found["description"]:
        click.echo(f"{found['description']} ({found['dialect']})")
    print_times(found["times"])
    for word, times in found.get("difference", {}).items():
        click.echo(f"{word}: {', '.join(times) or 'none'}")
    for warning in found["warnings"]:
        click.echo(f"warning: {warning['message']} [{warning['code']}]", err=True)


def print_times(times: Iterable[Mapping[str, Any]]) -> None:
    """Print times to come, with what daylight saving or a calendar does to them."""
    rows = (
        (
            time["scheduled_for"],
            f"{time['local_time']} {time['zone_abbreviation']}",
            time["utc_offset"],
            time["dst"] or time["calendar"],
        )
        for time in times
    )
    print_table(("SCHEDULED FOR", "LOCAL TIME", "OFFSET", "NOTE"), rows)


def read_table(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a tab-separated table by the names in its heading. Nothing is quoted."""
    rows = (line.rstrip("\r\n").split("\t") for line in lines if line.strip())
    heading = next(rows, [])
    for row in rows:
        yield dict(zip(heading, row, strict=False))


def judge(row: Mapping[str, str], now: int, n: int, job_id: str) -> dict[str, Any]:
    """Return whether a row's expression can be read, why not, whether it ever fires, and when."""
    written, dialect = row.get("expression", ""), row.get("dialect") or None
    # A column cannot hold a new line; what needs one (jenkins) writes it as in a string.
    expr = written.replace("\\n", "\n")
    told = {"dialect": dialect, "expression": written, "valid": True, "error": None, "never": False}
    try:
        moments = find_times(expr, row.get("timezone") or "UTC", dialect, now, n, job_id)
    except NeverFires as error:
        return {**told, "error": error.message, "never": True, "times": []}
    except WaterclockError as error:
        return {**told, "valid": False, "error": error.message, "times": []}
    return {**told, "times": [_text(moment) for moment in moments]}


def find_times(
    expr: str, timezone: str, dialect: str | None, now: int, n: int, job_id: str
) -> list[Moment]:
    """Return the next `n` times of an expression after `now`. Raises what `parse_schedule` does."""
    schedule = parse_schedule(expr, timezone, now=now, dialect=dialect, job_id=job_id)
    plan, anchor = Plan.of(schedule), now
    match schedule:
        case Once(at):
            anchor = at
        case Every(_, phase) if phase is not None:
            anchor = phase
    zone = None if plan.kind == "cron" else timezone
    return [moment_of(plan, at, zone) for at in plan.upcoming(now, anchor, n)]


def _text(moment: Moment) -> str:
    timespec = "milliseconds" if moment.at % 1000 else "seconds"
    return moment.local.isoformat(timespec=timespec)


def _print_warnings(said: plan_lint.Lint) -> None:
    for warning in said.warnings:
        click.echo(f"warning: {warning.message} [{warning.code}]", err=True)
