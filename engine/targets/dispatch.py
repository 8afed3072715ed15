"""Which runner makes an attempt: by the type of its target, made when the first one comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from engine import codec
from engine.execution import Delivery
from engine.targets import Attempted, Runner

NOT_HERE = {
    "http": "http: this worker does not call http targets; use another queue",
    "shell": "shell: this worker was not started with --allow-shell",
    "worker": "worker: this worker has no handlers; use another queue",
}
"""What an attempt fails with, for good, where its target's type has no runner."""


class Dispatch:
    """Runs targets of several types. `makers` make the runner of a type."""

    def __init__(self, makers: Mapping[str, Callable[[], Awaitable[Runner]]]) -> None:
        self._makers = makers
        self._runners: dict[str, Runner] = {}
        self._making = asyncio.Lock()

    async def run(self, delivery: Delivery) -> Attempted:
        """Make the attempt with the runner of its target; return how it went."""
        kind = codec.load_target(delivery.target).type
        if kind not in self._makers:
            return Attempted(False, error=NOT_HERE[kind], is_final=True)
        runner = self._runners.get(kind) or await self._make(kind)
        return await runner.run(delivery)

    async def _make(self, kind: str) -> Runner:
        async with self._making:
            if kind not in self._runners:
                self._runners[kind] = await self._makers[kind]()
            return self._runners[kind]

    async def close(self) -> None:
        """Close the runners that were made."""
        for runner in self._runners.values():
            await runner.close()
