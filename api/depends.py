"""What a job depends on, as it is sent and as it is shown; and the calendars that it names."""

from __future__ import annotations

from typing_extensions import TypedDict

from api.answers import UpstreamOut
from api.schemas import CreateJob
from engine.depends import Depends, Join, Match, Upstream
from engine.plan import NO_CALENDARS, Calendars
from engine.store import Store
from engine.store.dependencies import match_of
from engine.store.snapshot import read_calendars

GATE_DEADLINE_MS = 86_400_000


class DependsOut(TypedDict):
    depends_on: list[UpstreamOut]
    join: str
    match: str | None
    gate: bool
    gate_deadline_ms: int | None


async def calendars_for(store: Store, body: CreateJob) -> Calendars:
    """Return the calendars as they stand, if the body names any."""
    return await read_calendars(store) if body.calendars else NO_CALENDARS


async def depends_for(store: Store, body: CreateJob) -> Depends | None:
    """Return what a body says that a job depends on, None for nothing. How executions are matched
    is worked out from the graph as it stands, unless the body says."""
    if not body.depends_on:
        return None
    if body.gate or body.match is not None:
        return depends_of(body, Match.SAME_TIME)
    return depends_of(body, await match_of(store, [one.job for one in body.depends_on]))


def depends_of(body: CreateJob, match: Match) -> Depends:
    """Return what a body says that a job depends on, with `match` unless it says how executions are
    matched."""
    upstreams = tuple(Upstream(one.job, one.to_condition()) for one in body.depends_on)
    if body.gate:
        gate_ms = body.gate_deadline_ms or GATE_DEADLINE_MS
        return Depends(upstreams, Join(body.join), Match.SAME_TIME, gate_ms)
    match = match if body.match is None else Match(body.match)
    return Depends(upstreams, Join(body.join), match)


def depends_out(depends: Depends | None) -> DependsOut:
    """Return the fields as a job shows them, which are those that are sent."""
    if depends is None:
        return {
            "depends_on": [],
            "join": Join.ALL.value,
            "match": None,
            "gate": False,
            "gate_deadline_ms": None,
        }
    return {
        "depends_on": [
            {"job": one.job_id, "condition": one.condition.value} for one in depends.upstreams
        ],
        "join": depends.join.value,
        "match": depends.match.value,
        "gate": depends.gate_ms is not None,
        "gate_deadline_ms": depends.gate_ms,
    }
