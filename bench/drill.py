"""A deployment of real processes under load, of which one part after the other is killed.

What it does is noted with the time, and judged afterwards by what the ledgers say (account.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.processes import Fleet, Process
from bench.working import wait_until_drained
from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.store import Store
from engine.store.leases import read_holders
from engine.store.processes import read_processes

PATIENCE_S = 120
SETTLE_MS = 1_000
"""After all is well again, before the next kill."""
POLL_S = 0.02
ANSWER_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, by the clock of the machine, which is the server's too."""

    at: int
    until: int
    """When the next thing happened: what comes later says nothing of this one."""
    shards: frozenset[int] = frozenset()
    """Those that nobody fired for."""
    started_at: int = 0
    answered_at: int = 0
    """Of a server that was killed: when it was started again, and when it answered."""

    @property
    def since(self) -> int:
        """From when recovery counts."""
        return self.answered_at or self.at


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Drill:
    """Two schedulers and two workers on a server, and what is done to them."""

    def __init__(
        self, config: Config, server: EmbeddedServer, fleet: Fleet, worker: Sequence[str]
    ) -> None:
        """`worker` is the command of a worker."""
        self._config, self._server, self._fleet = config, server, fleet
        self._commands = {"scheduler": ("engine", "scheduler"), "worker": tuple(worker)}
        self._schedulers: list[Process] = []
        self._workers: list[Process] = []

    async def begin(self) -> None:
        """Start the processes, and return when they are at work."""
        self._start_all()
        await self._all_at_work()

    async def kill(self, what: str) -> Kill:
        """Kill a `worker`, a `scheduler`, the `server`, or all of these at once: the `machine`.
        Return when all is as it was before."""
        match what:
            case "worker":
                return await self._kill_worker()
            case "scheduler":
                return await self._kill_scheduler()
            case "server":
                return await self._kill_server()
            case "machine":
                return await self._kill_server(*self._schedulers, *self._workers)
        raise ValueError(what)

    async def end(self) -> None:
        """Stop firing, let the workers finish, and stop them."""
        await self._fleet.stop(*self._schedulers)
        async with asyncio.timeout(PATIENCE_S), await Store.open(self._config) as store:
            await wait_until_drained(store)
        await self._fleet.stop(*self._workers)

    def _start_all(self) -> None:
        self._schedulers = [self._start("scheduler") for _ in range(2)]
        self._workers = [self._start("worker") for _ in range(2)]

    def _start(self, role: str) -> Process:
        return self._fleet.start(*self._commands[role])

    async def _kill_worker(self) -> Kill:
        victim, at = self._workers.pop(0), now_ms()
        await self._fleet.kill(victim)
        # A reclaimer looks each quarter of a lease, and what it takes over has to run.
        await asyncio.sleep(1.5 * self._config.execution_lease_ms / 1000)
        return await self._make_up(self._workers, "worker", at)

    async def _kill_scheduler(self) -> Kill:
        victim = self._schedulers.pop(0)
        async with await Store.open(self._config) as store:
            holders = [name for name, _ in await read_holders(store)]
        theirs = [index for index, name in enumerate(holders) if _is_of(name, victim)]
        at = now_ms()
        await self._fleet.kill(victim)
        await self._until("the other scheduler has all shards", self._is_spread)
        return await self._make_up(self._schedulers, "scheduler", at, theirs)

    async def _make_up(
        self, team: list[Process], role: str, at: int, shards: Iterable[int] = ()
    ) -> Kill:
        """Start another process in place of one that was killed at `at`."""
        await asyncio.sleep(SETTLE_MS / 1000)
        until = now_ms()
        team.append(self._start(role))
        await self._all_at_work()
        return Kill(at, until, frozenset(shards))

    async def _kill_server(self, *others: Process) -> Kill:
        """Kill the server, and other processes in the same instant; start all of them in one."""
        at = now_ms()
        os.kill(self._server.pid, signal.SIGKILL)
        await self._fleet.kill(*others)
        while self._server.alive():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        started_at = now_ms()
        starting = asyncio.create_task(asyncio.to_thread(self._server.start))
        if others:
            self._start_all()
        # `start` may go on after the first answer: some servers need their file rewritten.
        while not (starting.done() or await asyncio.to_thread(self._server.answers)):  # noqa: ASYNC110
            await asyncio.sleep(ANSWER_POLL_S)
        answered_at = now_ms()
        await starting
        await self._all_at_work()
        # What a worker was silent about meanwhile is taken over by then.
        await asyncio.sleep((SETTLE_MS + self._config.execution_lease_ms) / 1000)
        every = frozenset(range(self._config.shards))
        return Kill(at, now_ms(), every, started_at, answered_at)

    async def _all_at_work(self) -> None:
        await self._until("the schedulers have even shares", self._is_spread)
        await self._until("all workers are at work", self._is_staffed)
        await asyncio.sleep(SETTLE_MS / 1000)

    async def _is_spread(self, store: Store) -> bool:
        """Return whether the schedulers that there are have all shards, in even shares."""
        holders = [name for name, _ in await read_holders(store)]
        shares = [sum(_is_of(name, one) for name in holders) for one in self._schedulers]
        return sum(shares) == len(holders) and max(shares) - min(shares) <= 1

    async def _is_staffed(self, store: Store) -> bool:
        at_work = {process.pid for process in await read_processes(store, now_ms())}
        return at_work >= {process.pid for process in self._workers}

    async def _until(self, what: str, is_so: Callable[[Store], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        async with await Store.open(self._config) as store:
            while not await is_so(store):
                self._fleet.check()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"not within {PATIENCE_S} s: {what}\n{self._fleet.log}")
                await asyncio.sleep(POLL_S)


def _is_of(name: str | None, process: Process) -> bool:
    """Return whether a holder or consumer is this process: its name says so."""
    return name is not None and f"-{process.pid}-" in name
