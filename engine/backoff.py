"""When a failed attempt is tried again: the retry policy of a job.

Pure: it is told what failed and given the random source, so a test or the simulator replays it
exactly. The wait after an attempt grows by `backoff`, and stops growing at the cap `max_ms`:

    exponential   base, 2 × base, 4 × base, …
    linear        base, 2 × base, 3 × base, …
    fixed         base, always
    list          as `waits_ms` says; its last one repeats

Jitter then spreads it, so that a thousand jobs that failed together do not come back together:

    none           the whole wait
    equal          half the wait, and a random part of the other half: never at once
    full           a random part of the wait: the best spread, may be at once
    decorrelated   instead of the backoff: random from the base to three times the wait before
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Literal, get_args

from engine.errors import BadInput
from engine.execution import ErrorKind

Backoff = Literal["exponential", "linear", "fixed", "list"]
Jitter = Literal["none", "equal", "full", "decorrelated"]

MOST_ATTEMPTS = 1_000
MOST_WAITS = 100
MOST_CHOSEN = 50
LONGEST_WAIT_MS = 30 * 24 * 3_600_000
LONGEST_SPAN_MS = 366 * 24 * 3_600_000

_CLASSES = ("4xx", "5xx")
CHOICES = (*_CLASSES, *(kind for kind in ErrorKind if kind is not ErrorKind.DEADLINE))


@dataclass(frozen=True, slots=True)
class Retry:
    """What is tried again, how often and until when, and how long it waits in between.

    A value out of range, or one that contradicts another, raises BadInput with the field's path.
    """

    max_attempts: int = 3
    """Attempts in all, the first included: 1 means that nothing is tried again."""
    backoff: Backoff = "exponential"
    base_ms: int = 1_000
    """The wait after the first attempt, before jitter."""
    max_ms: int = 3_600_000
    """The cap: no wait is longer, whatever the backoff or the target asks for."""
    waits_ms: tuple[int, ...] = ()
    """The waits of backoff `list`, and of no other; the last one repeats."""
    jitter: Jitter = "equal"
    max_elapsed_ms: int | None = None
    """No attempt begins later than so long after the first one began."""
    deadline_ms: int | None = None
    """The execution is over so long after its first attempt began: none begins later, and one that
    runs is cut off."""
    on: tuple[str | int, ...] | None = None
    """What is tried again: statuses, `4xx`, `5xx`, or an ErrorKind. None leaves that to the
    target."""

    def __post_init__(self) -> None:
        _check_word("backoff", self.backoff, get_args(Backoff))
        _check_word("jitter", self.jitter, get_args(Jitter))
        _check_range("max_attempts", self.max_attempts, 1, MOST_ATTEMPTS)
        _check_range("base_ms", self.base_ms, 0, LONGEST_WAIT_MS)
        self._check_waits()
        longest = max(self.waits_ms, default=self.base_ms)
        _check_range("max_ms", self.max_ms, longest, LONGEST_WAIT_MS)
        for name in ("max_elapsed_ms", "deadline_ms"):
            if getattr(self, name) is not None:
                _check_range(name, getattr(self, name), 1, LONGEST_SPAN_MS)
        if self.jitter == "decorrelated" and self.backoff != "exponential":
            raise _wrong("jitter", "decorrelated makes its own waits: leave backoff out")
        self._check_chosen()

    def _check_waits(self) -> None:
        if not isinstance(self.waits_ms, tuple) or len(self.waits_ms) > MOST_WAITS:
            raise _wrong("waits_ms", f"waits_ms must be a list of {MOST_WAITS} waits at the most")
        if bool(self.waits_ms) != (self.backoff == "list"):
            raise _wrong("waits_ms", "waits_ms goes with backoff list, which needs at least one")
        for wait_ms in self.waits_ms:
            _check_range("waits_ms", wait_ms, 0, LONGEST_WAIT_MS)

    def _check_chosen(self) -> None:
        if self.on is None:
            return
        if not isinstance(self.on, tuple) or len(self.on) > MOST_CHOSEN:
            raise _wrong("on", f"on must be a list of {MOST_CHOSEN} items at the most")
        for item in self.on:
            is_status = isinstance(item, int) and 100 <= item <= 599
            if not is_status and not (isinstance(item, str) and item in CHOICES):
                raise _wrong("on", f"on takes statuses and {', '.join(CHOICES)}, but not {item!r}")

    def is_final(self, kind: str | None, status_code: int | None, *, usually: bool) -> bool:
        """Return whether a failure is not tried again, whatever attempts are left.

        `usually` is the target's own judgement. It stands where the policy chooses nothing, and for
        a failure without kind and status, about which no choice can say anything.
        """
        if self.on is None or (kind is None and status_code is None):
            return usually
        names = {kind, status_code, f"{status_code // 100}xx" if status_code else None}
        return names.isdisjoint(self.on)

    def next_wait_ms(
        self,
        attempt: int,
        *,
        elapsed_ms: int,
        rng: Random,
        seed: str,
        asked_ms: int | None = None,
    ) -> int | None:
        """Return how long to wait after this attempt failed, or None if no further one may begin.

        `elapsed_ms` counts from the begin of the first attempt. `asked_ms` is what the target asked
        for: the wait is at least that, within the cap. The rest is as for `delay_ms`.
        """
        wait_ms = self.delay_ms(attempt, rng, seed)
        if wait_ms is None:
            return None
        wait_ms = max(wait_ms, min(asked_ms or 0, self.max_ms))
        begins_ms = elapsed_ms + wait_ms
        if self.max_elapsed_ms is not None and begins_ms > self.max_elapsed_ms:
            return None
        if self.deadline_ms is not None and begins_ms >= self.deadline_ms:
            return None
        return wait_ms

    def delay_ms(self, attempt: int, rng: Random, seed: str = "") -> int | None:
        """Return the wait after this attempt (from 1) by backoff and jitter, None after the last.

        Decorrelated waits build on each other, and nothing stores them: they are drawn from `seed`
        (the execution's id) anew each time, so they differ per execution and are repeatable. All
        other jitter is drawn from `rng`.

        An attempt below 1 raises ValueError: no user can send one.
        """
        if attempt < 1:
            raise ValueError(f"attempts are counted from 1, not {attempt}")
        if attempt >= self.max_attempts:
            return None
        if self.jitter == "decorrelated":
            return self._decorrelated_ms(attempt, Random(seed))
        wait_ms = min(self.max_ms, self._grown_ms(attempt))
        if self.jitter == "full":
            return rng.randint(0, wait_ms)
        if self.jitter == "equal":
            return rng.randint(wait_ms // 2, wait_ms)
        return wait_ms

    def _grown_ms(self, attempt: int) -> int:
        match self.backoff:
            case "exponential":
                return self.base_ms << (attempt - 1)
            case "linear":
                return self.base_ms * attempt
            case "fixed":
                return self.base_ms
            case "list":
                return self.waits_ms[min(attempt, len(self.waits_ms)) - 1]

    def _decorrelated_ms(self, attempt: int, chain: Random) -> int:
        wait_ms = self.base_ms
        for _ in range(attempt):
            wait_ms = min(self.max_ms, chain.randint(self.base_ms, 3 * wait_ms))
        return wait_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults, tuples as lists: most jobs store nothing
        at all."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, default in _DEFAULTS.items()
            if (value := getattr(self, name)) != default
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Retry:
        """Return the policy that `to_dict` gave; an unknown or wrong field raises BadInput."""
        for name in stored:
            if name not in _DEFAULTS:
                raise BadInput(f"{name!r} is not a field of a retry policy", field=f"retry.{name}")
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in stored.items()
        }
        return cls(**given)


_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Retry)}


def _check_word(name: str, value: object, words: tuple[str, ...]) -> None:
    if value not in words:
        raise _wrong(name, f"{name} must be one of {', '.join(words)}, not {value!r}")


def _check_range(name: str, value: object, low: int, high: int) -> None:
    # bool is an int to Python, and true is not a count.
    if type(value) is not int or not low <= value <= high:
        raise _wrong(name, f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _wrong(name: str, message: str) -> BadInput:
    return BadInput(message, field=f"retry.{name}")
