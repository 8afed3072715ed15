"""What tests of bad targets reach with: names that lead where a test says, listeners that note who
connects, and a worker that makes the attempts that are there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from calling import NOW
from fleet import settle

from engine.clock import Clock, ManualClock
from engine.guard import Guard
from engine.store import Store
from engine.targets import Runner
from engine.targets.http import HttpRunner
from engine.worker import Worker

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Names(AbstractResolver):
    """Leads each name to its addresses, and notes what it was asked for."""

    known: dict[str, Sequence[str]]
    asked: list[str] = field(default_factory=list)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self.known[host]
        ]

    async def close(self) -> None:
        pass


@dataclass
class Listener:
    """Answers whoever connects to an address of this machine, and counts them."""

    port: int
    answer: bytes = GOOD
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(self.answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(
    host: str = "127.0.0.1", port: int = 0, answer: bytes = GOOD
) -> AsyncIterator[Listener]:
    """Listen on an address of loopback."""
    listener = Listener(port, answer)
    server = await asyncio.start_server(listener.serve, host, port)
    async with server:
        listener.port = server.sockets[0].getsockname()[1]
        yield listener


@asynccontextmanager
async def reaching(
    known: dict[str, list[str]], guard: Guard | None = None
) -> AsyncIterator[HttpRunner]:
    """A runner whose names lead where they are said to."""
    runner = HttpRunner("9.9", guard=guard, clock=ManualClock(NOW), resolver=Names(dict(known)))
    yield runner
    await runner.close()


async def work(store: Store, clock: Clock, runner: Runner) -> None:
    """Make the attempts that wait in the queue `http`, and record how they went."""
    worker = Worker(store, clock, {"http": 1}, lambda: runner, concurrency=100, consumer="w1")
    await worker.fetch(block=False)
    await settle(worker)
    await worker.report()


def target(url: str, **more: Any) -> dict[str, Any]:
    """Return the part of a body that makes a URL its target."""
    return {"target": {"type": "http", "url": url, **more}}
