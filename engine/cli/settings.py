"""Options that stand for a setting: help, bounds and default are those of the setting itself.

An option that is not given is None, which leaves the setting to its variable or its default, so
`Config.from_env(**options)` takes them as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from engine.config import Config
from engine.logs import LEVELS, set_up_logging

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def setting(name: str, flag: str, **more: Any) -> Decorator:
    """Return a click option for the setting `name`, passed to the command under that name."""
    field = Config.model_fields[name]
    if field.annotation is int:
        bounds = {
            side: getattr(m, side)
            for m in field.metadata
            for side in ("ge", "le")
            if hasattr(m, side)
        }
        more.setdefault("type", click.IntRange(bounds.get("ge"), bounds.get("le")))
    described = f"{field.description}"
    text = f"{described[0].upper()}{described[1:]}. [WATERCLOCK_{name.upper()}"
    if field.default is not None:
        text += f"; default: {field.default}"
    return click.option(flag, name, help=text + "]", **more)


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
