"""`waterclock jobs import crontab`: a crontab's lines as jobs, and nothing lost without a word."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import click

from engine.cli.client import Api, Refused
from engine.cli.job_options import given
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
@click.option("--url", help="POST what is to run to this URL, which runs it.")
@click.option("--shell", is_flag=True, help="Let workers started with --allow-shell run it.")
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
    url: str | None,
    shell: bool,
    system: bool | None,
    timezone: str,
    dry_run: bool,
) -> None:
    """Register a job for each line of a crontab FILE ("-" is standard input), with --url or with
    --shell.

    With --shell a job is the command itself, in the directory that HOME names. With --url it POSTs
    {"command", "stdin", "user", "environment"}.

    A line's job has the same id at every import, so importing again adds only what is new. Lines
    that cannot be taken are told with the reason, and do not hold up the others: the exit code is
    then 1, with --dry-run too.
    """
    if (url is not None) is shell:
        raise click.UsageError("give either --url or --shell")
    now = int(time.time() * 1000)
    _check_zone(timezone, now)
    read = read_crontab(_text_of(file), system=system, timezone=timezone, now=now)

    def foresee(entry: CrontabEntry, job_id: str) -> Line:
        return Line(entry.line, "new", job_id, _upcoming(entry, job_id, now), _note(entry, shell))

    def register(entry: CrontabEntry, job_id: str) -> Line:
        what = _shell_job(entry) if shell else _http_job(entry, url)
        created = Line(entry.line, "created", job_id, note=_note(entry, shell))
        return _register(api, {**_when(entry, job_id), **what}, created)

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


def _when(entry: CrontabEntry, job_id: str) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "schedule_expr": entry.schedule_expr,
        "dialect": CRONTAB_DIALECT,
        "timezone": entry.timezone,
    }


def _http_job(entry: CrontabEntry, url: str | None) -> dict[str, Any]:
    return {
        "target": {"type": "http", "url": url},
        "payload": {
            "command": entry.command,
            "stdin": entry.stdin,
            "user": entry.user,
            "environment": entry.environment,
        },
    }


def _shell_job(entry: CrontabEntry) -> dict[str, Any]:
    target = {
        "type": "shell",
        "command": entry.command,
        "cwd": entry.environment.get("HOME") or None,
        "env": entry.environment or None,
        "stdin": entry.stdin,
        "user": entry.user,
    }
    return {"target": given(target)}


def _note(entry: CrontabEntry, shell: bool) -> str | None:
    """Return what of a line was understood and set aside."""
    mail = shell and entry.environment.get("MAILTO")
    notes = [entry.note, "MAILTO: no mail is sent, the history has the output" if mail else None]
    return "; ".join(filter(None, notes)) or None


def _register(api: Api, body: dict[str, Any], created: Line) -> Line:
    """Register a job; return its line, `created` with its next time if nothing was against it."""
    try:
        job = api.post("jobs", body=body)
    except Refused as refused:
        if refused.code == JobExists.code:
            return replace(created, status="exists", note="already there")
        return replace(created, status="refused", note=refused.message)
    return replace(created, next_runs=(job["next_run_at"],))


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
