"""Outboxes: ends of executions on their way to the jobs that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.keys import Shard
from engine.scripts import Call
from engine.store import BLOCK_MS, Store

READ_MOST = 100
"""Entries of one outbox that a read takes."""
TELL_MOST = 100
"""Dependents that one script tells."""
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Ending:
    """How an execution of a job ended, as its shard's outbox holds it."""

    entry: str
    job_id: str
    time: str
    """The nominal time, which is that of its root too."""
    outcome: str
    """succeeded, dead, cancelled, skipped, or upstream_failed (lua/lib/outbox.lua)."""
    cause: str
    """The execution that failed, here or further up; '' if none did."""
    result: bytes
    """What it gave, as JSON; empty for nothing."""
    again: bytes = b""
    """1 if it had ended before, and was redriven or run anew."""


async def read_outboxes(
    store: Store, shards: Sequence[Shard], *, block: bool = True
) -> list[tuple[Shard, list[Ending]]]:
    """Return what the outboxes of `shards` hold, oldest first, `READ_MOST` each. With `block` it
    waits for a first one, half a second at the most. Reading takes nothing out."""
    client = store.reader if block else store.client
    by_key = {shard.outbox: shard for shard in shards}
    reply = await client.xread(
        dict.fromkeys(by_key, "0"), count=READ_MOST, block=BLOCK_MS if block else None
    )
    return [
        (
            by_key[key.decode()],
            [
                Ending(
                    entry.decode(),
                    fields[b"job"].decode(),
                    fields[b"time"].decode(),
                    fields[b"outcome"].decode(),
                    fields[b"cause"].decode(),
                    fields[b"result"],
                    fields[b"again"],
                )
                for entry, fields in entries
            ],
        )
        for key, entries in reply or []
    ]


async def read_dependents(store: Store, job_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the jobs that depend on each of `job_ids`."""
    found: dict[str, list[str]] = {job_id: [] for job_id in job_ids}
    after = dict.fromkeys(found, "-")
    while after:
        pipe = store.client.pipeline(transaction=False)
        for job_id, start in after.items():
            dependents = store.layout.shard_of(job_id).dependents(job_id)
            pipe.zrange(dependents, start, "+", bylex=True, offset=0, num=PAGE)
        pages = dict(zip(after, await pipe.execute(), strict=True))
        for job_id, page in pages.items():
            found[job_id] += [dependent.decode() for dependent in page]
        after = {j: f"({found[j][-1]}" for j, page in pages.items() if len(page) == PAGE}
    return found


async def deliver_upstreams(
    store: Store, source: Shard, tellings: Sequence[tuple[Shard, str, Ending]], now: int
) -> list[str]:
    """Tell dependents, each (its shard, its id) once, how executions of jobs of `source` ended;
    return the script's word for each, by shard. Sending it again is safe."""
    by_shard: dict[Shard, list[tuple[str, Ending]]] = {}
    for shard, dependent, ending in tellings:
        by_shard.setdefault(shard, []).append((dependent, ending))
    calls: list[Call] = []
    for shard, told in by_shard.items():
        for start in range(0, len(told), TELL_MOST):
            args: list[str | bytes | int] = [
                now,
                source.index,
                shard.job_prefix,
                shard.due_prefix,
                shard.ready_prefix,
                shard.runs_prefix,
                shard.arrivals_prefix,
                shard.inputs_prefix,
                store.max_ready,
                store.config.history_limit,
                store.config.ledger_limit,
            ]
            for dependent, ending in told[start : start + TELL_MOST]:
                args += [
                    ending.entry,
                    ending.job_id,
                    ending.time,
                    ending.outcome,
                    ending.cause,
                    ending.result,
                    ending.again,
                    dependent,
                ]
            keys = [
                shard.jobs,
                shard.buckets,
                shard.gates,
                shard.awaiting,
                shard.outbox,
                shard.ledger,
            ]
            calls.append(("deliver_upstreams", keys, args))
    return [word.decode() for reply in await store.scripts.run_all(calls) for word in reply]


async def drop_endings(store: Store, shard: Shard, endings: Sequence[Ending]) -> None:
    """Take entries out of an outbox: all dependents have heard of them."""
    await store.client.xdel(shard.outbox, *(ending.entry for ending in endings))
