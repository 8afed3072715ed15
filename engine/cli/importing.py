"""`waterclock jobs import crontab`: a crontab's lines as jobs, and nothing lost without a word."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

import click

from engine.cli.client import Api, Refused
from engine.cli.options import over_api
from engine.cli.show import print_json, print_table
from engine.crontab import CRONTAB_DIALECT, Crontab, CrontabEntry, job_ids, read_crontab
from engine.errors import BadInput, JobExists
from engine.plan import Plan, moment_of, parse_schedule

UPCOMING = 3


@dataclass(frozen=True, slots=True)
class Line:
    """What became of one line of the file."""

    line: int
    status: Literal["created", "exists", "new", "refused"]
    """`new` is what a dry run says of a line that would be taken."""
    job_id: str | None = None
    next_runs: tuple[str, ...] = ()
    note: str | None = None


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--url", required=True, help="The URL that runs commands: it gets the POST.")
@click.option(
    "--system/--user",
    default=None,
    help="Whether lines name a user before the command; recognised if not given.",
)
@click.option(
    "--timezone", default="UTC", show_default=True, help="The zone of lines above any CRON_TZ."
)
@click.option("--dry-run", is_flag=True, help="Register nothing; show the next fire times.")
@over_api
def crontab(
    api: Api,
    as_json: bool,
    file: str,
    url: str,
    system: bool | None,
    timezone: str,
    dry_run: bool,
) -> None:
    """Register a job for each line of a crontab FILE ("-" is standard input).

    Waterclock runs no shell. Each job POSTs {"command", "stdin", "user", "environment"} to --url.

    A line's job has the same id at every import, so importing again adds only what is new. Lines
    that cannot be taken are told with the reason, and do not hold up the others: the exit code is
    then 1, with --dry-run too.
    """
    now = int(time.time() * 1000)
    _check_zone(timezone, now)
    read = read_crontab(_text_of(file), system=system, timezone=timezone, now=now)

    def foresee(entry: CrontabEntry, job_id: str) -> Line:
        return Line(entry.line, "new", job_id, _upcoming(entry, job_id, now), entry.note)

    def register(entry: CrontabEntry, job_id: str) -> Line:
        return _register(api, url, entry, job_id)

    lines = _each_line(read, file, foresee if dry_run else register)
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        _print_lines(lines, timezone)
    if any(line.status == "refused" for line in lines):
        click.get_current_context().exit(1)


def _each_line(
    read: Crontab, filename: str, take: Callable[[CrontabEntry, str], Line]
) -> list[Line]:
    """Return what becomes of every line, in the file's order."""
    ids = job_ids(read.entries, filename)
    taken = [take(entry, job_id) for entry, job_id in zip(read.entries, ids, strict=True)]
    refused = [Line(r.line, "refused", note=r.reason) for r in read.refusals]
    return sorted(taken + refused, key=lambda line: line.line)


def _register(api: Api, url: str, entry: CrontabEntry, job_id: str) -> Line:
    body = {
        "job_id": job_id,
        "schedule_expr": entry.schedule_expr,
        "dialect": CRONTAB_DIALECT,
        "timezone": entry.timezone,
        "target": {"type": "http", "url": url},
        "payload": {
            "command": entry.command,
            "stdin": entry.stdin,
            "user": entry.user,
            "environment": entry.environment,
        },
    }
    try:
        job = api.post("jobs", body=body)
    except Refused as refused:
        if refused.code == JobExists.code:
            return Line(entry.line, "exists", job_id, note="already there")
        return Line(entry.line, "refused", job_id, note=refused.message)
    return Line(entry.line, "created", job_id, (job["next_run_at"],), entry.note)


def _upcoming(entry: CrontabEntry, job_id: str, now: int) -> tuple[str, ...]:
    """Return the next fire times in the entry's own zone."""
    plan = Plan.of(
        parse_schedule(
            entry.schedule_expr, entry.timezone, now=now, dialect=CRONTAB_DIALECT, job_id=job_id
        )
    )
    times = plan.upcoming(now, now, UPCOMING)
    return tuple(moment_of(plan, at).local.isoformat(timespec="seconds") for at in times)


def _check_zone(timezone: str, now: int) -> None:
    """Refuse a wrong zone once, not on every line."""
    try:
        parse_schedule(None, timezone, now=now)
    except BadInput as error:
        raise click.BadParameter(error.message, param_hint="--timezone") from None


def _text_of(path: str) -> str:
    with click.open_file(path, "rb") as file:
        data: bytes = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(
            f"{path} is not UTF-8 at byte {error.start}; convert it first"
        ) from None


def _print_lines(lines: list[Line], timezone: str) -> None:
    print_table(
        ("LINE", "STATUS", "ID", "NEXT", "NOTE"),
        [
            (line.line, line.status, line.job_id, ", ".join(line.next_runs) or None, line.note)
            for line in lines
        ],
    )
    counts = Counter(line.status for line in lines)
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    click.echo(
        f"{told or 'no jobs in this file'}; hours without a CRON_TZ are {timezone}", err=True
    )
