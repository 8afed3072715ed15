"""`waterclock import`: the jobs of another scheduler, and nothing lost without a word.

What the files come to is shown first, then registered.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import click

from engine.cli import transfer
from engine.cli.carrying import with_deployment
from engine.cli.client import Api
from engine.cli.import_jobs import Row, register_all, rfc_3339, row_of
from engine.cli.importing import text_of
from engine.cli.options import confirm_all, over_api, yes_option
from engine.cli.progress import progress, told_at_the_end
from engine.cli.show import print_json, print_table
from engine.errors import BadInput
from engine.importers import (
    IMPORTERS,
    Draft,
    Imported,
    Note,
    Options,
    Refusal,
    read_documents,
    read_from,
    recognise_source,
    with_own_ids,
)
from engine.names import check_group, check_job_id
from engine.plan import clock_time, parse_schedule
from engine.registration import Timing, plan_times

WITH_COMMANDS = ("crontab", "kubernetes")


@click.command(name="import", cls=with_deployment(transfer.import_))
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option("--from", "source", type=click.Choice([*IMPORTERS]), help="What wrote the files.")
@click.option("--url", help="POST to this URL what would else wait for a worker.")
@click.option(
    "--target-map",
    type=click.Path(exists=True, dir_okay=False),
    help="YAML or JSON: what the source runs (ARN, task, class, …) to the target of the job.",
)
@click.option("--shell", is_flag=True, help="Make shell jobs of commands (crontab, kubernetes).")
@click.option("--system/--user", default=None, help="Whether lines of a crontab name a user.")
@click.option(
    "--timezone", default="UTC", show_default=True, help="The zone of hours that name none."
)
@click.option("--group", help="The group of every job.")
@click.option("--prefix", default="", help="What every job id begins with.")
@click.option("--paused", is_flag=True, help="Register every job without letting it fire.")
@click.option(
    "--on-conflict",
    type=click.Choice(["keep", "replace"]),
    default="keep",
    show_default=True,
    help="What becomes of a job that is there already.",
)
@click.option("--dry-run", is_flag=True, help="Register nothing; show what would be.")
@yes_option
@over_api
def import_(
    api: Api,
    as_json: bool,
    files: tuple[str, ...],
    source: str | None,
    target_map: str | None,
    group: str | None,
    prefix: str,
    paused: bool,
    on_conflict: str,
    dry_run: bool,
    yes: bool,
    **more: Any,
) -> None:
    """Register the jobs of another scheduler's files.

    "-" is standard input. What cannot be carried over is listed with the reason, and entries that
    cannot be taken do not hold up the others: the exit code is then 1, with --dry-run too. An
    entry's job has the same id at every import, so importing again adds only what is new.
    """
    if not dry_run and not yes and (as_json or "-" in files):
        raise click.UsageError("say --yes, or --dry-run: nobody can be asked here")
    if more["url"] is not None and more["shell"]:
        raise click.UsageError("give either --url or --shell")
    options = _options(group=group, prefix=prefix, target_map=target_map, **more)
    found = _read_all(files, source, options)
    if paused:
        found = replace(found, drafts=tuple(replace(draft, paused=True) for draft in found.drafts))
    rows = [_foreseen(draft, options.now) for draft in found.drafts]
    refused = [Row(refusal.place, "refused", reason=refusal.reason) for refusal in found.refusals]
    if not dry_run and not yes and rows:
        _print(rows + refused, found.notes, options.timezone)
        confirm_all(f"Register {_jobs(len(rows))}?", yes=False)
    became: list[Row] = []

    def tell() -> None:
        told = became + refused
        if as_json:
            jobs, notes = [*map(asdict, told)], [*map(asdict, found.notes)]
            print_json({"jobs": jobs, "notes": notes})
        else:
            _print(told, found.notes, options.timezone)

    with told_at_the_end(tell, lambda: became):
        if dry_run:
            became += rows
        else:
            for row in _with_bar(len(rows), register_all(api, found.drafts, on_conflict)):
                became.append(row)
    if refused or any(row.status == "refused" for row in became):
        click.get_current_context().exit(1)


def _options(
    *, group: str | None, prefix: str, timezone: str, target_map: str | None, **more: Any
) -> Options:
    """Return the options, each checked once and not for every entry."""
    now = int(time.time() * 1000)
    try:
        parse_schedule(None, timezone, now=now)
        if group is not None:
            check_group(group)
        if prefix:
            check_job_id(prefix)
    except BadInput as error:
        hint = {"timezone": "--timezone", "group": "--group"}.get(error.field or "", "--prefix")
        raise click.BadParameter(error.message, param_hint=hint) from None
    targets = _targets(target_map) if target_map else {}
    return Options(now, timezone=timezone, group=group, prefix=prefix, targets=targets, **more)


def _targets(path: str) -> dict[str, dict[str, Any]]:
    try:
        documents = read_documents(text_of(path))
    except BadInput as error:
        raise click.BadParameter(error.message, param_hint="--target-map") from None
    targets = documents[0] if len(documents) == 1 else None
    if not isinstance(targets, dict) or not all(
        isinstance(target, dict) and "type" in target for target in targets.values()
    ):
        raise click.BadParameter(
            'a mapping of names to targets, such as {"app.tasks.mail": {"type": "http", "url": …}}',
            param_hint="--target-map",
        )
    return {str(name): target for name, target in targets.items()}


def _read_all(files: Iterable[str], source: str | None, options: Options) -> Imported:
    """Return what all files come to together. Refuses a file that no importer can read."""
    drafts: list[Draft] = []
    refusals: list[Refusal] = []
    notes: list[Note] = []
    names = list(files)
    for name in names:
        text = text_of(name)
        try:
            kind = source or recognise_source(text, name)
            if options.shell and kind not in WITH_COMMANDS:
                raise BadInput(
                    f"{kind} has no commands: --shell is for {' and '.join(WITH_COMMANDS)}"
                )
            found = read_from(kind, text, replace(options, filename=name))
        except BadInput as error:
            raise click.ClickException(f"{name}: {error.message}") from None
        where = f"{name}: " if len(names) > 1 else ""
        drafts += (replace(draft, place=where + draft.place) for draft in found.drafts)
        refusals += (replace(refusal, place=where + refusal.place) for refusal in found.refusals)
        notes += found.notes
    for unused in options.targets.keys() - {draft.runs for draft in drafts}:
        why = "the target map names it, and nothing here runs it"
        notes.append(Note("--target-map", unused, why, "look how the source spells it"))
    return Imported(tuple(with_own_ids(drafts)), tuple(refusals), tuple(notes))


def _foreseen(draft: Draft, now: int) -> Row:
    body = draft.body
    timing = Timing(
        schedule_expr=body["schedule_expr"], timezone=body["timezone"], dialect=body["dialect"]
    )
    planned = plan_times(timing, draft.job_id, now)
    at = clock_time(planned.next_run_at)
    shown = None if at is None else rfc_3339(datetime.fromtimestamp(at / 1000, UTC))
    return row_of(draft, "new", next_run_at=shown, body=body)


def _with_bar(count: int, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows as they come; meanwhile show how far it is, on a terminal."""
    with progress() as bar:
        task = bar.add_task("register", total=count)
        for row in rows:
            bar.advance(task)
            yield row


def _print(rows: list[Row], notes: tuple[Note, ...], timezone: str) -> None:
    print_table(
        ("PLACE", "STATUS", "ID", "NEXT", "NOTE"),
        [
            (
                row.place,
                row.status,
                row.job_id,
                "paused" if row.paused else row.next_run_at,
                row.reason or (f"{len(row.notes)} below" if row.notes else None),
            )
            for row in rows
        ],
    )
    told = [(row.job_id or row.place, note) for row in rows for note in row.notes]
    told += [("the file", note) for note in notes]
    if told:
        click.echo()
        print_table(
            ("OF", "FIELD", "VALUE", "WHY", "WHAT TO DO"),
            [(of, it.field, it.value or None, it.why, it.advice or None) for of, it in told],
        )
    counts = Counter(row.status for row in rows)
    summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    click.echo(
        f"{summary or 'no jobs in this file'}, {len(told)} notes; hours without a zone are"
        f" {timezone}",
        err=True,
    )


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"
