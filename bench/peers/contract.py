"""What the harness and the programs of the peers agree on, in whatever language these are.

The harness calls `PROGRAM ROLE KIND COUNT AT_MS OVER_MS`. Role `register` stores COUNT jobs and
prints how many seconds that took; any other one runs them until it is killed. Two variables tell
where:

    PEER_URL       the server
    PEER_RECORDS   a folder: `<pid>.ready` says that a process works, `<pid>.records` what it ran

The standard library alone: the Python of every peer imports this.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Self, cast

URL = "PEER_URL"
RECORDS = "PEER_RECORDS"

PAYLOAD = "x" * 100

RECORD = struct.Struct("<qd")
"""A handler that began: the number of its job, and the time in seconds since 1970."""

Kind = Literal["once", "recurring", "immediate"]


@dataclass(frozen=True, slots=True)
class Jobs:
    """`count` jobs, numbered from 0, which fall due evenly over `over_ms` from `at_ms` on.

    Jobs of kind `recurring` are due at `at_ms`, and then each hour; those of kind `immediate` at
    once.
    """

    kind: Kind
    count: int
    at_ms: int = 0
    over_ms: int = 0

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        """Return the jobs of a command line, as `words` spells them."""
        kind, *numbers = words
        return cls(cast(Kind, kind), *map(int, numbers))

    def words(self) -> list[str]:
        """Return the jobs as words of a command line."""
        return [self.kind, *map(str, (self.count, self.at_ms, self.over_ms))]

    def due_ms(self, number: int) -> int:
        """Return when a job is due."""
        return self.at_ms + number * self.over_ms // self.count

    def due(self, number: int) -> datetime:
        """Return when a job is due."""
        return datetime.fromtimestamp(self.due_ms(number) / 1000, UTC)

    def batches(self, size: int) -> list[range]:
        """Return the numbers of the jobs, `size` at a time."""
        return [range(first, min(first + size, self.count)) for first in range(0, self.count, size)]
