"""A worker process whose handler takes its time, and writes down each execution that it begins.

`python -m bench.recorder FILE`, with the settings of a worker in the environment. What was written
stays when the process is killed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

from engine import Context, Worker
from engine.config import Config

BUSY_MS = 100
"""How long a handler takes: a worker that is killed is in the middle of many."""


def read_calls(file: Path) -> Counter[str]:
    """Return how often each execution was begun."""
    return Counter(file.read_text().split())


def main(file: str) -> None:
    """Work until told to stop; add a line to `file` for each execution."""
    config = Config.from_env()
    log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    worker = Worker(concurrency=config.worker_concurrency, config=config)

    @worker.handler(default=True)
    async def record(ctx: Context) -> None:
        os.write(log, f"{ctx.execution_id}\n".encode())
        await asyncio.sleep(BUSY_MS / 1000)

    worker.main()


if __name__ == "__main__":
    main(sys.argv[1])
