"""Programs of a peer, running: each in a session of its own, so that what it forks ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.peers.contract import RECORDS, URL, Jobs
from bench.peers.peer import Peer
from bench.peers.runtimes import ROOT
from engine.errors import Unusable

REGISTER_S = 120
"""How long a peer may take to store its jobs."""
LOG_TAIL_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one peer, on one server, with a folder for records and logs."""

    peer: Peer
    command: Sequence[str]
    url: str
    folder: Path

    async def register(self, jobs: Jobs) -> float:
        """Store jobs; return the seconds that it took, without the program's start."""
        process = await self._start("register", jobs)
        try:
            await asyncio.wait_for(process.wait(), REGISTER_S)
        except TimeoutError:
            raise Unusable(f"{self.peer.name} has not stored its jobs in {REGISTER_S} s") from None
        finally:
            await _end([process])
        said = self._log("register").read_text("utf-8", "replace")
        if process.returncode:
            raise Unusable(f"{self.peer.name} could not store its jobs: {said[-LOG_TAIL_BYTES:]}")
        return float(said.split()[-1])

    @asynccontextmanager
    async def running(self, jobs: Jobs) -> AsyncIterator[list[asyncio.subprocess.Process]]:
        """Run the processes that run jobs, and end them."""
        processes: list[asyncio.subprocess.Process] = []
        try:
            for role in self.peer.roles_of(jobs):
                processes.append(await self._start(role, jobs))
            yield processes
        finally:
            await _end(processes)

    def check(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        """Raise Unusable, with the end of the logs, if a process has ended by itself."""
        if all(process.returncode is None for process in processes):
            return
        logs = [log.read_text("utf-8", "replace") for log in self.folder.glob("*.log")]
        said = "\n".join(log[-LOG_TAIL_BYTES:] for log in logs)
        raise Unusable(f"a process of {self.peer.name} ended: {said}")

    async def _start(self, role: str, jobs: Jobs) -> asyncio.subprocess.Process:
        environment = {
            **os.environ,
            **self.peer.environment,
            URL: self.url,
            RECORDS: str(self.folder),
            "PYTHONPATH": str(ROOT),
            "TZ": "UTC",
        }
        with self._log(role).open("wb") as log:
            return await asyncio.create_subprocess_exec(
                *self.command,
                role,
                *jobs.words(),
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, role: str) -> Path:
        return self.folder / f"{role}.log"


@asynccontextmanager
async def programs(peer: Peer, url: str, installed: Path) -> AsyncIterator[Programs]:
    """Yield the programs of a peer, with a folder that is there meanwhile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Programs(peer, peer.runtime.command(installed), url, Path(folder))


async def _end(processes: Sequence[asyncio.subprocess.Process]) -> None:
    """End processes with all that they have started, at once: nothing is measured any more."""
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for process in processes:
        await process.wait()
