"""How much the fire loop asks of the server at a time.

A script runs alone: while it does, nobody else is served. So one is given no more due members than
it gets done in a few milliseconds on this server, today; and no more scripts wait at the server
than keep it busy while this process works out the next.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

SCRIPT_MS = 3.0
"""What the quickest scripts are to take. Others take longer, and 5 ms are the most; what is looked
at for all shards comes between two, and nobody is to wait for more than 20 ms."""
WAITING = 2
"""Scripts at the server at a time: one that runs, and one that is ready to."""
LEAST = 50
FIRST = 250
REMEMBERED = 8
"""Scripts by the quickest of which the next is measured out: those that were slow may have waited
for a busy machine, and smaller ones would only cost it more."""


class Pace:
    """Decides how many members a script fires, `most` at the most, and gives scripts their turns.

    1. Measures each script from when the server was free for it to when its reply came.
    2. Grows and shrinks `size`, so that a script of that size takes `SCRIPT_MS`.
    """

    def __init__(self, most: int, timer: Callable[[], float] = time.perf_counter) -> None:
        self._most = most
        self._least = min(LEAST, most)
        self._timer = timer
        self._turns = asyncio.Semaphore(WAITING)
        self._replied_at = 0.0
        self._member_ms: deque[float] = deque(maxlen=REMEMBERED)
        self.size = min(FIRST, most)
        """Members that the next script may be given."""

    @asynccontextmanager
    async def turn(self, members: Sequence[int]) -> AsyncIterator[None]:
        """Wait until few enough scripts are at the server, and measure what runs inside: a script
        for each of these numbers of members."""
        async with self._turns:
            sent_at = self._timer()
            yield
            replied_at = self._timer()
            # What came before it held the server until its own reply.
            spent_ms = (replied_at - max(sent_at, self._replied_at)) * 1_000
            self._replied_at = replied_at
            # Of several small ones most is what a script costs by itself.
            if len(members) == 1 and members[0] >= self._least:
                self._learn(spent_ms / members[0])

    def _learn(self, member_ms: float) -> None:
        self._member_ms.append(member_ms)
        fitting = SCRIPT_MS / max(min(self._member_ms), SCRIPT_MS / self._most)
        self.size = max(self._least, int(fitting))
