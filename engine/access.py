"""Who may do what: the scopes of an API key, and the caller that a request comes from. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What a key lets its bearer do."""

    READ = "read"
    """Look at jobs, executions and how the deployment stands."""
    WRITE = "write"
    """Read, and register, change, run, delete."""
    WORKER = "worker"
    """Claim executions and record their outcomes; nothing else."""
    ADMIN = "admin"
    """Everything, keys included."""


_IMPLIED = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.WRITE: frozenset({Scope.READ, Scope.WRITE}),
    Scope.WORKER: frozenset({Scope.WORKER}),
    Scope.ADMIN: frozenset(Scope),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and what that one may do."""

    name: str
    scopes: frozenset[Scope]
    groups: frozenset[str] | None = None
    """The groups whose jobs are all that there is for this caller; None for no such limit."""

    def may(self, scope: Scope) -> bool:
        return any(scope in _IMPLIED[held] for held in self.scopes)

    def sees(self, group: str | None) -> bool:
        """Return whether a job of `group`, None for a job of no group, is there for this caller."""
        return self.groups is None or group in self.groups


ANYONE = Caller("anyone", frozenset({Scope.ADMIN}))
"""Who calls where keys are not asked for."""
