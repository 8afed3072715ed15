"""A crontab's lines as jobs: a call of a URL for each, or the command itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.crontab import CRONTAB_DIALECT, CrontabEntry, job_ids, read_crontab
from engine.errors import BadInput
from engine.importers.entry import Entry
from engine.importers.imported import Draft, Imported, Options, Refusal


def read(text: str, options: Options) -> Imported:
    """Return the lines of a crontab. Refuses with BadInput an import that names no way to run
    them."""
    if (options.url is None) is not options.shell:
        raise BadInput("of a crontab say either --url or --shell: what is to run its commands")
    found = read_crontab(text, system=options.system, timezone=options.timezone, now=options.now)
    ids = job_ids(found.entries, options.filename)
    drafts = [_draft(*pair, options) for pair in zip(found.entries, ids, strict=True)]
    refusals = [Refusal(f"line {refusal.line}", refusal.reason) for refusal in found.refusals]
    return Imported(tuple(drafts), tuple(refusals))


def _draft(line: CrontabEntry, job_id: str, options: Options) -> Draft:
    entry = Entry(job_id, options)
    entry.schedule(line.schedule_expr, CRONTAB_DIALECT, line.timezone)
    entry.body |= what_to_run(line, options.url)
    for field, why in set_aside(line, options.url):
        entry.note(field, line.raw, why)
    return entry.draft(f"line {line.line}")


def what_to_run(line: CrontabEntry, url: str | None) -> dict[str, Any]:
    """Return target and payload: the URL is sent the command and all about it; without one the
    job is the command."""
    if url is not None:
        payload = {
            "command": line.command,
            "stdin": line.stdin,
            "user": line.user,
            "environment": line.environment,
        }
        return {"target": {"type": "http", "url": url}, "payload": payload}
    target = {
        "type": "shell",
        "command": line.command,
        "cwd": line.environment.get("HOME") or None,
        "env": line.environment or None,
        "stdin": line.stdin,
        "user": line.user,
    }
    return {"target": {name: value for name, value in target.items() if value is not None}}


def set_aside(line: CrontabEntry, url: str | None) -> Iterator[tuple[str, str]]:
    """Yield (field, why) for what of a line was understood, and is not done here."""
    if line.note:
        yield "line", line.note
    if url is None and line.environment.get("MAILTO"):
        yield "MAILTO", "MAILTO: no mail is sent, the history has the output"
