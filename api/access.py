"""Who sends a request, and what is there for that caller.

A key that is restricted to groups is let into those operations alone that keep to them (`by_group`
in the route table): whoever adds one says so on purpose, or it stays shut. What such a caller does
not see answers as what is not there does, in the same words.
"""

from __future__ import annotations

from starlette.requests import Request

from api.backend import backend_of
from api.gate import refuse_key_in_url
from api.limits import HEADERS
from engine.access import ANYONE, Caller, Scope
from engine.errors import Forbidden, Unauthorized
from engine.store.connection import TRANSIENT
from engine.store.jobs import StoredJob, get_job
from engine.store.visible import check_seen


def caller_of(request: Request) -> Caller:
    """Return who sends a request."""
    caller = getattr(request.state, "caller", ANYONE)
    assert isinstance(caller, Caller)
    return caller


async def admit(request: Request, scope: Scope | None, *, by_group: bool) -> None:
    """Note who sends a request, and count it.

    `scope` is what the caller needs; None lets anyone in. Refuses with Unauthorized who has no good
    key, with Forbidden whose key does not do, with RateLimited whose key has sent too many; and
    where no key is asked for with CrossSite what other sites send.
    """
    if scope is None:
        return
    refuse_key_in_url(request)
    backend = backend_of(request)
    gate = backend.gate
    if not gate.asks_for_keys:
        gate.refuse_strangers(request)
        return
    now = backend.clock.now_ms()
    caller = await gate.caller(backend.store, request.headers, now)
    request.state.caller = caller
    try:
        gate.limits.take(caller, now)
    finally:
        setattr(request.state, HEADERS, gate.limits.headers(caller, now))
    if not caller.may(scope):
        raise Forbidden(f"this needs a key with the scope {scope}")
    if caller.groups is not None and not by_group:
        raise Forbidden("this is of all groups, and the key is restricted to some")


async def is_still_let_in(request: Request) -> bool:
    """Return whether a request that is answered for long would be let in again: its key was not
    revoked, and has not expired."""
    backend = backend_of(request)
    if not backend.gate.asks_for_keys:
        return True
    try:
        await backend.gate.caller(backend.store, request.headers, backend.clock.now_ms())
    except Unauthorized:
        return False
    except TRANSIENT:
        pass  # nobody knows now; ask again later
    return True


async def check_job(request: Request, job_id: str) -> None:
    """Refuse with NotFound a job that is not there for the caller. Whether it is there at all, the
    operation itself finds out."""
    await check_seen(backend_of(request).store, caller_of(request), job_id)


async def job_of(request: Request, job_id: str) -> StoredJob:
    """Return a job. Refuses with NotFound one that is not there, for the caller or at all."""
    await check_job(request, job_id)
    return await get_job(backend_of(request).store, job_id)
