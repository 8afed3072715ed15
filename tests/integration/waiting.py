"""Waiting for other processes, which have no clock that a test could move."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

DEADLINE_S = 10.0
POLL_S = 0.01


def eventually(look: Callable[[], Found | None], what: str, timeout_s: float = DEADLINE_S) -> Found:
    """Return what `look` finds as soon as it is true; fails, naming `what`, at the timeout."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(POLL_S)
    return found
