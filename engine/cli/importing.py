"""`waterclock jobs import crontab`: a crontab's lines as jobs, and nothing lost without a word."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import click

from engine.cli.client import Api, Refused
from engine.cli.options import over_api
from engine.cli.progress import progress, told_at_the_end
from engine.cli.show import print_json, print_table
from engine.crontab import CRONTAB_DIALECT, Crontab, CrontabEntry, job_ids, read_crontab
from engine.errors import BadInput, JobExists
from engine.importers.crontab import set_aside, what_to_run
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
    """Register a job for each line of a crontab FILE.

    "-" is standard input. With --shell a job is the command itself, in the directory that HOME
    names. With --url it POSTs {"command", "stdin", "user", "environment"}.

    A line's job has the same id at every import, so importing again adds only what is new. Lines
    that cannot be taken are told with the reason, and do not hold up the others: the exit code is
    then 1, with --dry-run too.
    """
    if (url is not None) is shell:
        raise click.UsageError("give either --url or --shell")
    now = int(time.time() * 1000)
    _check_zone(timezone, now)
    read = read_crontab(text_of(file), system=system, timezone=timezone, now=now)

    def foresee(entry: CrontabEntry, job_id: str) -> Line:
        return Line(entry.line, "new", job_id, _upcoming(entry, job_id, now), _note(entry, url))

    def register(entry: CrontabEntry, job_id: str) -> Line:
        created = Line(entry.line, "created", job_id, note=_note(entry, url))
        return _register(api, {**_when(entry, job_id), **what_to_run(entry, url)}, created)

    lines = [Line(refusal.line, "refused", note=refusal.reason) for refusal in read.refusals]
    begun = len(lines)

    def tell() -> None:
        in_order = sorted(lines, key=lambda line: line.line)
        if as_json:
            print_json([asdict(line) for line in in_order])
        else:
            _print_lines(in_order, timezone)

    with told_at_the_end(tell, lambda: len(lines) > begun):
        for line in _each_entry(read, file, foresee if dry_run else register):
            lines.append(line)
    if any(line.status == "refused" for line in lines):
        click.get_current_context().exit(1)


def _each_entry(
    read: Crontab, filename: str, take: Callable[[CrontabEntry, str], Line]
) -> Iterator[Line]:
    """Yield what becomes of each entry; meanwhile show how far it is, on a terminal."""
    with progress() as bar:
        task = bar.add_task("register", total=len(read.entries))
        for entry, job_id in zip(read.entries, job_ids(read.entries, filename), strict=True):
            yield take(entry, job_id)
            bar.advance(task)


def _when(entry: CrontabEntry, job_id: str) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "schedule_expr": entry.schedule_expr,
        "dialect": CRONTAB_DIALECT,
        "timezone": entry.timezone,
    }


def _note(entry: CrontabEntry, url: str | None) -> str | None:
    """Return what of a line was understood and set aside."""
    return "; ".join(why for _, why in set_aside(entry, url)) or None


def _register(api: Api, body: dict[str, Any], created: Line) -> Line:
    """Register a job; return its line, `created` with its next time if nothing was against it."""
    try:
        job = api.post("jobs", body=body)
    except Refused as refused:
        if refused.code == JobExists.code:
            return replace(created, status="exists", note="already there")
        return replace(created, status="refused", note=refused.message)
    next_run_at = job["next_run_at"]
    return replace(created, next_runs=(next_run_at,) if next_run_at else ())


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


def text_of(path: str) -> str:
    """Return the text of a file, or of standard input for "-". Refuses what is not UTF-8."""
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
