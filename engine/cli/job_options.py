"""The options that describe a job, and the body that they make: of a new one, or of a change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import click

from engine.backoff import Backoff, Jitter
from engine.cli.options import Decorator
from engine.depends import Condition, Join, Match
from engine.model import Overlap, Signing
from engine.names import Priority
from engine.plan import DIALECT_SUMMARIES, DstOverlap, Gap, MisfirePolicy, Roll


class JsonValue(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value, parse_constant=_no_number)
        except ValueError as error:
            self.fail(f"not JSON: {error}; a text needs quotes of its own: '\"text\"'", param, ctx)


JSON = JsonValue()


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number in JSON")


_TIMING = (
    click.option(
        "--dialect",
        type=click.Choice([*DIALECT_SUMMARIES]),
        help="What the schedule is written in; recognised where that is plain.",
    ),
    click.option("--timezone", help="The IANA zone of a cron schedule. [default: UTC]"),
    click.option(
        "--dst-gap", type=click.Choice(get_args(Gap)), help="A fixed time that the clock skips."
    ),
    click.option(
        "--dst-overlap",
        type=click.Choice(get_args(DstOverlap)),
        help="A fixed time that the clock shows twice.",
    ),
    click.option("--start-at", help="No run before this RFC 3339 time."),
    click.option("--end-at", help="No run after this RFC 3339 time."),
    click.option("--window-ms", type=int, help="Spread the runs of many jobs over so long."),
    click.option("--calendar", "calendars", multiple=True, help="A calendar; may be given again."),
    click.option("--roll", type=click.Choice(get_args(Roll)), help="If the calendar is closed."),
)
_OPTIONS = (
    click.option(
        "--schedule",
        "schedule_expr",
        multiple=True,
        help='Cron ("*/5 * * * *", "@daily"), "every 30s", or an RFC 3339 time; without it the job'
        " runs once, at once. Several are joined.",
    ),
    *_TIMING,
    click.option("--misfire", type=click.Choice(get_args(MisfirePolicy)), help="If it comes late."),
    click.option("--grace-ms", type=int, help="How late is still on time."),
    click.option("--max-catch-up", type=int, help="Missed times that fire_all makes up for."),
    click.option("--url", help="POST the payload to this URL."),
    click.option("--worker", "is_worker", is_flag=True, help="Leave it to consumers of your own."),
    click.option("--handler", help="Which of the consumers' handlers is to run it."),
    click.option("--header", "headers", multiple=True, help='"Name: value"; may be given again.'),
    click.option(
        "--signing",
        type=click.Choice(get_args(Signing)),
        help="Sign the calls with the secrets of the job, or of its group.",
    ),
    click.option(
        "--template",
        is_flag=True,
        default=None,
        help="Replace placeholders such as {{execution_id}} in payload, headers and URL.",
    ),
    click.option("--follow-redirects", type=int, help="So many (307, 308). [default: 0]"),
    click.option(
        "--respond-async",
        is_flag=True,
        default=None,
        help="The target may answer 202, and report the end later.",
    ),
    click.option("--heartbeat-ms", type=int, help="It then says so often that it still runs."),
    click.option("--command", help="Run this, with /bin/sh -c, on a worker that allows it."),
    click.option("--cwd", help="Where the command runs. [default: the home directory]"),
    click.option("--env", multiple=True, help='"NAME=value" for the command; may be given again.'),
    click.option("--stdin", help="The command's standard input. [default: the payload]"),
    click.option("--user", help="Whom the command runs as. [default: the worker's user]"),
    click.option("--timeout-ms", type=int, help="How long the URL, or the command, may take."),
    click.option("--payload", type=JSON, help="Any JSON value."),
    click.option("--queue", help="The queue that workers read."),
    click.option(
        "--priority", type=click.Choice(list(map(str, Priority))), help="Its place in its queue."
    ),
    click.option("--group", help="Whose job it is: groups share a queue fairly."),
    click.option("--tag", "tags", multiple=True, help="To be found by; may be given again."),
    click.option("--max-attempts", type=int, help="Attempts in all, the first included."),
    click.option("--retry-backoff", type=click.Choice(get_args(Backoff)), help="How waits grow."),
    click.option("--retry-base-ms", type=int, help="The wait after the first attempt."),
    click.option("--retry-max-ms", type=int, help="The wait stops growing here."),
    click.option(
        "--retry-wait-ms",
        "retry_waits_ms",
        type=int,
        multiple=True,
        help="A wait of the backoff list; may be given again, and the last one repeats.",
    ),
    click.option(
        "--retry-jitter", type=click.Choice(get_args(Jitter)), help="How waits are spread."
    ),
    click.option("--retry-max-elapsed-ms", type=int, help="No attempt begins later than this."),
    click.option("--retry-deadline-ms", type=int, help="The execution is over so long after."),
    click.option(
        "--retry-on",
        multiple=True,
        help="What is tried again: a status, 4xx, 5xx, or a kind of error; may be given again.",
    ),
    click.option(
        "--overlap", type=click.Choice(list(map(str, Overlap))), help="If one still runs."
    ),
    click.option("--concurrency", type=int, help="Runs that are no overlap yet. [default: 1]"),
    click.option("--max-runs", type=int, help="The schedule ends after so many."),
    click.option("--expires-after-ms", type=int, help="Not started so late, a run is dropped."),
    click.option("--pause-after-failures", type=int, help="So many dead in a row pause the job."),
    click.option(
        "--delete-after-completion",
        is_flag=True,
        default=None,
        help="The job goes when nothing of it is left to run.",
    ),
    click.option(
        "--depends-on",
        multiple=True,
        metavar="JOB[:CONDITION]",
        help="Run when this job has succeeded, or failed, or finished; may be given again.",
    ),
    click.option(
        "--join", type=click.Choice(list(map(str, Join))), help="When all have, or any. [all]"
    ),
    click.option(
        "--match",
        type=click.Choice(list(map(str, Match))),
        help="Of which time: the same, or the latest of each. [as the jobs' roots are]",
    ),
    click.option(
        "--gate", is_flag=True, default=None, help="Each time of the schedule waits for them."
    ),
    click.option("--gate-deadline-ms", type=int, help="How long at the most. [default: a day]"),
    click.option("--allow-missing", is_flag=True, default=None, help="They need not be there yet."),
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a job, to be passed to `job_body`."""
    return _with(_OPTIONS, command)


