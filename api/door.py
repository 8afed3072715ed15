"""What the door of the API knows of the deployment when it looks at a target's URL.

It rides in the context of validation. The guard of the workers has the last word, at every
connection; what can be seen in a URL is refused here, before it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request

from engine.access import Scope
from engine.config import Config
from engine.errors import CallsItself
from engine.guard import Guard, is_loopback
from engine.model import HttpTarget, Target

USUAL_PORTS = {"http": 80, "https": 443}
OWN_HEADER = "waterclock-job"
"""Our workers send it with every call, and nobody has a reason to send it to us."""


@dataclass(frozen=True)
class Door:
    """The rules of one deployment for what may be a target."""

    guard: Guard = field(default_factory=Guard)
    own: frozenset[tuple[str, int]] = frozenset()
    """Host and port of each place at which this API is known to answer."""

    @classmethod
    def of(cls, config: Config) -> Door:
        places = {(config.host.lower(), config.port)}
        for url in filter(None, (config.public_url, config.api_url)):
            parts = urlsplit(url)
            if parts.hostname:
                places.add((parts.hostname, parts.port or USUAL_PORTS.get(parts.scheme, 0)))
        return cls(config.guard(), frozenset(places))

    def is_own(self, host: str, port: int) -> bool:
        """Return whether a target would be this API itself, and is not allowed as a host."""
        if self.guard.allows_host(host, port):
            return False
        is_here = is_loopback(host) and any(
            port == at and is_loopback(name) for name, at in self.own
        )
        return is_here or (host, port) in self.own

    def refuse_own_calls(self, request: Request, scope: Scope | None) -> None:
        """Refuse with CallsItself what one of our own workers asks to be changed, unless a place of
        this API is allowed as a host: jobs that make jobs, or run themselves, have no end."""
        is_let = any(self.guard.allows_host(*place) for place in self.own)
        is_change = scope in (Scope.WRITE, Scope.ADMIN)
        if is_change and OWN_HEADER in request.headers and not is_let:
            raise CallsItself(
                "this is a call of a job, and a job changes nothing here; to let it, name this"
                " API's host and port in WATERCLOCK_ALLOW_HOSTS"
            )


def kept_of(target: Target | None) -> dict[str, Any]:
    """Return what a stored target adds to the context of validation: what of it is sent again is
    taken as it is, though the rules may have changed since."""
    if not isinstance(target, HttpTarget):
        return {}
    return {"kept_url": target.url, "kept_headers": frozenset(target.headers)}
