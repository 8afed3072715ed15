"""What a caller may store: jobs of its own groups, which depend on jobs of its own groups, and no
more than its quotas.

Whoever stores jobs asks `grant` for each body, and `charge` for each registration. Both cost
nothing for callers without groups and quotas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from api.backend import Backend
from api.schemas import CreateJob
from engine.access import Caller
from engine.errors import BadInput, Cycle, Forbidden
from engine.registration import Registration
from engine.store.jobs import StoredJob
from engine.store.visible import check_upstreams


async def grant(
    backend: Backend, caller: Caller, body: CreateJob, stored: StoredJob | None = None
) -> CreateJob:
    """Return a body as the caller may send it for the job `stored`, None for a new one: of the
    caller's own group where it names none and there is one alone.

    Refuses with BadInput to choose among several groups, and upstream jobs that are not there for
    the caller, in the words for those that are not there at all; with Forbidden a group of others,
    and `allow_missing`: whoever makes the missing job later would run this one.
    """
    if caller.groups is None:
        return body
    group = group_for(caller, body.group)
    if body.allow_missing:
        raise Forbidden(
            "a key that is restricted to groups registers upstream jobs first",
            field="allow_missing",
        )
    depends = stored.job.depends if stored else None
    standing = {up.job_id for up in depends.upstreams} if depends else set[str]()
    named = [upstream.job for upstream in body.depends_on]
    await check_upstreams(backend.store, caller, named, standing)
    return body if group == body.group else body.model_copy(update={"group": group})


@contextmanager
def circles_kept_dark(caller: Caller) -> Iterator[None]:
    """Have Cycle spell out to nobody but who sees all jobs what the circle leads through."""
    try:
        yield
    except Cycle as error:
        if caller.groups is None:
            raise
        raise Cycle("the job would depend on itself, through others", field=error.field) from None


def group_for(caller: Caller, group: str | None) -> str | None:
    """Return the group of a job that a caller says to be of `group`; refuses as `grant` does."""
    groups = caller.groups
    if groups is None:
        return group
    if group is None:
        if len(groups) > 1:
            raise BadInput(f"name one of this key's groups: {_listed(groups)}", field="group")
        [group] = groups
    if group not in groups:
        raise Forbidden(f"this key is restricted to {_listed(groups)}", field="group")
    return group


async def charge(
    backend: Backend,
    caller: Caller,
    registration: Registration,
    stored: StoredJob | None = None,
) -> None:
    """Count a job that is about to be stored in place of `stored`, None for nothing. Refuses with
    QuotaExceeded what the caller's groups may not hold."""
    was = len(stored.job.payload) if stored else 0
    payload_bytes = len(registration.job.payload) - was
    await backend.gate.limits.reserve(
        backend.store, caller, jobs=0 if stored else 1, payload_bytes=payload_bytes
    )


async def charge_new(backend: Backend, caller: Caller, payload_bytes: int) -> None:
    """Count a job that is about to be stored as `charge` does."""
    await backend.gate.limits.reserve(backend.store, caller, jobs=1, payload_bytes=payload_bytes)


def count_one_more(backend: Backend, caller: Caller) -> None:
    """Count one line of a request of many as a request of its own. Refuses with RateLimited."""
    backend.gate.limits.take(caller, backend.clock.now_ms())


def _listed(groups: frozenset[str]) -> str:
    return ", ".join(sorted(groups))
