"""A schedule says when: local times in a zone, an interval, once, several of these, at each start
of the deployment, or at once."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_DIALECT = "vixie"


@dataclass(frozen=True)
class Cron:
    """Local times in an IANA zone, written in a dialect.

    `expr` is the text as it was sent, with single spaces, except for what a dialect makes concrete:
    a hashed `H` is a number here, and a zone in the text is in `timezone`.
    """

    expr: str
    timezone: str
    dialect: str = DEFAULT_DIALECT


@dataclass(frozen=True)
class Every:
    interval_ms: int
    anchor: int | None = None
    """A nominal time that the text asked for; None leaves the phase to the job."""


@dataclass(frozen=True)
class Once:
    at: int


@dataclass(frozen=True)
class Immediate:
    """As soon as possible, once."""


@dataclass(frozen=True)
class Reboot:
    """At each start of the deployment (`@reboot`): it has no clock time (see starts.py)."""


MOST_PARTS = 20


@dataclass(frozen=True)
class Joined:
    """The times of several schedules, each instant once."""

    parts: tuple[Cron | Every | Once, ...]


Schedule = Cron | Every | Once | Joined | Immediate | Reboot
