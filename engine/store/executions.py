"""Executions: hand them to consumers, extend and take over leases, record how they ended, read them
back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from redis.exceptions import ResponseError

from engine import codec
from engine.errors import NotFound
from engine.keys import GROUP, Shard
from engine.model import (
    Delivery,
    ExecutionState,
    LiveExecution,
    Outcome,
    Record,
    SkipReason,
    SkipRecord,
    execution_id,
)
from engine.scripts import Call
from engine.store import BLOCK_MS, Store

RECLAIM_LIMIT = 100
"""Pending entries that one script looks at."""


Stream = tuple[str, Shard]
"""A queue's ready stream in one shard."""


class Answer(StrEnum):
    """What became of an outcome that was reported."""

    DONE = "done"
    ALREADY = "already"
    """The same outcome was recorded under the same proof before: a repeat."""
    STALE = "stale"
    """The delivery is somebody else's by now, or has ended otherwise; nothing changed."""


@dataclass(frozen=True, slots=True)
class Result:
    """How one delivery ended. `retry_at` is set exactly when the outcome is `failed`."""

    delivery: Delivery
    record: Record | SkipRecord
    retry_at: int | None = None


def expired(delivery: Delivery) -> Result:
    """Return the end of a delivery that comes too late to be started."""
    at = delivery.nominal_at
    return Result(delivery, SkipRecord(at, at, 1, SkipReason.EXPIRED))


@dataclass(frozen=True, slots=True)
class Reclaimed:
    deliveries: list[Delivery]
    poisoned: int
    cursor: str | None
    """Where to go on in this stream; None at its end."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution as the API shows it: its state, and its attempts that have ended, newest first.

    For `skipped` times there are no attempts and `skipped` says which times and why.
    """

    job_id: str
    nominal_at: int
    state: ExecutionState
    attempt: int
    attempts: list[Record]
    retry_at: int | None = None
    worker: str | None = None
    skipped: SkipRecord | None = None


async def ensure_groups(store: Store, queue: str) -> None:
    """Make the consumer group of a queue in every shard, from the first entry on, where there is
    none yet."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xgroup_create(shard.ready(queue), GROUP, id="0", mkstream=True)
    for reply in await pipe.execute(raise_on_error=False):
        if isinstance(reply, Exception) and not str(reply).startswith("BUSYGROUP"):
            raise reply


async def read_ready(
    store: Store, streams: Sequence[Stream], consumer: str, count: int, *, block: bool
) -> list[Delivery]:
    """Return new deliveries from ready streams: at most `count` from each.

    With `block` it waits for the first one, half a second at the most. Makes groups that are
    missing.
    """
    client = store.reader if block else store.client
    by_key = {shard.ready(queue): (queue, shard) for queue, shard in streams}
    try:
        reply = await client.xreadgroup(
            GROUP,
            consumer,
            dict.fromkeys(by_key, ">"),
            count=count,
            block=BLOCK_MS if block else None,
        )
    except ResponseError as error:
        if not str(error).startswith("NOGROUP"):
            raise
        for queue in {queue for queue, _ in streams}:
            await ensure_groups(store, queue)
        return []
    deliveries = []
    for name, entries in reply or []:
        queue, shard = by_key[name.decode()]
        for entry_id, fields in entries:
            deliveries.append(
                codec.load_delivery(shard.index, queue, entry_id, consumer, 1, fields)
            )
    return deliveries


def _by_stream(deliveries: Iterable[tuple[int, Delivery]]) -> dict[tuple[int, str, str], list[int]]:
    """Return the places of deliveries by (shard, queue, consumer): what one script call may
    touch."""
    groups: dict[tuple[int, str, str], list[int]] = {}
    for at, delivery in deliveries:
        groups.setdefault((delivery.shard, delivery.queue, delivery.consumer), []).append(at)
    return groups


async def complete_executions(store: Store, results: Sequence[Result], now: int) -> list[Answer]:
    """Record how deliveries ended; return what became of each. Sending it again is safe."""
    groups = _by_stream(enumerate(result.delivery for result in results))
    calls: list[Call] = []
    for (index, queue, consumer), places in groups.items():
        shard = store.layout.shards[index]
        args: list[str | bytes | int] = [
            consumer,
            now,
            shard.job_prefix,
            shard.due_prefix,
            shard.runs_prefix,
            store.config.history_limit,
            store.config.ledger_limit,
        ]
        for at in places:
            delivery, record = results[at].delivery, results[at].record
            args += [
                delivery.entry_id,
                delivery.deliveries,
                delivery.execution_id,
                delivery.attempt,
                record.outcome if isinstance(record, Record) else Outcome.SKIPPED,
                "" if results[at].retry_at is None else str(results[at].retry_at),
                codec.dump_record(record),
            ]
        keys = [shard.ready(queue), shard.jobs, shard.buckets, shard.dead, shard.ledger]
        calls.append(("complete_executions", keys, args))
    answers = [Answer.STALE] * len(results)
    for places, reply in zip(groups.values(), await store.scripts.run_many(calls), strict=True):
        if isinstance(reply, Exception):
            raise reply
        for at, word in zip(places, reply, strict=True):
            answers[at] = Answer(word.decode())
    return answers


async def heartbeat_executions(store: Store, deliveries: Sequence[Delivery]) -> list[bool]:
    """Extend the leases of deliveries; return for each whether it is still the caller's."""
    groups = _by_stream(enumerate(deliveries))
    calls: list[Call] = []
    for (index, queue, consumer), places in groups.items():
        args: list[str | bytes | int] = [consumer]
        for at in places:
            args += [deliveries[at].entry_id, deliveries[at].deliveries]
        calls.append(("heartbeat_executions", [store.layout.shards[index].ready(queue)], args))
    held = [False] * len(deliveries)
    for places, reply in zip(groups.values(), await store.scripts.run_many(calls), strict=True):
        if isinstance(reply, Exception):
            raise reply
        for at, is_held in zip(places, reply, strict=True):
            held[at] = bool(is_held)
    return held


