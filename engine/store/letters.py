"""Dead letters: look into, redrive, discard, and keep within bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

from engine import codec
from engine.errors import NotFound
from engine.execution import DeadLetter
from engine.keys import Shard
from engine.scripts import Call
from engine.store import Store
from engine.store.letter_search import Place, shard_of

BATCH = 100
"""Letters that one script touches."""
SWEEP_LIMIT = 1_000
"""Letters of a shard that one look finds too many."""


class Redriven(StrEnum):
    """What became of a letter that was to be redriven."""

    REDRIVEN = "redriven"
    GONE = "gone"
    """There is no such letter."""
    LIVE = "live"
    """Its execution is live already."""
    NO_JOB = "no_job"
    """Its job was deleted."""


async def get_letter(store: Store, execution_id: str) -> DeadLetter:
    """Return a dead letter with all that is kept of it. Raises NotFound."""
    shard = shard_of(store, execution_id)
    pipe = store.client.pipeline(transaction=True)
    pipe.zscore(shard.dead, execution_id)
    pipe.hgetall(shard.letter(execution_id))
    died_at, fields = await pipe.execute()
    if died_at is None:
        raise NotFound(f"there is no dead letter of {execution_id}")
    return codec.load_letter(execution_id, int(died_at), fields)


async def redrive_letters(
    store: Store, execution_ids: Iterable[str], now: int
) -> dict[str, Redriven]:
    """Give dead executions another attempt; return what became of each. They keep their ids and
    their count of attempts; sending it again redrives nothing twice."""
    calls: list[Call] = []
    batches = _batches(store, execution_ids)
    for shard, batch in batches:
        keys = [shard.dead, shard.buckets, shard.ledger]
        prefixes = [shard.job_prefix, shard.due_prefix, shard.letter_prefix]
        calls.append(("redrive_letters", keys, [now, *prefixes, store.config.ledger_limit, *batch]))
    became: dict[str, Redriven] = {}
    for (_, batch), reply in zip(batches, await store.scripts.run_all(calls), strict=True):
        for execution_id, word in zip(batch, reply, strict=True):
            became[execution_id] = Redriven(word.decode())
    return became


async def discard_letters(store: Store, places: Iterable[Place], *, by: str) -> int:
    """Throw letters away; return how many were there. One that died again meanwhile stays."""
    died_at = {execution_id: at for at, execution_id in places}
    calls: list[Call] = []
    for shard, batch in _batches(store, died_at):
        args: list[str | bytes | int] = [shard.letter_prefix, shard.inputs_prefix]
        args += [store.config.ledger_limit, by]
        for execution_id in batch:
            args += [execution_id, died_at[execution_id]]
        calls.append(("discard_letters", [shard.dead, shard.ledger], args))
    return sum(await store.scripts.run_all(calls))


async def find_surplus(store: Store, shard: Shard, now: int) -> list[Place]:
    """Return the oldest letters of a shard that are too old or too many, `SWEEP_LIMIT` at the
    most."""
    config = store.config
    pipe = store.client.pipeline(transaction=False)
    pipe.zcount(shard.dead, "-inf", f"({now - config.dead_retention_ms}")
    pipe.zcard(shard.dead)
    too_old, kept = await pipe.execute()
    room = math.ceil(config.dead_limit / len(store.layout.shards))
    surplus = min(max(too_old, kept - room), SWEEP_LIMIT)
    if surplus <= 0:
        return []
    rows = await store.client.zrange(shard.dead, 0, surplus - 1, withscores=True)
    return [(int(died_at), execution_id.decode()) for execution_id, died_at in rows]


def _batches(store: Store, execution_ids: Iterable[str]) -> list[tuple[Shard, list[str]]]:
    """Return the ids by shard, in parts that one script may touch."""
    by_shard: dict[Shard, list[str]] = {}
    for execution_id in dict.fromkeys(execution_ids):
        by_shard.setdefault(shard_of(store, execution_id), []).append(execution_id)
    return [
        (shard, ids[at : at + BATCH])
        for shard, ids in by_shard.items()
        for at in range(0, len(ids), BATCH)
    ]
