"""Calendars: store, read, delete; and what a change does to the jobs that name one.

Every process works on a snapshot, `store.calendars`, and looks each second whether it is old. Under
roll `skip` closed times stay due times, and are judged as they come: a change needs nothing else.
Where times move, the next time of each such job is worked out anew (`replan_jobs`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from engine import codec
from engine.errors import Conflict, NotFound
from engine.execution import SkipReason, SkipRecord
from engine.keys import CALENDARS
from engine.model import JobState
from engine.plan import Calendar, Plan
from engine.store import Store
from engine.store.jobs import StoredJob, get_job
from engine.store.replanning import matching_plans, read_page, replan_call
from engine.store.snapshot import read_calendars

MOST_CALENDARS = 1_000


async def get_calendar(store: Store, name: str) -> Calendar:
    """Return a calendar. Raises NotFound."""
    calendars = await read_calendars(store)
    if name not in calendars.by_name:
        raise NotFound(f"there is no calendar {name}")
    return calendars.by_name[name]


async def put_calendar(
    store: Store, calendar: Calendar, now: int, version: int | None = None
) -> Calendar:
    """Store a calendar, in place of the one of that name, and move the jobs that it moves; return
    it with its new version.

    With a `version` that one must stand, or else it raises Conflict, or NotFound. Raises Conflict
    for one calendar too many. Where it breaks off, putting the same again does the rest.
    """
    known = (await read_calendars(store)).by_name
    if calendar.name not in known and len(known) >= MOST_CALENDARS:
        raise Conflict(f"there are {MOST_CALENDARS} calendars already; delete one first")
    await _write(store, calendar.name, version, codec.dump_calendar(calendar))
    await replan_jobs(store, calendar.name, now)
    return await get_calendar(store, calendar.name)


async def delete_calendar(store: Store, name: str, version: int | None = None) -> None:
    """Delete a calendar. Raises NotFound, and Conflict while a job names it or, with a `version`,
    if another one stands."""
    await get_calendar(store, name)
    async for _, job_id in _jobs_naming(store, name):
        raise Conflict(f"job {job_id} uses calendar {name}; change or delete the job first")
    await _write(store, name, version, b"")
    await read_calendars(store)


async def _write(store: Store, name: str, version: int | None, data: bytes) -> None:
    args = [name, "" if version is None else version, data]
    await store.scripts.run("put_calendar", [CALENDARS], args)


async def replan_jobs(store: Store, name: str, now: int) -> int:
    """Work out anew the next time of each job whose times a calendar moves; return how many have
    another one now.

    What is due already is left: it is judged under the new calendar as it comes. A time that has
    moved into the past is recorded as skipped.
    """
    await read_calendars(store)
    changed = 0
    async for plan, job_id in _jobs_naming(store, name):
        if plan.roll != "skip":
            # A job that went or fired since it was read needs nothing more.
            with suppress(NotFound, Conflict):
                changed += await _replan(store, await get_job(store, job_id), now)
    return changed


async def _replan(store: Store, stored: StoredJob, now: int) -> bool:
    job, plan, old_at = stored.job, stored.plan, stored.next_nominal_at
    if job.state is JobState.COMPLETED or old_at is None or old_at <= now - stored.offset_ms:
        return False
    next_at = plan.first_after(now - stored.offset_ms, job.anchor_at, store.calendars)
    if next_at == old_at:
        return False
    skipped = None
    if plan.roll == "previous_business_day" and (next_at is None or next_at > old_at):
        closed_by = plan.opening(store.calendars).closed_by(old_at)
        skipped = SkipRecord(old_at, old_at, 1, SkipReason.CALENDAR, detail=closed_by)
    next_run_at = None if next_at is None else next_at + stored.offset_ms
    call = replan_call(store, job.id, old_at + stored.offset_ms, next_run_at, skipped)
    await store.scripts.run(*call)
    return True


async def _jobs_naming(store: Store, name: str) -> AsyncIterator[tuple[Plan, str]]:
    """Yield plan and id of each job whose plan names a calendar. Only shards that hold such a plan
    are walked, a batch at a time."""
    for shard in store.layout.shards:
        plans = await matching_plans(store, shard, lambda plan: name in plan.calendars)
        after = ""
        while plans and (page := await read_page(store, shard, after)):
            for job_id, head in page:
                if plan := head and plans.get(head.plan_id):
                    yield plan, job_id
            after = page[-1][0]
