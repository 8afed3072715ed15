"""`waterclock export`: what stands, as the files that `plan` and `apply` take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from engine.cli import transfer
from engine.cli.carrying import with_deployment
from engine.cli.client import Api
from engine.cli.live import Answer, job_pages, limit_pages
from engine.cli.options import over_api
from engine.declared import FORMAT, owner_tag
from engine.importers.documents import MAX_BYTES, write_yaml
from engine.logs import printable

_HEAD = (
    "# `waterclock plan FILE` shows what differs from this, `waterclock apply FILE` changes it.\n"
)


@click.command(cls=with_deployment(transfer.export_))
@click.argument(
    "file", type=click.Path(dir_okay=False, allow_dash=True), default="-", metavar="[FILE|-]"
)
@click.option("--format", "form", type=click.Choice(["yaml", "json"]), help="[default: yaml]")
@click.option("--group", help="Only the jobs of this group.")
@click.option("--prefix", help="Only jobs whose ids begin so.")
@click.option("--tag", "tags", multiple=True, help="Only jobs with this tag; may be given again.")
@click.option("--owner", help="Only jobs of this owner, who is named in the file.")
@click.option("--all", "everything", is_flag=True, help="Jobs that are through, too.")
@over_api
def export(
    api: Api,
    as_json: bool,
    file: str,
    form: str | None,
    group: str | None,
    prefix: str | None,
    tags: tuple[str, ...],
    owner: str | None,
    everything: bool,
) -> None:
    """Write what stands as a file that `apply` takes.

    Jobs, calendars, and limits of queues and hosts; "-" is standard output. What has its default is
    left out. With a filter, there are the jobs that it lets through and the calendars that they
    name. Whatever secrets stand in headers and payloads stand in the file.
    """
    # Imported here, since most commands do without the rules of the API.
    from api import declared

    is_json = as_json or form == "json" or (form is None and file.endswith(".json"))
    asked = [*tags, *([owner_tag(owner)] if owner else [])]
    jobs = list(job_pages(api, group=group, prefix=prefix or None, tag=asked or None))
    now = int(time.time() * 1000)
    kept = [
        job
        for job in jobs
        if everything or not (job["state"] == "completed" or declared.has_passed(job, now))
    ]
    if left := len(jobs) - len(kept):
        click.echo(f"left out, since their times are over: {left} (--all)", err=True)
    is_filtered = bool(group or prefix or asked)
    content: dict[str, Any] = {"waterclock": FORMAT, **({"owner": owner} if owner else {})}
    content |= _settings(api, kept, is_filtered, declared.least_calendar, declared.least_limit)
    content["jobs"] = {
        job["job_id"]: _without_owner(declared.least_job(job), owner) for job in kept
    }
    said = {job["job_id"]: declared.say_schedule(job) for job in kept}
    comments = {job_id: one.description for job_id, one in said.items() if one}
    text = _as_json(content) if is_json else _as_yaml(content, comments)
    if len(text.encode()) > MAX_BYTES:
        click.echo(
            f"this is over {MAX_BYTES >> 20} MiB, too large to be read again as one file: export by"
            " --group or --prefix",
            err=True,
        )
    with click.open_file(file, "w", encoding="utf-8", atomic=file != "-") as out:
        out.write(text)


def _settings(
    api: Api,
    jobs: Iterable[Answer],
    is_filtered: bool,
    least_calendar: Callable[[Answer], dict[str, Any]],
    least_limit: Callable[[Answer], dict[str, Any]],
) -> dict[str, Any]:
    """Return the sections that are not empty, but the jobs'."""
    named = {name for job in jobs for name in job["calendars"]}
    stand = [line["name"] for line in api.get("calendars")["calendars"]]
    wanted = [name for name in stand if name in named or not is_filtered]
    found = {"calendars": {name: least_calendar(api.get("calendars", name)) for name in wanted}}
    if not is_filtered:
        for section in ("queues", "hosts"):
            limits = limit_pages(api, section)
            found[section] = {one[section[:-1]]: least_limit(one) for one in limits}
    return {section: entries for section, entries in found.items() if entries}


def _without_owner(body: dict[str, Any], owner: str | None) -> dict[str, Any]:
    """Return a body without the tag that the owner of its file stands for."""
    if owner is None:
        return body
    tags = [tag for tag in body.pop("tags", []) if tag != owner_tag(owner)]
    return {**body, **({"tags": tags} if tags else {})}


def _as_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _as_yaml(content: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Return the file, with what each schedule says above its job."""
    jobs = content["jobs"]
    lines = [_HEAD, write_yaml({name: part for name, part in content.items() if name != "jobs"})]
    lines.append("jobs:\n" if jobs else "jobs: {}\n")
    for job_id, body in jobs.items():
        if said := comments.get(job_id):
            lines.append(f"\n  # {printable(said)}\n")
        else:
            lines.append("\n")
        lines += (f"  {line}\n" for line in write_yaml({job_id: body}).rstrip("\n").split("\n"))
    return "".join(lines)
