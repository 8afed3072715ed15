"""What a handler is told of the execution that it runs, and what it may ask for meanwhile."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from engine import codec
from engine.errors import BadInput, StaleDelivery
from engine.execution import Delivery
from engine.holding import Held
from engine.store import Store
from engine.store.effects import read_effects, record_effect
from engine.store.executions import heartbeat_executions

Found = TypeVar("Found")


class Fail(Exception):
    """Raise it in a handler to end the execution for good: trying again cannot help."""


class TryAgain(Exception):
    """Raise it in a handler to fail this attempt and have another one, not before `after_ms`, as
    far as the job's retry policy allows."""

    def __init__(self, message: str = "asked to be tried again", *, after_ms: int = 0) -> None:
        super().__init__(message)
        self.after_ms = after_ms


@dataclass(eq=False)
class Told:
    """The execution in a handler's hands, as the worker knows it. Handlers see it through `Context`
    or `ThreadContext`."""

    store: Store
    held: Held
    deadline: int | None
    is_late: bool = False
    is_cut_off: bool = False
    effects: dict[str, bytes] | None = None
    effect_lock: asyncio.Lock | None = None
    """Made for the first effect: most handlers have none."""

    @property
    def is_cancelled(self) -> bool:
        return self.held.is_lost or self.is_late or self.is_cut_off

    async def heartbeat(self) -> None:
        """Extend the lease. Raises StaleDelivery if the execution is somebody else's, or cancelled,
        or its time is over."""
        delivery = self.held.delivery
        if not self.is_cancelled:
            [is_held] = await heartbeat_executions(self.store, [delivery])
            if not is_held:
                self.held.lose(delivery)
        if self.is_cancelled:
            raise StaleDelivery("this execution is not this worker's any more; stop here")

    async def effect(self, name: str, make: Callable[[], Awaitable[Any]]) -> Any:
        """Return what a side effect gave: of an earlier delivery, or made now and recorded."""
        if self.effect_lock is None:
            self.effect_lock = asyncio.Lock()
        async with self.effect_lock:
            # First the proof that nobody else is at it, then what is known.
            await self.heartbeat()
            if self.effects is None:
                self.effects = await read_effects(self.store, self.held.delivery)
            if name not in self.effects:
                result = _dump(await make())
                self.effects[name] = await record_effect(
                    self.store, self.held.delivery, name, result
                )
            return codec.load_json(self.effects[name])


def _dump(value: Any) -> bytes:
    try:
        return codec.dump_json(value)
    except TypeError as error:
        raise BadInput(f"what an effect gives must be JSON: {error}", field="effect") from None


class _Facts:
    """What both contexts know."""

    def __init__(self, told: Told) -> None:
        self._told = told

    @property
    def _delivery(self) -> Delivery:
        return self._told.held.delivery

    @property
    def execution_id(self) -> str:
        """`<job id>@<nominal time in ms>`: the idempotency key."""
        return self._delivery.execution_id

    @property
    def job_id(self) -> str:
        return self._delivery.job_id

    @property
    def nominal_at(self) -> int:
        """The time that this execution is for (ms UTC)."""
        return self._delivery.nominal_at

    @property
    def scheduled_for(self) -> datetime:
        """The same as an aware datetime in UTC."""
        return datetime.fromtimestamp(self.nominal_at / 1000, UTC)

    @property
    def attempt(self) -> int:
        """From 1."""
        return self._delivery.attempt

    @property
    def deliveries(self) -> int:
        """How often this attempt was handed to a worker: more than 1 after a crash."""
        return self._delivery.deliveries

    @property
    def deadline(self) -> int | None:
        """When this attempt must be over (ms UTC); None if nothing limits it."""
        return self._told.deadline

    @property
    def cancelled(self) -> bool:
        """Whether nothing that is done from here on counts: the execution was cancelled or taken
        over, its time is over, or the worker is going down."""
        return self._told.is_cancelled

    @cached_property
    def payload(self) -> Any:
        """The job's payload, read from JSON."""
        return codec.load_json(self._delivery.payload)

    @cached_property
    def upstream(self) -> dict[str, Any]:
        """What the jobs gave that this one depends on, by job; those that gave nothing are left
        out."""
        upstream: dict[str, Any] = codec.load_json(self._delivery.upstream or b"{}")
        return upstream


class Context(_Facts):
    """For handlers that are coroutines."""

    async def heartbeat(self) -> None:
        """Ask whether this worker still holds the execution, and extend its lease.

        Raises StaleDelivery if not. There is no need to call it: leases are extended anyway.
        """
        await self._told.heartbeat()

    async def effect(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what the side effect `name` of this execution gave; call `make` for it unless an
        earlier attempt or delivery has recorded it. What it returns must be JSON, 16 KiB at most.

        Only a crash between the effect and its record can repeat it. Raises StaleDelivery, before
        the effect, if the execution is somebody else's by now, and BadInput for a name or a result
        that cannot be recorded.
        """

        async def made() -> Any:
            result = make()
            return await result if inspect.isawaitable(result) else result

        return await self._told.effect(name, made)


class ThreadContext(_Facts):
    """For handlers that are plain functions, each in a thread of its own."""

    def __init__(self, told: Told, call: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        super().__init__(told)
        self._loop = asyncio.get_running_loop()
        self._call = call

    def heartbeat(self) -> None:
        """As `Context.heartbeat`."""
        self._wait(self._told.heartbeat())

    def effect(self, name: str, make: Callable[[], Any]) -> Any:
        """As `Context.effect`; `make` is a plain function, called in a thread."""

        async def made() -> Any:
            return await self._call(make)

        return self._wait(self._told.effect(name, made))

    def _wait(self, question: Coroutine[Any, Any, Found]) -> Found:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()
