"""A client that breaks, or stalls, after so many commands: what a process leaves that dies between
two, and what one does that wakes up too late."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import redis.exceptions as driver
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from engine.scripts import Scripts
from engine.store import Store


class Cut(driver.ConnectionError):
    """The wire is cut."""


@dataclass
class Wire:
    """Lets `left` more commands through, and then none; those of a pipeline count one by one, as
    the server has them one by one. None lets all through.

    `heals` if one call only is to fail. `stalls` if what comes after is not lost but late: it goes
    on when `goes_on` is set.
    """

    left: int | None = None
    heals: bool = False
    stalls: bool = False
    was_cut: bool = False
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    has_stalled: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, wanted: int) -> int:
        """Return how many of the next commands go through; wait before the first that stalls."""
        given = wanted if self.left is None else min(wanted, self.left)
        if given == 0 and self.stalls:
            self.left = None
            self.has_stalled.set()
            await self.goes_on.wait()
            return wanted
        if self.left is not None:
            self.left -= given
        if given < wanted and not self.stalls:
            self.was_cut = True
            self.left = None if self.heals else 0
        return given


class _BreakingPipeline(Pipeline):
    wire: Wire

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        wanted, replies = self.command_stack, []
        while wanted:
            given = await self.wire.take(len(wanted))
            self.command_stack, wanted = wanted[:given], wanted[given:]
            replies += await super().execute(raise_on_error) if given else []
            if wanted and not self.wire.stalls:
                raise Cut("cut")
        return replies


class _BreakingClient(Redis):
    wire: Wire

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        if not await self.wire.take(1):
            raise Cut("cut")
        return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        pipe = _BreakingPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )
        pipe.wire = self.wire
        return pipe


def over(store: Store, wire: Wire) -> Store:
    """Return the same store as one more process sees it, over a wire that breaks."""
    client = _BreakingClient(connection_pool=store.client.connection_pool)
    client.wire = wire
    return replace(store, client=client, reader=client, scripts=Scripts(client), plans={})
