"""Single creates that come at once are stored together: one call of the script for all of them.

The first goes out at once; what arrives while it is under way goes in the next call. So nobody
waits for company, and under load a call carries as many as there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.store import Store
from engine.store.creating import MOST_AT_ONCE, NewJob, store_new

_Waiting = tuple[NewJob, "asyncio.Future[int]"]


class Gathering:
    """Stores new jobs of many requests. Each is answered, or refused, for itself."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def create(self, job: NewJob) -> int:
        """Store a job; return what `store_new` does. One whose id exists is left as it is."""
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, stored))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="api-gathering")
        return await stored

    async def _run(self) -> None:
        while self._waiting:
            together = self._waiting[:MOST_AT_ONCE]
            del self._waiting[:MOST_AT_ONCE]
            answers: list[int | Exception]
            try:
                answers = await store_new(self._store(), [job for job, _ in together])
            except Exception as error:
                answers = [error] * len(together)
            for (_, stored), answer in zip(together, answers, strict=True):
                # One whose caller has gone is cancelled.
                if stored.done():
                    continue
                if isinstance(answer, Exception):
                    stored.set_exception(answer)
                else:
                    stored.set_result(answer)
        self._task = None
