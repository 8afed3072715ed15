"""When a failed attempt is tried again: the retry policy of a job.

Pure: it is told the attempt that failed and given the random source, so a test or the simulator
replays it exactly. The wait doubles with every attempt up to a cap, and jitter then spreads it, so
that a thousand jobs that failed together do not come back together:

    none    the whole wait
    equal   half the wait, and a random part of the other half: never at once
    full    a random part of the wait: the best spread, may be at once
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from random import Random
from typing import Any, Literal, get_args

from engine.errors import BadInput

Jitter = Literal["none", "equal", "full"]

MOST_ATTEMPTS = 1_000
LONGEST_WAIT_MS = 30 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Retry:
    """How often an execution is tried, and how long it waits in between.

    A value out of range raises BadInput with the field's path.
    """

    max_attempts: int = 3
    """Attempts in all, the first included: 1 means that nothing is tried again."""
    base_ms: int = 1_000
    """The wait after the first attempt, before jitter."""
    max_ms: int = 3_600_000
    """The wait stops growing here. With `base_ms` equal to it, every wait is the same."""
    jitter: Jitter = "equal"

    def __post_init__(self) -> None:
        _check_range("max_attempts", self.max_attempts, 1, MOST_ATTEMPTS)
        _check_range("base_ms", self.base_ms, 0, LONGEST_WAIT_MS)
        _check_range("max_ms", self.max_ms, self.base_ms, LONGEST_WAIT_MS)
        if self.jitter not in get_args(Jitter):
            expected = ", ".join(get_args(Jitter))
            raise BadInput(
                f"jitter must be one of {expected}, not {self.jitter!r}", field="retry.jitter"
            )

    def delay_ms(self, attempt: int, rng: Random) -> int | None:
        """Return how long to wait after this attempt (from 1) failed, or None if it was the last.

        An attempt below 1 raises ValueError: no user can send one.
        """
        if attempt < 1:
            raise ValueError(f"attempts are counted from 1, not {attempt}")
        if attempt >= self.max_attempts:
            return None
        wait_ms = min(self.max_ms, self.base_ms << (attempt - 1))
        if self.jitter == "full":
            return rng.randint(0, wait_ms)
        if self.jitter == "equal":
            return rng.randint(wait_ms // 2, wait_ms)
        return wait_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults: most jobs store nothing at all."""
        return {name: value for name, value in asdict(self).items() if value != _DEFAULTS[name]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Retry:
        """Return the policy that `to_dict` gave; an unknown or wrong field raises BadInput."""
        for name in stored:
            if name not in _DEFAULTS:
                raise BadInput(f"{name!r} is not a field of a retry policy", field=f"retry.{name}")
        return cls(**stored)


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Retry)}


def _check_range(name: str, value: object, low: int, high: int) -> None:
    # bool is an int to Python, and true is not a count.
    if type(value) is not int or not low <= value <= high:
        raise BadInput(
            f"{name} must be a whole number from {low} to {high}, not {value!r}",
            field=f"retry.{name}",
        )
