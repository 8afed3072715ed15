"""`waterclock top`: a live view of the deployment, over the HTTP API."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from engine.cli.client import Api
from engine.cli.options import over_api
from engine.cli.show import print_json
from engine.cli.top_view import view

Frame = dict[str, Any]

REFRESH_S = 1.0
QUIT = b"qQ"


@click.command()
@click.option("--once", is_flag=True, help="Print one frame, and end.")
@over_api
def top(api: Api, as_json: bool, once: bool) -> None:
    """Watch rates, lateness, queues, shards and workers.

    q or Ctrl-C ends. Where no terminal shows it, and with --json, it prints one frame.
    """
    if as_json:
        print_json(look(api))
    elif once or not sys.stdout.isatty():
        Console().print(view(look(api)))
    else:
        _watch(api)


def look(api: Api) -> Frame:
    """Return one frame: what there is to see now."""
    return {
        "stats": api.get("stats"),
        "queues": api.get_page("queues")[0],
        "shards": api.get("shards"),
        "workers": api.get("workers"),
    }


def _watch(api: Api) -> None:
    """Show frame after frame until somebody ends it. An API that goes away is said in place of the
    numbers, and they come back with it."""
    frame = look(api)  # to begin with, a failure is one line
    with Live(view(frame), screen=True, auto_refresh=False) as live, _keys() as pressed:
        try:
            while not pressed(REFRESH_S):
                trouble = None
                try:
                    frame = look(api)
                except click.ClickException as error:
                    trouble = error.message
                live.update(view(frame, trouble), refresh=True)
        except KeyboardInterrupt:
            pass


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """A function that waits so many seconds for a key; True if it is the one that ends. Where there
    is no terminal to read from it only waits."""
    try:
        import termios
        import tty

        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except (ImportError, OSError, ValueError, termios.error):
        yield _only_wait
        return

    def pressed(wait_s: float) -> bool:
        if not select.select([number], [], [], wait_s)[0]:
            return False
        key = os.read(number, 1)
        return not key or key in QUIT

    tty.setcbreak(number, termios.TCSANOW)  # what was typed already counts
    try:
        yield pressed
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _only_wait(wait_s: float) -> bool:
    time.sleep(wait_s)
    return False
