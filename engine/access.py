"""Who may do what: API keys, their scopes, groups and quotas, and who a caller is. Pure.

A key is the word `wck_<id>_<secret>`: the id is public, the secret is 32 random bytes that only its
bearer has. What is stored of the secret is its SHA-256. A slow hash would add nothing: it makes
guessing dear where secrets are few, as passwords are, and nobody tries out 2^256.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from engine.errors import BadInput, Unusable
from engine.names import check_group

API_KEY = re.compile(r"wck_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
"""Id and secret of a key."""
MOST_NAME_CHARS = 100
MOST_GROUPS = 100
MOST = 2**53
"""Of any quota: beyond that, numbers of JSON are not exact."""
LONGEST_LIFE_MS = 10 * 366 * 86_400_000
DEFAULT_OVERLAP_MS = 86_400_000
"""How long a rotated key is good beside the new one."""


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
class Quotas:
    """How much a key may have; None is no limit."""

    rate: float | None = None
    """Requests a second, in each API process."""
    burst: int | None = None
    """Requests that may come at once; by default those of a second."""
    max_jobs: int | None = None
    """With `max_payload_bytes`, what the jobs of its groups may be together."""
    max_payload_bytes: int | None = None

    @property
    def most_at_once(self) -> int:
        """The size of the bucket that `rate` fills."""
        return self.burst or max(1, int(self.rate or 1))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and what that one may do."""

    name: str
    scopes: frozenset[Scope]
    groups: frozenset[str] | None = None
    """The groups whose jobs are all that there is for this caller; None for no such limit."""
    quotas: Quotas = Quotas()

    def may(self, scope: Scope) -> bool:
        return any(scope in _IMPLIED[held] for held in self.scopes)

    def sees(self, group: str | None) -> bool:
        """Return whether a job of `group`, None for a job of no group, is there for this caller."""
        return self.groups is None or group in self.groups


ANYONE = Caller("anyone", frozenset({Scope.ADMIN}))
"""Who calls where keys are not asked for."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: all but its secret."""

    id: str
    name: str
    digest: str = field(repr=False)
    scopes: frozenset[Scope]
    created_at: int
    groups: frozenset[str] | None = None
    expires_at: int | None = None
    rotated_from: str | None = None
    """The key whose rights it took over."""
    family: str = ""
    """The first key of those that were rotated, one from the other; itself if there was none. They
    are one caller, with one rate."""
    quotas: Quotas = Quotas()

    def is_good(self, now: int) -> bool:
        """Return whether it has not expired."""
        return self.expires_at is None or now < self.expires_at

    def caller(self) -> Caller:
        """Return who calls with it."""
        return Caller(self.family or self.id, self.scopes, self.groups, self.quotas)


def check_grant(
    name: str, scopes: Iterable[Scope], groups: Iterable[str] | None, quotas: Quotas
) -> None:
    """Refuse with BadInput, naming the field, what no key may be given."""
    held = frozenset(scopes)
    if not 1 <= len(name) <= MOST_NAME_CHARS or not name.isprintable():
        raise BadInput(
            f"a key's name has 1 to {MOST_NAME_CHARS} characters that can be printed", field="name"
        )
    if not held:
        raise BadInput("a key has one scope at least", field="scopes")
    if groups is None:
        for limit in ("max_jobs", "max_payload_bytes"):
            if getattr(quotas, limit) is not None:
                raise BadInput(
                    f"{limit} counts the jobs of groups; restrict the key to some", field=limit
                )
    else:
        named = list(groups)
        if not 1 <= len(named) <= MOST_GROUPS:
            raise BadInput(f"a key is restricted to 1 to {MOST_GROUPS} groups", field="groups")
        for group in named:
            try:
                check_group(group)
            except BadInput as error:
                raise BadInput(error.message, field="groups") from None
        if held & {Scope.WORKER, Scope.ADMIN}:
            # What waits in a queue is of all groups, and so is what an admin looks after.
            raise BadInput(
                "scopes worker and admin go over all groups; leave groups out", field="groups"
            )
    _check_quotas(quotas)


def _check_quotas(quotas: Quotas) -> None:
    for name, least in (("rate", 0.01), ("burst", 1), ("max_jobs", 0), ("max_payload_bytes", 0)):
        value = getattr(quotas, name)
        if value is not None and not least <= value <= MOST:
            raise BadInput(f"{name} is a number from {least} to {MOST}", field=name)
    if quotas.burst is not None and quotas.rate is None:
        raise BadInput("burst goes with a rate only", field="burst")


@lru_cache(maxsize=1_024)
def is_own_address(host: str) -> bool:
    """Return whether nobody but this machine reaches what listens on an address. (Hosts of targets
    are another matter: engine/guard.py.)"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def asks_for_keys(auth: str, host: str) -> bool:
    """Return whether an API that listens on `host` asks for keys, by the setting `auth`. Refuses
    with Unusable to ask for none on an address that others can reach."""
    if auth == "off" and not is_own_address(host):
        raise Unusable(
            f"auth is off, and {host} can be reached from other machines: listen on 127.0.0.1"
            " (--host), or leave WATERCLOCK_AUTH at auto"
        )
    return auth == "required" or not is_own_address(host)
