"""By which edition of the time zones next times were worked out, and what a newer one moves.

`wc:zones` keeps the rules of each edition that is in use, so that a process with a newer one can
tell what the clocks showed by the older. A shard names the editions by which next times of its jobs
may have been worked out; it is done with one when all its jobs were looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from engine import codec
from engine.codec import Head
from engine.errors import Conflict, NotFound
from engine.execution import SkipReason, SkipRecord
from engine.keys import ZONES, Shard
from engine.plan import ZONE_DATABASE, Edition, Plan, Proposal, Skipped, read_rules, replan
from engine.scripts import Call
from engine.store import Store
from engine.store.replanning import matching_plans, read_page, replan_call


async def adopt_zones(
    store: Store, shard: Shard, token: str, holder: str, *, done: str = ""
) -> set[str]:
    """Say that next times of a shard are worked out with this process's edition from now on, and by
    `done` none any more; return the editions by which they may have been.

    Raises Fenced if the lease has gone to another.
    """
    args = [token, holder, done, ZONE_DATABASE]
    found = await store.scripts.run("adopt_zones", [shard.fence, shard.zones], args)
    return {edition.decode() for edition in found}


async def keep_rules(store: Store) -> None:
    """Keep the rules of this process's edition, for the next one."""
    if not await store.client.hexists(ZONES, ZONE_DATABASE):
        packed = await asyncio.to_thread(lambda: codec.dump_rules(read_rules()))
        await store.client.hset(ZONES, ZONE_DATABASE, packed)


async def drop_rules(store: Store) -> None:
    """Forget the rules of editions that no shard names any more."""
    kept = {edition.decode() for edition in await store.client.hkeys(ZONES)}
    if unused := kept.difference({ZONE_DATABASE}, *await read_editions(store)):
        await store.client.hdel(ZONES, *unused)


async def read_editions(store: Store) -> list[set[str]]:
    """Return for each shard the editions by which its next times may have been worked out."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.smembers(shard.zones)
    return [{edition.decode() for edition in found} for found in await pipe.execute()]


@dataclass(slots=True)
class Walk:
    """A walk through those jobs of a shard whose clocks a newer edition has changed."""

    shard: Shard
    before: Edition
    plans: Mapping[str, Plan]
    """Those with such clocks."""
    after: str = ""
    """The last job that was looked at."""
    moved: int = 0
    is_done: bool = False


async def begin_walk(store: Store, shard: Shard, edition: str) -> Walk | None:
    """Return a walk through the jobs whose next times `edition` may have given, of which the fire
    loop knows from now on; None if its rules are not kept, so that nobody can tell what it meant.
    """
    data = await store.client.hget(ZONES, edition)
    if data is None:
        return None
    before = Edition(codec.load_rules(data))
    changed = before.changed(await asyncio.to_thread(read_rules))
    plans = await matching_plans(store, shard, lambda plan: not changed.isdisjoint(plan.zones))
    walk = store.walks[shard.index] = Walk(shard, before, plans, is_done=not plans)
    return walk


async def go_on(store: Store, walk: Walk, now: int) -> None:
    """Look at the next page of a walk's jobs, and move those whose next time is another one now."""
    page = await read_page(store, walk.shard, walk.after)
    calls = [call for job_id, head in page if (call := _judge(store, walk, job_id, head, now))]
    for reply in await store.scripts.run_many(calls) if calls else []:
        # A job that went, fired or changed since it was read needs nothing more.
        if isinstance(reply, Exception) and not isinstance(reply, NotFound | Conflict):
            raise reply
        walk.moved += not isinstance(reply, Exception)
    if page:
        walk.after = page[-1][0]
    walk.is_done = not page


def _judge(store: Store, walk: Walk, job_id: str, head: Head | None, now: int) -> Call | None:
    plan = walk.plans.get(head.plan_id) if head else None
    if plan is None or head is None or head.next_run_at is None:
        return None
    offset_ms = plan.offset_of(job_id)
    nominal_at = head.next_run_at - offset_ms
    moved = replan(plan, nominal_at, now - offset_ms, walk.before, store.calendars)
    if moved is None:
        return None
    skipped = SkipRecord(nominal_at, nominal_at, 1, SkipReason.LATE) if moved.is_lost else None
    next_run_at = None if moved.next_at is None else moved.next_at + offset_ms
    return replan_call(store, job_id, head.next_run_at, next_run_at, skipped)


def put_off(store: Store, shard: Shard, plan: Plan, due_at: int, now: int) -> Proposal | None:
    """Return the proposal for a nominal time that is due by an older edition, and by the new one is
    still to come; None for any other. A walk may reach a job after its time has come: to fire it
    now would be to fire it twice."""
    walk = store.walks.get(shard.index)
    if walk is None or plan.id not in walk.plans:
        return None
    moved = replan(plan, due_at, now, walk.before, store.calendars)
    if moved is None or moved.next_at is None or moved.next_at <= now:
        return None
    skipped = Skipped("late", due_at, due_at, 1, True) if moved.is_lost else None
    return Proposal(None, moved.next_at, skipped)
