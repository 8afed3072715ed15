"""Targets: how an attempt of an execution is made. One kind a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.model import Delivery


@dataclass(frozen=True, slots=True)
class Attempted:
    """How an attempt went. `is_final` means that trying again cannot help."""

    succeeded: bool
    status_code: int | None = None
    error: str | None = None
    is_final: bool = False


class Runner(Protocol):
    """Makes attempts of one kind of target."""

    async def run(self, delivery: Delivery) -> Attempted:
        """Make the attempt; return how it went. Whatever the target does is a value, no
        exception."""

    async def close(self) -> None:
        """Give back what the runner holds."""
