"""The options that commands share.

Most stand for a setting, and take help, bounds and default from it. One that is not given is None,
which leaves the setting to its variable or its default: `Config.from_env(**options)` takes them as
they come.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from engine.cli.client import Api
from engine.config import Config
from engine.logs import LEVELS, set_up_logging

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def setting(name: str, flag: str, **more: Any) -> Decorator:
    """Return a click option for the setting `name`, passed to the command under that name.

    `more` goes to click; a `help` among it stands in place of the setting's own.
    """
    field = Config.model_fields[name]
    if field.annotation is int:
        limits = {
            side: getattr(limit, side)
            for limit in field.metadata
            for side in ("ge", "le")
            if hasattr(limit, side)
        }
        more.setdefault("type", click.IntRange(limits.get("ge"), limits.get("le")))
    about = str(field.description)
    default = "" if field.default is None else f"; default: {field.default}"
    more.setdefault("help", f"{about[0].upper()}{about[1:]}. [WATERCLOCK_{name.upper()}{default}]")
    return click.option(flag, name, **more)


def allow_shell(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--allow-shell`."""
    about = "Run shell jobs too, which may do what this process may. [WATERCLOCK_ALLOW_SHELL]"
    return setting("allow_shell", "--allow-shell", is_flag=True, default=None, help=about)(command)


def log_level(default: str) -> Decorator:
    """Return the option `--log-level`, which sets logging up and passes nothing on."""
    return click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default=default,
        show_default=True,
        expose_value=False,
        callback=lambda _context, _option, level: set_up_logging(level),
        help="The least that is worth a line on standard error.",
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm_one(question: str, yes: bool) -> None:
    """Ask before one thing goes, if there is a person at a terminal; it was named, so a program
    need not say more. Raises Abort if the answer is no."""
    if not yes and sys.stdin.isatty():
        confirm_all(question, yes)


def confirm_all(question: str, yes: bool) -> None:
    """Ask before much is done, whoever is there: a program has to say `--yes`. Raises Abort if the
    answer is no, and ClickException where nobody answers."""
    if yes:
        return
    try:
        is_agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise click.ClickException("nobody answers, so nothing was done; --yes does it") from None
    if not is_agreed:
        raise click.Abort


def over_api(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options `--api`, `--api-key-file` and `--json`, and the API as its first
    argument. A key is no option: every user of a machine sees what commands are given."""

    @setting("api_url", "--api")
    @setting("api_key_file", "--api-key-file", type=click.Path(path_type=Path))
    @json_option
    @functools.wraps(command)
    def with_api(
        *args: Any, api_url: str | None, api_key_file: Path | None, **options: Any
    ) -> None:
        config = Config.from_env(api_url=api_url, api_key_file=api_key_file)
        command(Api(config.api_url, config.read_api_key()), *args, **options)

    return with_api
