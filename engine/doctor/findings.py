"""What the doctor says: a check, a verdict, what was found, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works, and something is not as it should be."""
    FAIL = "fail"
    """Jobs do not run, or would be lost."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` says what to do, unless all is well."""

    check: str
    verdict: Verdict
    found: str
    advice: str | None = None


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Verdict.WARN, found, advice)


def fail(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Verdict.FAIL, found, advice)


def size(count: int) -> str:
    """Return a number of bytes as people read it: `1.5 GiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def span(ms: int) -> str:
    """Return a duration as people read it: `340 ms`, `12.5 s`, `3.2 h`."""
    for limit, unit, part in ((1_000, "ms", 1), (120_000, "s", 1_000), (7_200_000, "min", 60_000)):
        if abs(ms) < limit:
            return f"{ms} ms" if part == 1 else f"{ms / part:.1f} {unit}"
    return f"{ms / 3_600_000:.1f} h"