def timing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say what a schedule means."""
    return _with(_TIMING, command)


def _with(options: tuple[Decorator, ...], command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def job_body(
    *,
    schedule_expr: tuple[str, ...],
    calendars: tuple[str, ...],
    tags: tuple[str, ...],
    depends_on: tuple[str, ...],
    url: str | None,
    is_worker: bool,
    handler: str | None,
    headers: tuple[str, ...],
    signing: str | None,
    template: bool | None,
    follow_redirects: int | None,
    respond_async: bool | None,
    heartbeat_ms: int | None,
    command: str | None,
    cwd: str | None,
    env: tuple[str, ...],
    stdin: str | None,
    user: str | None,
    timeout_ms: int | None,
    max_attempts: int | None,
    retry_backoff: str | None,
    retry_base_ms: int | None,
    retry_max_ms: int | None,
    retry_waits_ms: tuple[int, ...],
    retry_jitter: str | None,
    retry_max_elapsed_ms: int | None,
    retry_deadline_ms: int | None,
    retry_on: tuple[str, ...],
    misfire: str | None,
    grace_ms: int | None,
    max_catch_up: int | None,
    **rest: Any,
) -> dict[str, Any]:
    """Return the body that holds what was given, and nothing else."""
    http = given(
        {
            "url": url,
            "headers": dict(map(_header, headers)) or None,
            "signing": signing,
            "template": template,
            "follow_redirects": follow_redirects,
            "respond_async": respond_async,
            "heartbeat_ms": heartbeat_ms,
        }
    )
    shell = given(
        {
            "command": command,
            "cwd": cwd,
            "env": dict(map(_variable, env)) or None,
            "stdin": stdin,
            "user": user,
        }
    )
    own = given({"handler": handler})
    if [bool(http), bool(shell), is_worker or bool(own)].count(True) > 1 or (
        (is_worker or own) and timeout_ms is not None
    ):
        raise click.UsageError(
            "--header, --signing, --template, --follow-redirects, --respond-async, --heartbeat-ms"
            " and --timeout-ms go with --url; --cwd, --env, --stdin, --user and --timeout-ms with"
            " --command; --handler, and none of them, with --worker"
        )
    kinds = {"worker": is_worker, "http": url is not None, "shell": command is not None}
    target = {
        "type": next((kind for kind, is_it in kinds.items() if is_it), None),
        **http,
        **shell,
        **own,
        "timeout_ms": timeout_ms,
    }
    retry = {
        "max_attempts": max_attempts,
        "backoff": retry_backoff,
        "base_ms": retry_base_ms,
        "max_ms": retry_max_ms,
        "waits_ms": [*retry_waits_ms] or None,
        "jitter": retry_jitter,
        "max_elapsed_ms": retry_max_elapsed_ms,
        "deadline_ms": retry_deadline_ms,
        "on": [int(item) if item.isdecimal() else item for item in retry_on] or None,
    }
    late = {"policy": misfire, "grace_ms": grace_ms, "max_catch_up": max_catch_up}
    body = {
        "schedule_expr": schedule_expr[0] if len(schedule_expr) == 1 else [*schedule_expr] or None,
        "calendars": [*calendars] or None,
        "tags": [*tags] or None,
        "depends_on": [*map(_upstream, depends_on)] or None,
        "target": given(target) or None,
        "retry": given(retry) or None,
        "misfire": given(late) or None,
        **rest,
    }
    return given(body)


def given(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _upstream(text: str) -> str | dict[str, str]:
    # An id may hold colons, too.
    job_id, colon, condition = text.rpartition(":")
    if colon and condition in set(Condition):
        return {"job": job_id, "condition": condition}
    return text


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError("--env takes 'NAME=value'")
    return name, value


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError("--header takes 'Name: value'")
    return name.strip(), value.strip()
