"""Daemon threads for calls that block: as many as there are calls at once, used again.

Not an executor of the standard library: the process would wait for its threads at the end, and a
call that hangs for ever would keep it from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

IDLE_S = 60.0
"""A thread that had nothing to do for so long ends."""

_Call = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Threads:
    """Runs functions in threads, for one event loop or more."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait for a call which nobody has promised them."""

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return the future of what a function returns or raises; it begins at once. Cancelling the
        future does not end the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            is_new = self._idle == 0
            self._idle -= not is_new
        self._calls.put((lambda: context.run(function), loop, future))
        if is_new:
            threading.Thread(target=self._live, name="waterclock-handler", daemon=True).start()
        return future

    def _live(self) -> None:
        while True:
            try:
                function, loop, future = self._calls.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue  # a call has just been promised to this thread
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:
                error = raised
            with self._lock:
                self._idle += 1
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, future, result, error)
            del function, loop, future, result, error


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # a future cannot carry it
        error = RuntimeError(f"StopIteration: {error}")
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
