"""The rule of each field of a shell target.

What is taken here can be started: no text holds a NUL, and none is longer than Linux lets one
argument or variable be. No refusal repeats a command or a value: they may hold a secret.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from api.rules import ask, in_full, shown
from engine.errors import BadInput

MAX_TEXT_BYTES = 128 * 1024 - 1
"""Linux's bound of one argument, without the NUL at its end (MAX_ARG_STRLEN)."""
MAX_STDIN_BYTES = 64 * 1024
MAX_CWD_BYTES = 4_095
MAX_VARIABLES = 100

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,63}\$?")
_RESERVED_PREFIX = "WATERCLOCK_"


def _check_text(text: str, most: int, what: str) -> str:
    if "\0" in text:
        raise BadInput(f"{what} holds no NUL")
    if len(text.encode()) > most:
        raise BadInput(f"{what} has {most} bytes at the most")
    return text


def _check_command(command: str) -> str:
    if not command.strip():
        raise BadInput("a command must be given")
    return _check_text(command, MAX_TEXT_BYTES, "a command")


def _check_cwd(path: str) -> str:
    if not path.startswith("/"):
        raise BadInput("a working directory is an absolute path: it begins with /")
    return _check_text(path, MAX_CWD_BYTES, "a working directory")


def _check_name(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise BadInput(
            "a variable's name is 1 to 255 letters, digits and underscores, and begins with no"
            " digit"
        )
    if name.startswith(_RESERVED_PREFIX):
        raise BadInput("this variable is set by Waterclock itself")
    return name


def _check_env(env: dict[str, str]) -> dict[str, str]:
    if len(env) > MAX_VARIABLES:
        raise BadInput(f"a target has {MAX_VARIABLES} variables at the most")
    for name, value in env.items():
        _check_text(f"{name}={value}", MAX_TEXT_BYTES, f"variable {name}")
    return env


def _check_user(name: str) -> str:
    if not _USER.fullmatch(name):
        raise BadInput(
            "a user's name is 1 to 64 characters from A–Z a–z 0–9 _ . @ -, begins with a letter or"
            " underscore, and may have a $ behind it"
        )
    return name


ShellCommand = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: _check_command(text))),
    shown("string", "What /bin/sh is given.", pattern=r"^[^\x00]*[^\x00\s][^\x00]*$"),
]
Directory = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: _check_cwd(text))),
    shown("string", "Where the command begins: an absolute path.", pattern=r"^/[^\x00]*$"),
]
Variables = Annotated[
    dict[Annotated[str, AfterValidator(lambda text: ask(lambda: _check_name(text)))], str],
    AfterValidator(lambda env: ask(lambda: _check_env(env))),
    shown(
        "object",
        "Variables that the command finds, beside those of Waterclock.",
        propertyNames={"pattern": f"^(?!{_RESERVED_PREFIX}){_VARIABLE.pattern}$"},
        additionalProperties={"type": "string", "pattern": r"^[^\x00]*$"},
        maxProperties=MAX_VARIABLES,
    ),
]
Stdin = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: _check_text(text, MAX_STDIN_BYTES, "standard input"))),
    shown("string", "What the command reads.", pattern=r"^[^\x00]*$"),
]
User = Annotated[
    str,
    AfterValidator(lambda text: ask(lambda: _check_user(text))),
    shown("string", "Who runs the command.", pattern=in_full(_USER)),
]
