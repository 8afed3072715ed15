"""Executions: hand them to consumers, extend and take over leases, record how they ended, read them
back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from redis.exceptions import ResponseError

from engine import codec
from engine.keys import GROUP, Shard
from engine.model import (
    Delivery,
    Outcome,
    Record,
    SkipReason,
    SkipRecord,
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

    @property
    def outcome(self) -> Outcome:
        return self.record.outcome if isinstance(self.record, Record) else Outcome.SKIPPED


def expired(delivery: Delivery) -> Result:
    """Return the end of a delivery that comes too late to be started."""
    at = delivery.nominal_at
    return Result(delivery, SkipRecord(at, at, 1, SkipReason.EXPIRED))


def ended(
    delivery: Delivery,
    *,
    succeeded: bool,
    started_at: int,
    duration_ms: int,
    now: int,
    rng: Random,
    is_final: bool = False,
    status_code: int | None = None,
    error: str | None = None,
) -> Result:
    """Return the end of an attempt: success, another attempt after its wait, or dead.

    `is_final` means that trying again cannot help; else the job's retry policy decides.
    """
    outcome, retry_at = Outcome.SUCCEEDED, None
    if not succeeded:
        delay_ms = codec.load_retry(delivery.retry).delay_ms(delivery.attempt, rng)
        outcome = Outcome.DEAD
        if delay_ms is not None and not is_final:
            outcome, retry_at = Outcome.FAILED, now + delay_ms
    record = Record(
        nominal_at=delivery.nominal_at,
        outcome=outcome,
        attempt=delivery.attempt,
        deliveries=delivery.deliveries,
        worker=delivery.consumer,
        started_at=started_at,
        duration_ms=duration_ms,
        status_code=status_code,
        error=error,
    )
    return Result(delivery, record, retry_at)


@dataclass(frozen=True, slots=True)
class Reclaimed:
    deliveries: list[Delivery]
    poisoned: int
    cursor: str | None
    """Where to go on in this stream; None at its end."""


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
                results[at].outcome,
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
