"""`waterclock dead …`: look at dead letters, redrive and discard them, over the HTTP API."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from engine.cli.client import Api, Refused
from engine.cli.job_options import given
from engine.cli.options import confirm_all, confirm_one, over_api, yes_option
from engine.cli.paging import Paging, paged, tell_of_more
from engine.cli.progress import progress, told_at_the_end
from engine.cli.show import dump_json, print_facts, print_json, print_table
from engine.execution import DeadReason

STEP = 1_000
"""Letters that one request redrives or discards: the bar moves, and nothing times out."""

_FILTERS = (
    click.option("--job", "job_id", help="Of this job."),
    click.option("--prefix", help="Of jobs whose ids begin so."),
    click.option("--queue", help="That came from this queue."),
    click.option("--reason", type=click.Choice(list(map(str, DeadReason))), help="Why they died."),
    click.option("--error", help="Whose last error has this text in it."),
    click.option("--from", "from_", metavar="TIME", help="That died at this time or later."),
    click.option(
        "--to", metavar="TIME", help="That died at this time or before. Both are RFC 3339."
    ),
)


def _filtered(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a filter, as `wanted`: those that were given."""

    @functools.wraps(command)
    def with_filter(*args: Any, **options: Any) -> None:
        names = ("job_id", "prefix", "queue", "reason", "error", "from_", "to")
        wanted = {name.rstrip("_"): options.pop(name) for name in names}
        command(*args, wanted=given(wanted), **options)

    filtered: Callable[..., None] = with_filter
    for option in reversed(_FILTERS):
        filtered = option(filtered)
    return filtered


@click.group()
def dead() -> None:
    """Look at dead letters, redrive and discard them."""


@dead.command(name="list")
@_filtered
@paged
@over_api
def list_(api: Api, as_json: bool, wanted: dict[str, str], paging: Paging) -> None:
    """List dead letters, the newest first."""
    letters, after = paging.read(
        lambda limit, after: api.get_page("dead", **wanted, limit=limit, after=after)
    )
    if as_json:
        print_json(letters)
    else:
        columns = ("EXECUTION", "DIED AT", "REASON", "QUEUE", "ATTEMPTS", "ERROR")
        print_table(columns, map(_row, letters))
    tell_of_more(after)


@dead.command()
@click.argument("execution_id")
@over_api
def show(api: Api, execution_id: str, as_json: bool) -> None:
    """Show a dead letter: target, payload and all its attempts."""
    letter = api.get("dead", execution_id)
    if as_json:
        print_json(letter)
        return
    print_facts(
        (name, value if isinstance(value, str | None) else dump_json(value))
        for name, value in letter.items()
        if name != "attempts"
    )
    print_table(
        ("ATTEMPT", "STARTED AT", "TOOK MS", "WORKER", "RESULT"),
        [
            (
                attempt["attempt"],
                attempt["started_at"],
                attempt["duration_ms"],
                attempt["worker"] or None,
                attempt["error"] or attempt["status_code"],
            )
            for attempt in letter["attempts"]
        ],
    )


def _chosen(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments that choose letters."""
    for option in (
        click.argument("execution_ids", metavar="[EXECUTION_ID]...", nargs=-1),
        click.option("--all", "is_all", is_flag=True, help="All dead letters."),
        yes_option,
        _filtered,
        over_api,
    ):
        command = option(command)
    return command


@dead.command()
@_chosen
def redrive(api: Api, as_json: bool, **chosen: Any) -> None:
    """Give dead executions another attempt.

    Those named, those that a filter takes, or --all.
    """
    _carry_out(api, "redrive", "redriven", as_json, **chosen)


@dead.command()
@_chosen
def discard(api: Api, as_json: bool, **chosen: Any) -> None:
    """Throw dead letters away.

    Those named, those that a filter takes, or --all.
    """
    _carry_out(api, "discard", "discarded", as_json, **chosen)


def _carry_out(
    api: Api,
    verb: str,
    done: str,
    as_json: bool,
    *,
    execution_ids: tuple[str, ...],
    wanted: dict[str, str],
    is_all: bool,
    yes: bool,
) -> None:
    """Redrive or discard, and print how many. The exit code is 1 if some were skipped and none
    done."""
    if [bool(execution_ids), bool(wanted), is_all].count(True) != 1:
        raise click.UsageError("give execution ids, or a filter, or --all")
    if execution_ids:
        if verb == "discard":
            confirm_one(f"Discard {', '.join(execution_ids)}?", yes)
        steps = _each(api, verb, done, execution_ids)
    else:
        which = "all dead letters" if is_all else "the dead letters that this filter takes"
        confirm_all(f"{verb.capitalize()} {which}?", yes)
        steps = _many(api, verb, {"all": True} if is_all else wanted)
    count, skipped = Counter[str](), Counter[str]()

    def tell() -> None:
        if as_json:
            print_json({done: count[done], "skipped": dict(skipped)})
        else:
            facts = [(f"skipped as {reason}", number) for reason, number in skipped.items()]
            print_facts([(done, count[done]), *facts])

    with told_at_the_end(tell, lambda: count["examined"]):
        _sum(verb, done, steps, count, skipped)
    if skipped and not count[done]:
        click.get_current_context().exit(1)


def _sum(
    verb: str,
    done: str,
    steps: Iterable[dict[str, Any]],
    count: Counter[str],
    skipped: Counter[str],
) -> None:
    """Count what was done, and why others were not; meanwhile show how far it is, on a terminal."""
    with progress() as bar:
        task = bar.add_task(verb, total=None)
        for step in steps:
            count[done] += step.get(done, 0)
            count["examined"] += step["examined"]
            skipped.update(step.get("skipped", {}))
            bar.update(task, completed=count["examined"], total=count["examined"] + step["left"])


def _many(api: Api, verb: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what each step did, until the last one."""
    after = None
    while True:
        step = api.post("dead", verb, body=given({**body, "limit": STEP, "after": after}))
        yield step
        after = step["next"]
        if after is None:
            return


def _each(
    api: Api, verb: str, done: str, execution_ids: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Yield what became of each letter, in the form of a step; say why one was refused."""
    for number, execution_id in enumerate(execution_ids, start=1):
        became: dict[str, Any] = {done: 1}
        try:
            if verb == "discard":
                api.delete("dead", execution_id)
            else:
                api.post("dead", execution_id, verb)
        except Refused as refusal:
            click.echo(f"{execution_id}: {refusal.message}", err=True)
            became = {"skipped": {refusal.code: 1}}
        yield {**became, "examined": 1, "left": len(execution_ids) - number}


def _row(letter: dict[str, Any]) -> tuple[object, ...]:
    return (
        letter["execution_id"],
        letter["died_at"],
        letter["reason"],
        letter["queue"],
        letter["attempt_count"],
        letter["error"] or letter["status_code"],
    )
