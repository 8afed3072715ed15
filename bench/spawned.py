"""Processes of the harness: each a coroutine function that runs until it is told to stop, so that
what is measured does not share an interpreter with what measures."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import uvloop

from engine.garbage import look_seldom

Life = Callable[..., Coroutine[Any, Any, Any]]
"""What a process does until the event that it is called with is set; its arguments are pickled."""


class Spawned:
    """A process from the outside. Raises RuntimeError where it has ended by itself."""

    def __init__(self, life: Life, args: tuple[object, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_live, args=(life, args, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._name = life.__name__
        self._is_stopped = False

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """Return the seconds of CPU time that it has used."""
        return float(self._ask("cpu_s"))

    def stop(self) -> Any:
        """Tell it to stop, and return what its life returned; None if it was told before."""
        if self._is_stopped:
            return None
        self._is_stopped = True
        return self._ask("stop")

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _ask(self, word: str) -> Any:
        try:
            self._pipe.send(word)
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            raise RuntimeError(f"{self._name}: its process ended with status {code}") from None


@contextmanager
def spawned(life: Life, *args: object) -> Iterator[Spawned]:
    """Run `life(stop, *args)` in a process of its own; it is told to stop at the end, and killed if
    anything goes wrong."""
    process = Spawned(life, args)
    try:
        yield process
        process.stop()
    finally:
        process.kill()


def _live(life: Life, args: tuple[object, ...], pipe: Connection) -> None:
    # Ctrl-C is for the harness, whose end ends this process too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    look_seldom()
    uvloop.run(_obey(life, args, pipe))


async def _obey(life: Life, args: tuple[object, ...], pipe: Connection) -> None:
    stop = asyncio.Event()
    threading.Thread(
        target=_listen, args=(pipe, asyncio.get_running_loop(), stop), daemon=True
    ).start()
    pipe.send(await life(stop, *args))


def _listen(pipe: Connection, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Answer in a thread, which costs nothing while nobody asks. The end of the pipe is the end of
    the harness."""
    try:
        while pipe.recv() == "cpu_s":
            pipe.send(time.process_time())
    except EOFError:
        pass
    loop.call_soon_threadsafe(stop.set)
