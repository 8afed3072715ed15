"""What the API says, in the words of the command line: options of the command that runs take the
place of fields, query parameters and headers."""

from __future__ import annotations

import re

import click

_PARAMETERS = {"misfire.policy": "misfire", "target.type": "is_worker", "from": "from_"}
"""Field of a body → what the command line calls it, where its own name does not tell."""
_OF_MANY = ("headers", "env")
"""Fields that hold named parts, of which the option takes one at a time."""
_PHRASES = (
    ("dependents=cascade", "cascade"),
    ("dependents=detach", "detach"),
    ("allow_missing", "allow_missing"),
    ("If-Match", "version"),
    ("If-Match", "if_version"),
)
"""Words of the API's texts, and the parameter of a command that stands for them."""
_QUOTED = re.compile(r"`(\w+)`")


def place_of(pointer: str, parameter: str = "") -> str:
    """Return what a person calls the place that a problem names: the option that sets it, where the
    command has one, or else the field as a dotted path."""
    if not pointer:
        return option_for(parameter) or parameter
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for end in range(len(parts), 0, -1):
        path = ".".join(parts[:end])
        for name in (_PARAMETERS.get(path, path), "_".join(parts[:end]), parts[end - 1]):
            if option := option_for(name):
                return " ".join([option, *(parts[end:] if name in _OF_MANY else ())])
    return ".".join(parts)


def in_own_words(text: str) -> str:
    """Return a text of the API with options of the running command in place of its own words."""
    for phrase, name in _PHRASES:
        text = text.replace(phrase, option_for(name) or phrase)
    return _QUOTED.sub(lambda found: option_for(found[1]) or found[0], text)


def option_for(name: str) -> str | None:
    """Return how the running command spells a parameter, None if it has none of this name."""
    context = click.get_current_context(silent=True)
    if context is None:
        return None
    for parameter in context.command.params:
        if parameter.name == name:
            is_option = isinstance(parameter, click.Option)
            return max(parameter.opts, key=len) if is_option else parameter.make_metavar(context)
    return None
