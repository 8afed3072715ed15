"""`waterclock jobs bulk` and `bulk-delete`: a line of NDJSON a job, and what became of each."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import click
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from engine.cli.client import Api, fault_text
from engine.cli.options import confirm_one, over_api, yes_option
from engine.cli.progress import progress
from engine.cli.show import print_facts, print_table
from engine.cli.words import in_own_words

MOST_LINES = 5_000
MOST_BYTES = 4 * 1024 * 1024
"""Of one request: its answer is read whole before the next one is sent."""
MOST_SHOWN = 20
"""Lines that failed and are shown; --json shows all."""

_WORDS = {201: "created", 200: "replaced", 204: "deleted"}


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--replace", is_flag=True, help="Replace jobs whose id is taken; else they stay.")
@over_api
def bulk(api: Api, as_json: bool, file: BinaryIO, replace: bool) -> None:
    """Register a job for each line of a FILE of JSON objects.

    "-" is standard input. A line is the body of a POST /v1/jobs, such as {"job_id": "a", "target":
    {"type": "worker"}}. One that is refused stops none of the others; the exit code is then 1.
    """
    _send(api, "bulk", file, as_json, on_conflict="replace" if replace else None)


@click.command(name="bulk-delete")
@click.argument("file", type=click.File("rb"))
@click.option("--cascade", is_flag=True, help="Delete what depends on them, too.")
@click.option("--detach", is_flag=True, help="What depends on them then does so no longer.")
@yes_option
@over_api
def bulk_delete(
    api: Api, as_json: bool, file: BinaryIO, cascade: bool, detach: bool, yes: bool
) -> None:
    """Delete the job that each line of a FILE names.

    "-" is standard input. A line is {"job_id": "…"}, or a JSON string. A line that is refused stops
    none of the others; the exit code is then 1.
    """
    if cascade and detach:
        raise click.UsageError("give one of --cascade and --detach")
    dependents = "cascade" if cascade else "detach" if detach else None
    confirm_one("Delete the jobs that the file names, with their histories?", yes)
    _send(api, "bulk-delete", file, as_json, dependents=dependents)


def parts(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines of a file, as many as one request is to hold."""
    lines: list[bytes] = []
    size = 0
    for line in file:
        if lines and (len(lines) >= MOST_LINES or size + len(line) > MOST_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield lines


def _send(api: Api, verb: str, file: BinaryIO, as_json: bool, **query: str | None) -> None:
    counts: Counter[str] = Counter()
    failed: list[dict[str, Any]] = []
    done = 0
    try:
        with _progress(file) as bar:
            for lines in parts(file):
                for answer in api.post_lines("jobs", verb, lines=b"".join(lines), **query):
                    answer["line"] += done
                    counts[_word(answer)] += 1
                    if as_json:
                        click.echo(json.dumps(answer))
                    elif answer["status"] >= 400 and len(failed) < MOST_SHOWN:
                        failed.append(answer)
                done += len(lines)
                bar.update(TaskID(0), advance=sum(map(len, lines)), lines=done)
    finally:
        # Of a connection that is lost, too, all that was answered counts.
        if not as_json:
            _print(counts, failed)
    if counts["failed"]:
        raise click.exceptions.Exit(1)


def _progress(file: BinaryIO) -> Progress:
    """Return a bar for a terminal, in bytes of the file as far as its size is known."""
    bar = progress(BarColumn(), TextColumn("{task.fields[lines]:,} lines"), TimeRemainingColumn())
    bar.add_task("", total=_size_of(file), lines=0)
    return bar


def _size_of(file: BinaryIO) -> int | None:
    with suppress(OSError):
        found = os.fstat(file.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else None
    return None


def _word(answer: dict[str, Any]) -> str:
    return _WORDS.get(answer["status"], "failed")


def _print(counts: Counter[str], failed: list[dict[str, Any]]) -> None:
    if failed:
        rows = [(one["line"], one["job_id"], one["code"], reason_of(one)) for one in failed]
        print_table(("LINE", "ID", "CODE", "REASON"), rows)
        if counts["failed"] > len(failed):
            click.echo(f"and {counts['failed'] - len(failed)} more: --json shows all", err=True)
    if counts:
        print_facts((word, str(count)) for word, count in counts.items())


def reason_of(answer: dict[str, Any]) -> str:
    """Return what was wrong with a line, field by field."""
    faults = "; ".join(map(fault_text, answer.get("errors") or ()))
    return faults or in_own_words(str(answer["detail"]))
