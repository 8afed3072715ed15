"""The servers that the peers run on: a new one for each run, which keeps nothing on the disk."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.peer import Peer
from engine.embedded import EmbeddedServer
from engine.store.connection import connect

AS_SHIPPED = ("--hash-max-listpack-value", "64")
"""What the embedded server is started with otherwise than Redis is by default."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and a connection of the harness to it."""

    url: str
    client: Any

    async def total(self, commands: Sequence[tuple[str, ...]]) -> int:
        """Return the sum of the numbers that the server answers."""
        if not commands:
            return 0
        pipe = self.client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        return sum(await pipe.execute())

    async def used_bytes(self) -> int:
        """Return the memory that its data take."""
        return int((await self.client.info("memory"))["used_memory"])

    async def cpu_s(self) -> float:
        """Return the CPU time that it has used."""
        cpu = await self.client.info("cpu")
        return float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])


@asynccontextmanager
async def server_for(peer: Peer, redis: Path) -> AsyncIterator[Server]:
    """Run a server for one run of a peer: `redis` on a port, as it is by default, or the embedded
    one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if peer.is_embedded:
            server = EmbeddedServer(Path(folder), appendonly=False)
        else:
            port = _free_port()
            server = EmbeddedServer(
                Path(folder), binary=redis, port=port, appendonly=False, extra=AS_SHIPPED
            )
        try:
            await asyncio.to_thread(server.start)
            url = server.url if peer.is_embedded else f"redis://127.0.0.1:{port}"
            async with connect(url) as client:
                yield Server(url, client)
        finally:
            await asyncio.to_thread(server.stop)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
