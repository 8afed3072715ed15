"""Python handlers: `Worker` runs functions of yours for the executions of some queues.

from engine import Context, Worker

worker = Worker(queues=["reports"])

@worker.handler("monthly")
async def monthly(ctx: Context) -> None:
    ...

worker.main()
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar

from engine.cli.process import open_store, run_process
from engine.clock import ServerClock
from engine.config import Config
from engine.errors import BadInput
from engine.holding import Holding
from engine.reading import parse_queues
from engine.roles import worker_loops
from engine.store import Store
from engine.store.server import time_ms
from engine.supervisor import Service, run_services
from engine.targets.context import Context, Fail, ThreadContext, TryAgain
from engine.targets.handler import Handler, HandlerRunner
from engine.worker import Worker as Loop

__all__ = ["Context", "Fail", "ThreadContext", "TryAgain", "Worker"]

Function = TypeVar("Function", bound=Handler)


class Worker:
    """Runs handlers for the executions of some queues, `concurrency` at a time.

    Nothing is connected before `run` or `main`. `queues` are texts `NAME` or `NAME=WEIGHT`. Without
    `config` the settings are those of the environment.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        queues: Iterable[str] = ("default",),
        concurrency: int = 100,
        config: Config | None = None,
    ) -> None:
        """Refuses with BadInput what is no queue, and with Unusable a wrong setting."""
        self._config = config or Config.from_env(redis_url=redis_url)
        self._queues = parse_queues([queues] if isinstance(queues, str) else queues)
        self._concurrency = concurrency
        self._handlers: dict[str, Handler] = {}
        self._default: Handler | None = None

    def handler(
        self, name: str | None = None, *, default: bool = False
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function for jobs whose target names it: `name`, or
        its own name. With `default` it also runs executions that name no handler.

        A coroutine function gets a `Context`; any other one runs in a thread and gets a
        `ThreadContext`. Refuses with BadInput a name that is taken.
        """

        def register(function: Function) -> Function:
            known_as = function.__name__ if name is None else name
            if known_as in self._handlers or (default and self._default is not None):
                raise BadInput(f"there is a handler {known_as!r} already", field="handler")
            if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
                raise BadInput(f"handler {known_as!r} is a generator", field="handler")
            self._handlers[known_as] = function
            if default:
                self._default = function
            return function

        return register

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Work until `stop` is set; then read nothing new, hand back what is not started, and wait
        for what runs, at most `shutdown_ms`. Waits for a server that is not there yet.

        Raises Unusable for a server that cannot be worked with.
        """
        stop = stop or asyncio.Event()
        store = await open_store(self._config, stop)
        if store is None:
            return
        async with store:
            clock = ServerClock()
            clock.sample(await time_ms(store.client))
            await run_services(self._services(store, clock), stop, self._config.shutdown_ms)

    def main(self) -> None:
        """Run in an event loop of its own until SIGTERM or SIGINT; a second one ends the process at
        once."""
        run_process(self.run)

    def _services(self, store: Store, clock: ServerClock) -> list[Service]:
        holding = Holding()
        runner = HandlerRunner(store, clock, holding, self._handlers, self._default)
        loop = Loop(
            store,
            clock,
            self._queues,
            lambda: runner,
            concurrency=self._concurrency,
            holding=holding,
            lingering=runner.lingering,
        )
        return worker_loops(store, clock, loop)
