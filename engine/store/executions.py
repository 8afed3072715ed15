"""Executions: hand them to consumers, extend and take over leases, record how they ended, read them
back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from redis.exceptions import ResponseError

from engine import codec
from engine.execution import Delivery
from engine.keys import GROUP, Shard, waiting_bucket
from engine.scripts import Call
from engine.store import BLOCK_MS, Store
from engine.store.outcomes import Result

RECLAIM_LIMIT = 100
"""Pending entries that one script looks at."""


Stream = tuple[str, Shard]
"""A ready stream: its name (queue and priority) and its shard."""


class Answer(StrEnum):
    """What became of an outcome that was reported."""

    DONE = "done"
    ALREADY = "already"
    """The same outcome was recorded under the same proof before: a repeat."""
    STALE = "stale"
    """The delivery is somebody else's by now, or has ended otherwise; nothing changed."""


_ANSWERS = {answer.encode(): answer for answer in Answer}


@dataclass(frozen=True, slots=True)
class Reclaimed:
    deliveries: list[Delivery]
    poisoned: int
    cursor: str | None
    """Where to go on in this stream; None at its end."""


async def ensure_groups(store: Store, stream: str) -> None:
    """Make the consumer group of a stream in every shard, from the first entry on, where there is
    none yet."""
    pipe = store.client.pipeline(transaction=False)
    for shard in store.layout.shards:
        pipe.xgroup_create(shard.ready(stream), GROUP, id="0", mkstream=True)
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
    by_key = {shard.ready(stream): (stream, shard) for stream, shard in streams}
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
        for stream in {stream for stream, _ in streams}:
            await ensure_groups(store, stream)
        return []
    deliveries = []
    for name, entries in reply or []:
        stream, shard = by_key[name.decode()]
        for entry_id, fields in entries:
            deliveries.append(
                codec.load_delivery(shard.index, stream, entry_id, consumer, 1, fields)
            )
    return deliveries


async def _ask(
    store: Store,
    deliveries: Sequence[Delivery],
    call: Callable[[Shard, str, str, Sequence[int]], Call],
) -> list[Any]:
    """Return what a script answers about each delivery, in their order. It is run once for those
    of one stream in one shard that one consumer has; `call` makes that call, from shard, stream,
    consumer, and the places of the deliveries."""
    groups: dict[tuple[int, str, str], list[int]] = {}
    for at, delivery in enumerate(deliveries):
        groups.setdefault((delivery.shard, delivery.queue, delivery.consumer), []).append(at)
    calls = [
        call(store.layout.shards[index], stream, consumer, places)
        for (index, stream, consumer), places in groups.items()
    ]
    answers: list[Any] = [None] * len(deliveries)
    for places, reply in zip(groups.values(), await store.scripts.run_all(calls), strict=True):
        for at, answer in zip(places, reply, strict=True):
            answers[at] = answer
    return answers


async def complete_executions(store: Store, results: Sequence[Result], now: int) -> list[Answer]:
    """Record how deliveries ended; return what became of each. Sending it again is safe."""

    def call(shard: Shard, stream: str, consumer: str, places: Sequence[int]) -> Call:
        args: list[str | bytes | int] = [consumer, now, stream, *_prefixes(store, shard)]
        for at in places:
            result = results[at]
            delivery = result.delivery
            args += [
                delivery.entry_id,
                delivery.deliveries,
                delivery.execution_id,
                delivery.attempt,
                result.outcome,
                result.detail,
                result.since,
                codec.dump_record(result.record),
                result.gave,
            ]
        return "complete_executions", _keys(shard, stream), args

    words = await _ask(store, [result.delivery for result in results], call)
    return [_ANSWERS[word] for word in words]


def _keys(shard: Shard, stream: str) -> list[str]:
    """Return the keys of scripts that end deliveries."""
    return [
        shard.ready(stream),
        shard.jobs,
        shard.buckets,
        shard.dead,
        shard.gates,
        shard.outbox,
        shard.ledger,
    ]


def _prefixes(store: Store, shard: Shard) -> list[str | bytes | int]:
    """Return what such scripts get behind what is their own."""
    return [
        shard.job_prefix,
        shard.due_prefix,
        shard.runs_prefix,
        shard.letter_prefix,
        shard.inputs_prefix,
        store.config.history_limit,
        store.config.ledger_limit,
    ]


async def heartbeat_executions(store: Store, deliveries: Sequence[Delivery]) -> list[bool]:
    """Extend the leases of deliveries; return for each whether it is still the caller's."""

    def call(shard: Shard, stream: str, consumer: str, places: Sequence[int]) -> Call:
        args: list[str | bytes | int] = [consumer]
        for at in places:
            args += [deliveries[at].entry_id, deliveries[at].deliveries]
        return "heartbeat_executions", [shard.ready(stream)], args

    return [bool(is_held) for is_held in await _ask(store, deliveries, call)]


async def hand_back_executions(
    store: Store, deliveries: Sequence[Delivery], *, lane: str = ""
) -> list[bool]:
    """Give back deliveries that were not started; return for each whether it was still the
    caller's. They are in their streams again as if nobody had read them; with `lane` they wait in
    the index for a permit of that lane."""

    def call(shard: Shard, stream: str, consumer: str, places: Sequence[int]) -> Call:
        bucket = waiting_bucket(lane, stream) if lane else ""
        args: list[str | bytes | int] = [consumer, shard.job_prefix, shard.due_prefix, bucket]
        for at in places:
            delivery = deliveries[at]
            args += [
                delivery.entry_id,
                delivery.deliveries,
                delivery.execution_id,
                delivery.attempt,
            ]
        return "hand_back_executions", [shard.ready(stream), shard.buckets, shard.gates], args

    return [bool(is_back) for is_back in await _ask(store, deliveries, call)]


async def reclaim_executions(
    store: Store,
    stream: str,
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
            _keys(shard, stream),
            [
                consumer,
                now,
                stream,
                config.execution_lease_ms,
                config.max_deliveries,
                cursor or "-",
                RECLAIM_LIMIT,
                room,
                *_prefixes(store, shard),
            ],
        )
    except ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        await ensure_groups(store, stream)
        return Reclaimed([], 0, None)
    deliveries = [
        codec.load_delivery(
            shard.index,
            stream,
            entry_id,
            consumer,
            count,
            dict(zip(flat[::2], flat[1::2], strict=True)),
        )
        for entry_id, count, flat in rows
    ]
    return Reclaimed(deliveries, poisoned, following.decode() or None)


async def forget_consumers(
    store: Store, stream: str, *, idle_ms: int, consumer: str | None = None
) -> int:
    """Remove consumers of a stream that hold nothing and were idle so long; return how many.

    With `consumer` it looks at this one alone. A group keeps every name it ever saw otherwise.
    """
    calls: list[Call] = [
        ("forget_consumers", [shard.ready(stream)], [idle_ms, consumer or ""])
        for shard in store.layout.shards
    ]
    replies = await store.scripts.run_many(calls)
    return sum(reply for reply in replies if not isinstance(reply, Exception))
