"""The worker target: call the Python function that is registered under the handler's name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from engine import codec
from engine.clock import Clock
from engine.codec import MAX_ERROR_CHARS
from engine.errors import BadInput
from engine.execution import Delivery, ErrorKind
from engine.holding import Holding
from engine.model import WorkerTarget
from engine.store import Store
from engine.targets import Attempted, failed, time_allowed
from engine.targets.context import Context, Fail, ThreadContext, Told, TryAgain
from engine.targets.threads import Threads

Handler = Callable[[Any], Any]
Gave = tuple[Any]
"""What a handler returned: for the jobs that depend on its own."""
FOREVER_MS = 1 << 53


_is_coroutine = lru_cache(maxsize=1_024)(inspect.iscoroutinefunction)


class HandlerRunner:
    """Calls handlers: coroutines in the event loop, functions in threads.

    A coroutine is cancelled when its time is over. A function cannot be: the attempt has failed,
    what the function still returns is dropped, and it is counted as `lingering` until it ends.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        holding: Holding,
        handlers: Mapping[str, Handler],
        default: Handler | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holding = holding
        self._handlers = handlers
        self._default = default
        self._threads = Threads()
        self._lingering: set[asyncio.Future[Any]] = set()

    def lingering(self) -> int:
        """Return how many functions still run whose attempts are over."""
        return len(self._lingering)

    async def close(self) -> None:
        """Leave functions that still run to themselves."""

    async def run(self, delivery: Delivery) -> Attempted:
        """Call the handler of a delivery; return how that went."""
        target = codec.load_target(delivery.target)
        if not isinstance(target, WorkerTarget):
            return Attempted(
                False, error="handler: this worker runs worker targets only", is_final=True
            )
        handler = self._default if target.handler is None else self._handlers.get(target.handler)
        if handler is None:
            return self._unknown(target.handler)
        now = self._clock.now_ms()
        allowed_ms, late = time_allowed(delivery, target.timeout_ms or FOREVER_MS, now)
        is_limited = allowed_ms < FOREVER_MS
        if allowed_ms <= 0:
            return failed(late, "none of it was left")
        held = self._holding.find(delivery)
        assert held is not None  # what runs is held
        told = Told(self._store, held, now + allowed_ms if is_limited else None)
        call = self._call_async if _is_coroutine(handler) else self._call_in_thread
        try:
            gave = await call(handler, told, allowed_ms / 1000 if is_limited else None)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                told.is_cut_off = True
                raise
            return Attempted(False, error="CancelledError")  # of something that it waited for
        except (Exception, SystemExit) as error:
            return _failure(error)
        if gave is None:
            return failed(late, f"still running after {allowed_ms} ms")
        try:
            return Attempted(True, gave=codec.dump_result(*gave))
        except BadInput as error:
            return failed(ErrorKind.RESULT, error.message, is_final=True)

    async def _call_async(self, handler: Handler, told: Told, seconds: float | None) -> Gave | None:
        """Return what the handler returned, None if it did not come to its end in time."""
        context = Context(told)
        if seconds is None:
            return (await handler(context),)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return (await handler(context),)
        except TimeoutError:
            if not limit.expired():
                raise
            told.is_late = True
            return None

    async def _call_in_thread(
        self, handler: Handler, told: Told, seconds: float | None
    ) -> Gave | None:
        """Return what the handler returned, None if it did not come to its end in time."""
        context = ThreadContext(told, self._threads.call)
        future = self._threads.call(lambda: handler(context))
        try:
            await asyncio.wait([future], timeout=seconds)
        finally:
            if not future.done():
                told.is_late = True
                self._lingering.add(future)
                future.add_done_callback(self._forget)
        return (future.result(),) if future.done() else None

    def _forget(self, future: asyncio.Future[Any]) -> None:
        self._lingering.discard(future)
        if not future.cancelled():
            future.exception()  # nobody else asks for it

    def _unknown(self, name: str | None) -> Attempted:
        """Return that another worker may know this handler, as in the middle of a deploy."""
        known = ", ".join(sorted(self._handlers)) or "none"
        wanted = "no default handler" if name is None else f'no handler "{name}"'
        return Attempted(False, error=f"handler: this worker has {wanted}; it has {known}")


def _failure(error: BaseException) -> Attempted:
    match error:
        case Fail():
            return Attempted(False, error=_text(str(error) or "failed"), is_final=True)
        case TryAgain():
            return Attempted(False, error=_text(str(error)), retry_after_ms=error.after_ms)
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    return Attempted(False, error=_text(text))


def _text(text: str) -> str:
    # A lone surrogate would not go into the record.
    return text[:MAX_ERROR_CHARS].encode("utf-8", "replace").decode()
