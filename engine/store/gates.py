"""The gates of shards: look at them, and grant permits (lua/lib/gates.lua says what is in them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import Fenced
from engine.keys import Shard
from engine.scripts import Call
from engine.store import Store

SURVEY_LIMIT = 1_000
"""Buckets that one script looks at."""
SURVEY_PAGES = 10
"""Scripts that one survey of a shard sends at the most."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What one shard's gates hold, and what waits at them."""

    fields: Mapping[str, int]
    """`slots:<lane>`, `tokens:<lane>`, `live:<lane>`, `full:<lane>`, `fair:<queue>`, `token`."""
    waiting: Mapping[str, int]
    """Bucket, `@<lane>` or `@<stream>`, to how many wait in it."""
    buckets: int
    """How many such buckets there are; `waiting` has `SURVEY_PAGES * SURVEY_LIMIT` at the most."""
    unread: Mapping[str, int]
    """Stream to entries that no consumer has, for the streams that were asked for."""


async def survey_gates(store: Store, streams: Sequence[str] = ()) -> list[Survey | Exception]:
    """Return what each shard's gates hold; an exception where a look failed. Changes nothing."""
    shards = store.layout.shards
    replies = await store.scripts.run_many([_look(shard, 0, streams) for shard in shards])
    found = [reply if isinstance(reply, Exception) else _read(reply, streams) for reply in replies]
    for index, survey in enumerate(found):
        if isinstance(survey, Survey) and survey.buckets > SURVEY_LIMIT:
            found[index] = await _read_on(store, shards[index], survey)
    return found


async def _read_on(store: Store, shard: Shard, survey: Survey) -> Survey | Exception:
    """Return a survey with the buckets that its first look had no room for."""
    until = min(survey.buckets, SURVEY_PAGES * SURVEY_LIMIT)
    calls = [_look(shard, first, ()) for first in range(SURVEY_LIMIT, until, SURVEY_LIMIT)]
    waiting = dict(survey.waiting)
    for reply in await store.scripts.run_many(calls):
        if isinstance(reply, Exception):
            return reply
        waiting |= _read(reply, ()).waiting
    return Survey(survey.fields, waiting, survey.buckets, survey.unread)


def _look(shard: Shard, first: int, streams: Sequence[str]) -> Call:
    return (
        "survey_gates",
        [shard.gates, shard.buckets],
        [shard.due_prefix, shard.ready_prefix, first, SURVEY_LIMIT, *streams],
    )


def _read(reply: Any, streams: Sequence[str]) -> Survey:
    flat, waiting, buckets, unread = reply
    return Survey(
        {name.decode(): int(value) for name, value in zip(flat[::2], flat[1::2], strict=True)},
        {name.decode(): n for name, n in zip(waiting[::2], waiting[1::2], strict=True)},
        buckets,
        dict(zip(streams, unread, strict=True)),
    )


async def grant_permits(
    store: Store, changes: Sequence[tuple[Shard, Mapping[str, str]]], token: str
) -> list[Exception | None]:
    """Change the gates of shards: by field `+n` or `-n` to add, `n` to set it unless it is there,
    `''` to remove it. Return what each shard failed with; None where its changes are made.

    Raises Fenced if another process grants by now.
    """
    calls: list[Call] = []
    for shard, fields in changes:
        flat = [part for pair in fields.items() for part in pair]
        calls.append(("grant_permits", [shard.gates], [token, *flat]))
    replies = await store.scripts.run_many(calls)
    for reply in replies:
        if isinstance(reply, Fenced):
            raise reply
    return [reply if isinstance(reply, Exception) else None for reply in replies]
