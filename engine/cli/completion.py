"""`waterclock completion`: what a shell offers at the Tab key, ids and names from the API among it.

The API is asked for at most a second, and where none answers there is nothing to offer. Nothing is
ever printed but that: it would stand in the middle of somebody's command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from engine.cli.client import Api
from engine.config import Config
from engine.errors import WaterclockError

TIMEOUT_S = 1.0
MOST = 100
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_WATERCLOCK_COMPLETE"
PROGRAM = "waterclock"

Words = Iterator[tuple[str, str | None]]
"""What may be meant, each with a word about it."""


def _jobs(api: Api, begun: str) -> Words:
    for job in api.get("jobs", prefix=begun or None, limit=MOST)["jobs"]:
        yield job["job_id"], job["state"]


def _executions(api: Api, begun: str) -> Words:
    job_id, at, _ = begun.partition("@")
    path = ("jobs", job_id, "executions") if at else ("executions",)
    for found in api.get(*path, limit=MOST):
        if "execution_id" in found:
            yield found["execution_id"], found["status"]


def _letters(api: Api, begun: str) -> Words:
    prefix = begun.partition("@")[0] or None
    for letter in api.get("dead", prefix=prefix, limit=MOST):
        yield letter["execution_id"], letter["reason"]


def _named(path: str, field: str) -> Callable[[Api, str], Words]:
    def words(api: Api, _: str) -> Words:
        found = api.get(path)
        for one in found[path] if isinstance(found, dict) else found:
            yield one[field], None

    return words


_QUEUES = _named("queues", "queue")
_GROUPS = _named("groups", "group")
_CALENDARS = _named("calendars", "name")

OFFERED: dict[str, Callable[[Api, str], Words]] = {
    "job_id": _jobs,
    "job": _jobs,
    "depends_on": _jobs,
    "execution_id": _executions,
    "execution_ids": _letters,
    "dead.execution_id": _letters,
    "queue": _QUEUES,
    "group": _GROUPS,
    "groups": _GROUPS,
    "calendars": _CALENDARS,
    "calendars.name": _CALENDARS,
    "host": _named("hosts", "host"),
}
"""Name of a parameter, after that of its group where it needs one → where its values come from."""
NOT_OFFERED = ("jobs.add.job_id", "up.host", "api.host")
"""Parameters of these names that hold something new, or something else."""


class Offered(click.types.StringParamType):
    """A text that is completed from the API."""

    def __init__(self, words: Callable[[Api, str], Words]) -> None:
        self._words = words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return what begins so, as far as the API knows, and nothing if it does not answer."""
        try:
            where = {name: ctx.params.get(name) for name in ("api_url", "api_key_file")}
            config = Config.from_env(**where)
            api = Api(config.api_url, config.read_api_key(), timeout_s=TIMEOUT_S)
            return [
                CompletionItem(word, help=about)
                for word, about in self._words(api, incomplete)
                if word.startswith(incomplete)
            ]
        except (click.ClickException, WaterclockError, LookupError, TypeError):
            return []


def offer_from_api(command: click.Command, *path: str) -> None:
    """Let the parameters of a command, and of those in it, be completed as OFFERED says."""
    for parameter in command.params:
        where = (*path, str(parameter.name))
        words = OFFERED.get(".".join((*path[:1], where[-1]))) or OFFERED.get(where[-1])
        is_text = type(parameter.type) is click.types.StringParamType
        if words and is_text and ".".join(where) not in NOT_OFFERED:
            parameter.type = Offered(words)
    for name, inner in getattr(command, "commands", {}).items():
        offer_from_api(inner, *path, name)


class _WholeWords(BashComplete):
    """For bash, which cuts words at `@` and `:`, as ids have them: looks at the line itself, and
    gives back what is behind the cut."""

    source_template = BashComplete.source_template.replace(
        "COMP_CWORD=$COMP_CWORD",
        'COMP_CWORD=$COMP_CWORD COMP_LINE="${COMP_LINE:0:COMP_POINT}"'
        ' COMP_WORDBREAKS="$COMP_WORDBREAKS"',
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        if not line:
            return super().get_completion_args()
        words = split_arg_string(line)
        begun = "" if line[-1:].isspace() else words.pop()
        return words[1:], begun

    def format_completion(self, item: CompletionItem[Any]) -> str:
        line, breaks = (os.environ.get(name, "") for name in ("COMP_LINE", "COMP_WORDBREAKS"))
        begun = "" if line[-1:].isspace() else line.split()[-1] if line else ""
        cut = max((begun.rfind(mark) for mark in breaks if mark in "@:="), default=-1) + 1
        return f"{item.type},{item.value[cut:]}"


add_completion_class(_WholeWords)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what teaches a shell to complete these commands.

    bash and zsh: put the example in ~/.bashrc, or with zsh in ~/.zshrc. fish: write it to
    ~/.config/fish/completions/waterclock.fish.
    """
    kind: type[ShellComplete] | None = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
