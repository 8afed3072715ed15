"""Processes of a deployment as an operator runs them, each by its own command, to be killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from engine.config import Config

ROOT = Path(__file__).parents[1]
LOG_TAIL_BYTES = 2_000
STOP_S = 20

Process = subprocess.Popen[bytes]


class Fleet:
    """Starts processes under the same settings, and lets none outlive its `with` block."""

    def __init__(self, config: Config) -> None:
        settings = config.model_dump(exclude_defaults=True)
        own = {f"WATERCLOCK_{name.upper()}": str(value) for name, value in settings.items()}
        self._environment = {**os.environ, **own}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._running: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        self._log.close()

    def start(self, *command: str) -> Process:
        """Return a process that begins to run `python -m COMMAND`."""
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env=self._environment,
            stdout=self._log,
            stderr=self._log,
        )
        self._running.append(process)
        return process

    async def kill(self, *processes: Process) -> None:
        """End processes as a crash does, all in one instant."""
        for process in processes:
            process.kill()
        for process in processes:
            await self._reap(process)

    async def stop(self, *processes: Process) -> None:
        """Tell processes to stop, and wait until they have."""
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            await self._reap(process)

    def check(self) -> None:
        """Raise RuntimeError, with the end of the log, if a process has ended by itself."""
        if ended := [process for process in self._running if process.poll() is not None]:
            raise RuntimeError(f"a process ended, status {ended[0].returncode}:\n{self.log}")

    @property
    def log(self) -> str:
        """The end of what all have said."""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES))
        return tail.decode(errors="replace")

    async def _reap(self, process: Process) -> None:
        await asyncio.to_thread(process.wait, STOP_S)
        self._running.remove(process)
