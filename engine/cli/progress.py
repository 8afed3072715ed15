"""Bars for long work, on a terminal only, and what is said when it is cut off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import Progress, ProgressColumn


def progress(*columns: ProgressColumn) -> Progress:
    """Return what shows bars on standard error while it is entered, nothing where that is no
    terminal; without columns those that are usual."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())


@contextmanager
def told_at_the_end(tell: Callable[[], None], is_begun: Callable[[], object]) -> Iterator[None]:
    """Call `tell` when the block is through; and also when Ctrl-C or an API that is gone ends it in
    the middle, if something was done by then."""
    try:
        yield
    except (KeyboardInterrupt, click.ClickException):
        if is_begun():
            tell()
        raise
    tell()