async def reclaim_executions(
    store: Store,
    queue: str,
    shard: Shard,
    consumer: str,
    now: int,
    *,
    cursor: str | None = None,
    room: int = RECLAIM_LIMIT,
) -> Reclaimed:
    """Take over deliveries of one stream whose lease ran out, `room` at the most.

    Looks at a bounded number of pending entries, from `cursor` on.
    """
    config = store.config
    try:
        following, poisoned, *rows = await store.scripts.run(
            "reclaim_executions",
            [shard.ready(queue), shard.jobs, shard.buckets, shard.dead, shard.ledger],
            [
                consumer,
                now,
                config.execution_lease_ms,
                config.max_deliveries,
                cursor or "-",
                RECLAIM_LIMIT,
                room,
                shard.job_prefix,
                shard.due_prefix,
                shard.runs_prefix,
                config.history_limit,
                config.ledger_limit,
            ],
        )
    except ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        await ensure_groups(store, queue)
        return Reclaimed([], 0, None)
    deliveries = [
        codec.load_delivery(
            shard.index,
            queue,
            entry_id,
            consumer,
            count,
            dict(zip(flat[::2], flat[1::2], strict=True)),
        )
        for entry_id, count, flat in rows
    ]
    return Reclaimed(deliveries, poisoned, following.decode() or None)


async def forget_consumers(
    store: Store, queue: str, *, idle_ms: int, consumer: str | None = None
) -> int:
    """Remove consumers of a queue that hold nothing and were idle so long; return how many.

    With `consumer` it looks at this one alone. A group keeps every name it ever saw otherwise.
    """
    calls: list[Call] = [
        ("forget_consumers", [shard.ready(queue)], [idle_ms, consumer or ""])
        for shard in store.layout.shards
    ]
    replies = await store.scripts.run_many(calls)
    return sum(reply for reply in replies if not isinstance(reply, Exception))


async def list_executions(store: Store, job_id: str) -> list[Execution]:
    """Return the executions of a job that are live or in its history, newest nominal time first.
    Raises NotFound."""
    shard = store.layout.shard_of(job_id)
    pipe = store.client.pipeline(transaction=False)
    pipe.hgetall(shard.job(job_id))
    pipe.lrange(shard.runs(job_id), 0, -1)
    fields, lines = await pipe.execute()
    if not fields:
        raise NotFound(f"there is no job {job_id}")
    queue = fields[b"queue"].decode()
    live = {execution.nominal_at: execution for execution in codec.load_live(fields)}
    workers = await _read_workers(store, shard.ready(queue), list(live.values()))
    records: dict[int, list[Record]] = {nominal_at: [] for nominal_at in live}
    executions = []
    for record in map(codec.load_record, lines):
        if isinstance(record, SkipRecord):
            state = ExecutionState.SKIPPED
            executions.append(Execution(job_id, record.first_at, state, 0, [], skipped=record))
        else:
            records.setdefault(record.nominal_at, []).append(record)
    for nominal_at, attempts in records.items():
        executions.append(
            _ended(job_id, nominal_at, attempts)
            if nominal_at not in live
            else _alive(job_id, live[nominal_at], attempts, workers.get(nominal_at))
        )
    return sorted(executions, key=lambda e: e.nominal_at, reverse=True)


async def _read_workers(store: Store, ready: str, live: Sequence[LiveExecution]) -> dict[int, str]:
    """Return by nominal time who holds the delivery of each execution that has one."""
    offered = [execution for execution in live if execution.entry_id]
    if not offered:
        return {}
    pipe = store.client.pipeline(transaction=False)
    for execution in offered:
        pipe.xpending_range(ready, GROUP, execution.entry_id, execution.entry_id, 1)
    replies = await pipe.execute(raise_on_error=False)  # no group yet: nobody has read
    return {
        execution.nominal_at: reply[0]["consumer"].decode()
        for execution, reply in zip(offered, replies, strict=True)
        if reply and not isinstance(reply, Exception)
    }


def _alive(
    job_id: str, live: LiveExecution, attempts: list[Record], worker: str | None
) -> Execution:
    state = ExecutionState.WAITING
    if worker is not None:
        state = ExecutionState.RUNNING
    elif live.due_at is not None and attempts:
        state = ExecutionState.RETRYING
    return Execution(
        job_id, live.nominal_at, state, live.attempt, attempts, retry_at=live.due_at, worker=worker
    )


def _ended(job_id: str, nominal_at: int, attempts: list[Record]) -> Execution:
    # A record of `failed` with nothing live behind it: the job was changed by hand; the last word
    # stands as dead.
    newest = attempts[0]
    state = ExecutionState.SUCCEEDED if newest.outcome is Outcome.SUCCEEDED else ExecutionState.DEAD
    return Execution(job_id, nominal_at, state, newest.attempt, attempts)


def id_of(execution: Execution) -> str:
    return execution_id(execution.job_id, execution.nominal_at)
