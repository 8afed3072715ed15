"""Export: all that a deployment holds, as records, from a server on which nothing changes any more.

What lists its members is read by that list; the rest, of which there is little, is found by one
SCAN, which also sees that there is no key that this release does not know. Memory is bounded by a
page.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from engine import __version__, codec
from engine.errors import Unusable
from engine.keys import GROUP, LAYOUT, PREFIX, Shard
from engine.names import split_execution_id
from engine.store import Store
from engine.store.freezing import SCAN_COUNT, list_streams, scan_keys
from engine.store.server import time_ms
from engine.store.transfer.kinds import DEPLOYMENT, Fate, kind_of
from engine.store.transfer.pages import (
    PAGE,
    flatten,
    pages,
    pages_of_hash,
    pages_of_stream,
    read_hashes,
)

FORMAT = 2
LEDGER_PAGE = 20
"""Entries of one ledger at a time: each holds what one script told, up to hundreds of lines."""

Record = dict[str, Any]
Records = AsyncIterator[Record]


async def count_jobs(store: Store) -> int:
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.zcard(shard.jobs)
    return sum(await pipe.execute())


async def has_deployment(client: Any) -> bool:
    """Return whether a server holds a deployment at all: opening one where there is none makes
    it."""
    return bool(await client.exists(LAYOUT))


async def export_lines(store: Store) -> AsyncIterator[bytes]:
    """Yield the lines of an export. The deployment is frozen (freezing.py), or a line may
    contradict another.

    Raises Unusable, before the first line, for a key of a kind that this release does not know.
    """
    await _refuse_unknown(store)
    digest, count = hashlib.sha256(), 0
    async for record in _all(store):
        line = codec.dump_line(record)
        digest.update(line)
        count += 1
        yield line
    yield codec.dump_line({"kind": "end", "records": count, "sha256": digest.hexdigest()})


async def _refuse_unknown(store: Store) -> None:
    async for found in store.client.scan_iter(match=f"{PREFIX}:*", count=SCAN_COUNT):
        key = found.decode(errors="backslashreplace")
        if kind_of(key) is None:
            raise Unusable(
                f"key {key!r} is of no kind that this release knows: export with the release that"
                " wrote it"
            )


async def _all(store: Store) -> Records:
    yield {
        "kind": "deployment",
        "format": FORMAT,
        "version": __version__,
        "exported_at": await time_ms(store.client),
        "shards": len(store.layout.shards),
        "jobs": await count_jobs(store),
    }
    for read in READERS.values():
        async for record in read(store):
            yield record


async def _read_hashes(store: Store) -> Records:
    for name, kind in DEPLOYMENT.items():
        if kind.fate is Fate.MOVED and kind.how == "hash":
            async for fields in pages_of_hash(store, f"{PREFIX}:{name}"):
                yield {"kind": "hash", "name": name, "fields": fields}


async def _read_strings(store: Store) -> Records:
    for name, kind in DEPLOYMENT.items():
        if kind.fate is Fate.MOVED and kind.how == "string":
            value = await store.client.get(f"{PREFIX}:{name}")
            if value is not None:
                yield {"kind": "string", "name": name, "value": value}


async def _read_jobs(store: Store) -> Records:
    for shard in store.layout.shards:
        async for ids in pages(store, shard.jobs):
            names = [job_id.decode() for job_id, _ in ids]
            pipe = store.client.pipeline(transaction=False)
            for name in names:
                pipe.hgetall(shard.job(name))
                pipe.lrange(shard.runs(name), 0, -1)
            replies = await pipe.execute()
            hashes = replies[::2]
            plan_ids = [_plan_of(fields) for fields in hashes]
            plans = await store.client.hmget(shard.plans, plan_ids)
            for name, fields, runs, plan in zip(names, hashes, replies[1::2], plans, strict=True):
                if plan is None:
                    raise Unusable(
                        f"job {name} has no record or no plan, and cannot be moved: `waterclock"
                        " doctor` says what else is wrong; delete it, or mend it"
                    )
                yield {
                    "kind": "job",
                    "id": name,
                    "fields": flatten(fields),
                    "plan": plan,
                    "runs": runs,
                }


def _plan_of(fields: dict[bytes, bytes]) -> str:
    """Return the plan id of a job's hash, "" for a hash that has gone."""
    return codec.load_head(fields[b"head"]).plan_id if fields else ""


async def _read_entries(store: Store) -> Records:
    """Yield what workers hold, and then what waits, each in order.

    What a worker holds of a job that was deleted stays: it is to touch nothing when it ends.
    """
    streams = await list_streams(store)
    for is_held in (True, False):
        for shard, stream in streams:
            async for page in pages_of_stream(store, shard.ready(stream), PAGE):
                held = await _held(store, shard.ready(stream), page)
                chosen = [(e, fields) for e, fields in page if (e in held) is is_held]
                live = await _live_fields(store, shard, [fields for _, fields in chosen])
                for (entry, fields), value in zip(chosen, live, strict=True):
                    before, behind = split_place(value or b"")
                    if before.rpartition(b":")[2] == entry:
                        yield {
                            "kind": "entry",
                            "stream": stream,
                            "fields": flatten(fields),
                            "before": before.removesuffix(entry),
                            "behind": behind,
                            "deliveries": held.get(entry, 0),
                        }


