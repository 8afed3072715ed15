"""What tests of a move begin with: a deployment that holds some of everything, and its content in a
form that does not depend on shards."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from burying import bury
from filling import begin, order
from fleet import age
from invariants import Keyspace, read_shard
from linking import depends, make
from rezoning import EARLIER, be_old
from seeding import (
    MINUTE,
    NOW,
    at_once,
    fire,
    grant,
    registration,
    result,
    take,
)

from engine.execution import Delivery, Outcome
from engine.keys import CALENDARS, GRAPH, HOSTS, PUSHBACK, QUEUES, SIGNING, ZONES
from engine.model import Overlap, Rules
from engine.names import Priority
from engine.plan import Calendar
from engine.store import Store
from engine.store.calendars import put_calendar
from engine.store.changes import pause_job
from engine.store.effects import record_effect
from engine.store.executions import complete_executions, reclaim_executions
from engine.store.jobs import create_jobs
from engine.store.limits import (
    Limit,
    Pushback,
    QueueSettings,
    note_pushback,
    write_host,
    write_queue,
)
from engine.store.outbox import deliver_upstreams, read_outboxes
from engine.store.reports import signing_key
from engine.store.transfer.reading import export_lines

GLOBALS = (CALENDARS, QUEUES, HOSTS, PUSHBACK, GRAPH, SIGNING, ZONES)
OWN = {"lease", "fence", "frozen", "plans", "gates"}
"""Keys of a shard that are no content: the server's own, or rebuilt in another form."""


async def busy(store: Store) -> list[Delivery]:
    """Make some of everything; return what worker `w1` holds: a plain delivery, one with an effect,
    and one that it took over from another worker."""
    await put_calendar(store, Calendar("office", weekdays=frozenset({0, 1})), NOW)
    await write_queue(store, "mail", QueueSettings(limit=Limit(concurrency=3)))
    await write_host(store, "a.test", Limit(rate=5.0))
    await note_pushback(store, "b.test", Pushback(NOW, 1_000))
    await signing_key(store)
    await be_old(store, EARLIER)
    await _times(store)
    await _graph(store)
    await begin(store, order(-20, -10))
    gates = {"slots:q/mail": "3", "tokens:h/a.test": "2", "fair:mail": "4"}
    await grant(store, store.layout.shard_of("job-0"), gates)
    await bury(store, "died", queue="graves")
    return await _held(store)


async def _times(store: Store) -> None:
    """Register jobs of many kinds, all of which fire, some more than once, and wait."""
    for n in range(30):
        await create_jobs(store, [registration(f"minutely-{n}", group="blue", tags=("a", "b"))])
    await create_jobs(store, [registration("urgent", priority=Priority.HIGH)])
    await create_jobs(store, [registration("bytes", payload=b"\xff\x00{")])
    await create_jobs(store, [registration("limited", queue="mail", overlap=Overlap.QUEUE_ALL)])
    rules = Rules(max_runs=9, expires_after_ms=60_000, pause_after_failures=2)
    await create_jobs(store, [registration("ruled", rules=rules, overlap=Overlap.QUEUE_ALL)])
    for shard in store.layout.shards:
        await fire(store, shard)
        await fire(store, shard, NOW + MINUTE)
    await create_jobs(store, [registration("paused")])
    await pause_job(store, "paused", NOW)


async def _graph(store: Store) -> None:
    """Have `below` hear of one of its two upstream jobs, while the end of the other one is on its
    way."""
    await make(store, {"left": "", "right": "", "below": depends("left right")})
    for shard in {store.layout.shard_of(name) for name in ("left", "right")}:
        await fire(store, shard)
    ended = [d for d in await take(store) if d.job_id in ("left", "right")]
    results = [result(delivery) for delivery in ended]
    await complete_executions(store, results, NOW)
    for shard, endings in await read_outboxes(store, store.layout.shards, block=False):
        for ending in endings:
            if ending.job_id == "left":
                await deliver_upstreams(
                    store, shard, [(store.layout.shard_of("below"), "below", ending)], NOW
                )
                await store.client.xdel(shard.outbox, ending.entry)


async def _held(store: Store) -> list[Delivery]:
    """Return deliveries that are held; another one has failed and is tried again later, and one of
    an execution that is to have inputs is done."""
    names = ("plain", "effect", "taken-over", "failing", "done")
    for name in names:
        await create_jobs(store, [at_once(name)])
    held = {d.job_id: d for d in await take(store)}
    await record_effect(store, held["effect"], "charge", b'"paid"')
    await store.client.hset(
        store.layout.shard_of("plain").inputs("plain"), str(NOW), '{"left":{"n":1}}'
    )
    ends = [result(held["failing"], Outcome.FAILED, NOW + 5_000), result(held["done"])]
    await complete_executions(store, ends, NOW)
    stale = held["taken-over"]
    await create_jobs(store, [at_once(f"waiting-{n}") for n in range(20)])
    await age(store, [stale])
    shard = store.layout.shards[stale.shard]
    reclaimed = await reclaim_executions(store, stale.queue, shard, "w2", NOW)
    return [held["plain"], held["effect"], *reclaimed.deliveries]


async def content(store: Store) -> dict[str, Any]:
    """Return all that a deployment holds, without what differs from server to server: shards, entry
    ids, who holds what, and where in the index a member waits for its turn."""
    whole: dict[str, Any] = {"due": {}, "ready": {}, "held": {}, "ledger": [], "outbox": []}
    for shard in store.layout.shards:
        space = await read_shard(store, shard)
        for key in OWN & space.keys():
            del space[key]
        ids = _take_entries(space, whole)
        whole["ledger"] += space.pop("ledger", [])
        whole["outbox"] += space.pop("outbox", {}).values()
        space.pop("buckets", None)
        for key, value in space.items():
            if key.startswith("due:"):
                whole["due"] |= value if key != "due:@" else {}
            elif key.startswith("job:"):
                whole[key] = {name: _without_id(text, ids) for name, text in value.items()}
            elif isinstance(value, dict):
                _join(whole.setdefault(key, {}), value)
            else:
                whole[key] = value
    whole["ledger"].sort(key=json.dumps)
    whole["outbox"].sort(key=json.dumps)
    for key in GLOBALS:
        raw = await store.client.execute_command("GET" if key == SIGNING else "HGETALL", key)
        whole[key] = raw
    return whole


def _take_entries(space: Keyspace, whole: dict[str, Any]) -> set[str]:
    """Move a shard's ready streams into the whole; return the ids of their entries."""
    ids: set[str] = set()
    for key in [key for key in space if key.startswith("ready:")]:
        held = space.pop(key.replace("ready:", "pending:", 1), {})
        for entry, fields in space.pop(key).items():
            ids.add(entry)
            whole["ready"][fields["execution_id"]] = (key, fields)
            if entry in held:
                whole["held"][fields["execution_id"]] = held[entry][1]
    return ids


def _without_id(text: str, ids: set[str]) -> str:
    parts = text.split(":")
    at = parts[2].partition(";")[0] if text.startswith("ready:") else None
    return text.replace(at, "*", 1) if at in ids else text


def _join(known: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if name in known and isinstance(value, str) and value.isdigit():
            value = str(int(known[name]) + int(value))
        known[name] = value


async def lines_of(store: Store) -> list[bytes]:
    """Return the lines of an export."""
    return [line async for line in export_lines(store)]


async def each(lines: list[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line
