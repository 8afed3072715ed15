"""Lists that go on and on: `--limit`, `--all` and `--after`, and the pages behind them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

PAGE = 1_000
"""Lines of one request at the most."""
USUAL = 100

Ask = Callable[[int, str | None], tuple[list[Any], str | None]]
"""Returns at most so many lines behind a place, and the place of the next page, None at the end."""


@dataclass(frozen=True, slots=True)
class Paging:
    """How much of a list is wanted."""

    limit: int | None
    """None for all of it."""
    after: str | None

    def read(self, ask: Ask) -> tuple[list[Any], str | None]:
        """Return the lines, and the place behind them, None at the end. A page may be short, or
        empty, while there are more."""
        found: list[Any] = []
        after = self.after
        while True:
            left = PAGE if self.limit is None else self.limit - len(found)
            page, after = ask(min(left, PAGE), after)
            found += page
            if after is None or (self.limit is not None and len(found) >= self.limit):
                return found, after


def paged(command: Callable[..., None]) -> Callable[..., None]:
    """Give a list the options `--limit`, `--all` and `--after`; it gets them as `paging`."""

    @click.option("--limit", type=click.IntRange(1), help=f"At most so many. [default: {USUAL}]")
    @click.option("--all", "is_all", is_flag=True, help="All that there are.")
    @click.option("--after", metavar="PLACE", help="Go on after this place.")
    @functools.wraps(command)
    def with_paging(
        *args: Any, limit: int | None, is_all: bool, after: str | None, **options: Any
    ) -> None:
        if is_all and limit is not None:
            raise click.UsageError("give one of --limit and --all")
        wanted = None if is_all else limit or USUAL
        command(*args, paging=Paging(wanted, after), **options)

    return with_paging


def tell_of_more(after: str | None) -> None:
    """Say on standard error where a list goes on, if it does."""
    if after is not None:
        click.echo(f"There are more: --after {after}, or --all", err=True)