def split_place(value: bytes) -> tuple[bytes, bytes]:
    """Return what a live execution's field says up to its entry id or time, and what is behind
    (lua/lib/execution.lua)."""
    where, _, rest = value.partition(b":")
    attempt, _, rest = rest.partition(b":")
    found = re.match(rb"[\d-]*", rest)
    at = found[0] if found else b""
    return b":".join((where, attempt, at)), rest.removeprefix(at)


async def _held(store: Store, key: str, page: list[tuple[bytes, Any]]) -> dict[bytes, int]:
    """Return how often the entries of a page that consumers hold were delivered."""
    groups = await store.client.xinfo_groups(key)
    if not any(group["name"] == GROUP.encode() for group in groups):
        return {}
    rows = await store.client.xpending_range(key, GROUP, page[0][0], page[-1][0], 10 * PAGE)
    return {row["message_id"]: row["times_delivered"] for row in rows}


async def _live_fields(store: Store, shard: Shard, entries: list[Any]) -> list[bytes | None]:
    """Return what jobs say of the executions of entries."""
    pipe = store.client.pipeline(transaction=False)
    for fields in entries:
        job_id, nominal_at = split_execution_id(fields[b"execution_id"].decode())
        pipe.hget(shard.job(job_id), f"x:{nominal_at}")
    return list(await pipe.execute()) if entries else []


async def _read_letters(store: Store) -> Records:
    for shard in store.layout.shards:
        async for rows in pages(store, shard.dead):
            keys = [shard.letter(execution_id.decode()) for execution_id, _ in rows]
            for (execution_id, died_at), fields in zip(
                rows, await read_hashes(store, keys), strict=True
            ):
                yield {
                    "kind": "letter",
                    "execution": execution_id,
                    "died_at": int(died_at),
                    "fields": flatten(fields),
                }


async def _read_arrivals(store: Store) -> Records:
    for shard in store.layout.shards:
        async for rows in pages(store, shard.awaiting):
            keys = [shard.arrivals_prefix + awaited.decode() for awaited, _ in rows]
            for (awaited, heard_at), fields in zip(
                rows, await read_hashes(store, keys), strict=True
            ):
                yield {
                    "kind": "arrivals",
                    "awaited": awaited,
                    "heard_at": int(heard_at),
                    "fields": flatten(fields),
                }


async def _read_inputs(store: Store) -> Records:
    async for shard, job_id in scan_keys(store, lambda shard: shard.inputs_prefix):
        fields = await store.client.hgetall(shard.inputs(job_id))
        yield {"kind": "inputs", "id": job_id, "fields": flatten(fields)}


async def _read_dependents(store: Store) -> Records:
    async for shard, job_id in scan_keys(store, lambda shard: shard.dependents_prefix):
        async for rows in pages(store, shard.dependents(job_id)):
            yield {"kind": "dependents", "id": job_id, "jobs": [job for job, _ in rows]}


async def _read_effects(store: Store) -> Records:
    async for shard, execution_id in scan_keys(store, lambda shard: shard.effects("")):
        key = shard.effects(execution_id)
        ttl_ms = await store.client.pttl(key)
        fields = await store.client.hgetall(key)
        if fields:
            yield {
                "kind": "effects",
                "execution": execution_id,
                "ttl_ms": ttl_ms,
                "fields": flatten(fields),
            }


async def _read_outboxes(store: Store) -> Records:
    for shard in store.layout.shards:
        async for page in pages_of_stream(store, shard.outbox, PAGE):
            for _, fields in page:
                yield {"kind": "outbox", "fields": flatten(fields)}


async def _read_ledgers(store: Store) -> Records:
    """Yield the entries of all ledgers in order of time, so that shards may be joined."""

    async def rows(shard: Shard) -> AsyncIterator[tuple[tuple[int, int], int, Any]]:
        async for page in pages_of_stream(store, shard.ledger, LEDGER_PAGE):
            for entry, fields in page:
                ms, _, number = entry.partition(b"-")
                yield (int(ms), int(number)), shard.index, fields

    sources = [rows(shard) for shard in store.layout.shards]
    heap = []
    for place, source in enumerate(sources):
        async for at, index, fields in source:
            heap.append((at, place, index, fields))
            break
    heapq.heapify(heap)
    while heap:
        (ms, number), place, index, fields = heap[0]
        yield {"kind": "ledger", "id": f"{ms}-{number}", "shard": index, "fields": flatten(fields)}
        following = await anext(sources[place], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following[0], place, *following[1:]))


async def _read_gates(store: Store) -> Records:
    for shard in store.layout.shards:
        async for fields in pages_of_hash(store, shard.gates):
            yield {"kind": "gates", "fields": fields}


READERS: dict[str, Callable[[Store], Records]] = {
    "hash": _read_hashes,
    "string": _read_strings,
    "gates": _read_gates,
    "job": _read_jobs,
    "entry": _read_entries,
    "letter": _read_letters,
    "inputs": _read_inputs,
    "dependents": _read_dependents,
    "arrivals": _read_arrivals,
    "effects": _read_effects,
    "outbox": _read_outboxes,
    "ledger": _read_ledgers,
}
"""Kind of record → who reads it, in the order of an export: an entry comes after its job."""
