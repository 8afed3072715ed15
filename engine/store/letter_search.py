"""The search in dead letters: which are meant, in which order, and what lists show of them.

It goes from the newest to the oldest. A letter that was redriven and dies again is newer than all
that is still to come, so whoever goes through them comes to an end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Container, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from engine import codec
from engine.execution import DeadReason, Record
from engine.keys import Shard
from engine.names import split_execution_id, split_stream
from engine.store import Store

CHUNK = 250
"""Letters that one read returns."""
LOOK = 50
"""Letters that are looked into at once: each may hold many records, and all are in memory."""
SCAN_LIMIT = 10_000
"""Letters that one search looks at; it then says where to go on, whatever it found."""
Place = tuple[int, str]
"""Where a letter stands among all: when it died, and its execution's id."""


def shard_of(store: Store, execution_id: str) -> Shard:
    """Return the shard that an execution's letter lies in: its job's."""
    return store.layout.shard_of(split_execution_id(execution_id)[0])


@dataclass(frozen=True, slots=True)
class LetterLine:
    """A dead letter in a list: without target and payload, and with its last attempt alone."""

    execution_id: str
    died_at: int
    reason: DeadReason
    attempt: int
    stream: str
    last: Record | None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are meant: those for which all holds that is given."""

    job_id: str | None = None
    prefix: str | None = None
    """What the job's id begins with."""
    queue: str | None = None
    """In whichever priority."""
    reason: DeadReason | None = None
    error: str | None = None
    """A part of the last error, in upper or lower case."""
    from_at: int | None = None
    """With `to_at`, when it died; both are included."""
    to_at: int | None = None
    groups: frozenset[str] | None = None
    """Those of jobs of these groups alone."""

    @property
    def is_empty(self) -> bool:
        return self == LetterFilter()

    @property
    def looks_inside(self) -> bool:
        """Whether more than a letter's place decides."""
        return not (self.queue is None and self.reason is None and self.error is None)

    def takes_job(self, job_id: str) -> bool:
        return self.job_id in (None, job_id) and job_id.startswith(self.prefix or "")

    def takes(self, letter: LetterLine) -> bool:
        """Return whether the letter is meant, if its place and its job are."""
        said = (letter.last.error if letter.last else None) or ""
        return (
            self.queue in (None, split_stream(letter.stream)[0])
            and self.reason in (None, letter.reason)
            and (self.error or "").casefold() in said.casefold()
        )


@dataclass(frozen=True, slots=True)
class Found:
    """One part of a search."""

    places: list[Place]
    examined: int
    """How many were looked at for these."""
    after: Place | None
    """Where to go on; None at the end."""


async def find_letters(
    store: Store, asked: LetterFilter, *, after: Place | None = None, limit: int = SCAN_LIMIT
) -> Found:
    """Return the next letters that are meant, newest first: `limit` of them at the most, fewer or
    none if `SCAN_LIMIT` others came before."""
    places, examined, began = list[Place](), 0, after
    async with aclosing(_walk(store, asked, after)) as walk:
        while examined < SCAN_LIMIT:
            chunk = await _some(walk, min(CHUNK, SCAN_LIMIT - examined))
            if not chunk:
                return Found(places, examined, None)
            meant = await _meant(store, asked, chunk)
            room = limit - len(places)
            places += meant[:room]
            if len(meant) >= room:
                return Found(places, examined + chunk.index(places[-1]) + 1, places[-1])
            examined += len(chunk)
            after = chunk[-1]
    assert after is not None
    if asked.groups is None:
        return Found(places, examined, after)
    return _at_a_whole_ms(places, examined, began, after[0])


def _at_a_whole_ms(places: list[Place], examined: int, began: Place | None, last_at: int) -> Found:
    """Return a part that goes on where a millisecond begins, which names no letter: the last that
    was looked at may be of a group that is not meant."""
    going_on = (last_at + 1, "")
    if going_on == began:
        # A whole look in one millisecond: better to miss some than never to come to an end.
        return Found(places, examined, (last_at, ""))
    return Found([place for place in places if place[0] > last_at], examined, going_on)


async def _walk(store: Store, asked: LetterFilter, after: Place | None) -> AsyncGenerator[Place]:
    """Yield the places behind `after` that lie in the filter's time, newest first over all
    shards."""
    rows: dict[Shard, deque[Place]] = {}
    for shard in _shards_of(store, asked):
        if row := await _read_places(store, shard, asked, after):
            rows[shard] = row
    while rows:
        shard = max(rows, key=lambda shard: rows[shard][0])
        place = rows[shard].popleft()
        yield place
        if not rows[shard]:
            rows[shard] = await _read_places(store, shard, asked, place)
            if not rows[shard]:
                del rows[shard]


async def _some(walk: AsyncIterator[Place], most: int) -> list[Place]:
    found: list[Place] = []
    while len(found) < most and (place := await anext(walk, None)):
        found.append(place)
    return found


def _shards_of(store: Store, asked: LetterFilter) -> Sequence[Shard]:
    if asked.job_id is not None:
        return [store.layout.shard_of(asked.job_id)]
    return store.layout.shards


async def _read_places(
    store: Store, shard: Shard, asked: LetterFilter, after: Place | None
) -> deque[Place]:
    """Return the next places of a shard, none at its end."""
    lowest, highest = _span(asked, after)
    passed = 0
    while True:
        rows = await store.client.zrange(
            shard.dead,
            highest,
            lowest,
            desc=True,
            byscore=True,
            offset=passed,
            num=CHUNK,
            withscores=True,
        )
        places = ((int(died_at), execution_id.decode()) for execution_id, died_at in rows)
        # Those that died in the same millisecond stand in the order of their ids.
        found = deque(place for place in places if after is None or place < after)
        if found or len(rows) < CHUNK:
            return found
        passed += CHUNK


def _span(asked: LetterFilter, after: Place | None) -> tuple[int | str, int | str]:
    """Return the first and the last time of death that come into question."""
    tops = [at for at in (asked.to_at, after[0] if after else None) if at is not None]
    return "-inf" if asked.from_at is None else asked.from_at, min(tops, default="+inf")


async def _meant(store: Store, asked: LetterFilter, places: list[Place]) -> list[Place]:
    """Return those of the places that the filter takes."""
    kept = [place for place in places if asked.takes_job(split_execution_id(place[1])[0])]
    if asked.groups is not None:
        kept = await _of_groups(store, kept, asked.groups)
    if not asked.looks_inside:
        return kept
    return [(line.died_at, line.execution_id) for line in await read_lines(store, kept, asked)]


async def _of_groups(store: Store, places: Sequence[Place], groups: Container[str]) -> list[Place]:
    """Return the letters of jobs that are of these groups. A job that was deleted has none, and
    another one of its id has nothing to do with its letters."""
    pipe = store.client.pipeline(transaction=False)
    for _, execution_id in places:
        shard, (job_id, _) = shard_of(store, execution_id), split_execution_id(execution_id)
        pipe.hmget(shard.job(job_id), "group", "definition")
        pipe.hget(shard.letter(execution_id), "born")
    replies = iter(await pipe.execute() if places else [])
    found = []
    for place, (group, definition), born in zip(places, replies, replies, strict=True):
        if group and group.decode() in groups and definition.startswith(b"[%b," % (born or b"")):
            found.append(place)
    return found


async def read_lines(
    store: Store, places: Sequence[Place], asked: LetterFilter | None = None
) -> list[LetterLine]:
    """Return what lists show of letters, without those that are gone or that `asked` does not
    take."""
    lines = []
    for at in range(0, len(places), LOOK):
        part = places[at : at + LOOK]
        pipe = store.client.pipeline(transaction=False)
        for _, execution_id in part:
            letter = shard_of(store, execution_id).letter(execution_id)
            pipe.hmget(letter, "reason", "attempt", "queue", "attempts")
        for place, fields in zip(part, await pipe.execute(), strict=True):
            line = _line(place, *fields) if all(fields) else None
            if line and (asked is None or asked.takes(line)):
                lines.append(line)
    return lines


def _line(place: Place, reason: bytes, attempt: bytes, stream: bytes, records: bytes) -> LetterLine:
    died_at, execution_id = place
    last = codec.load_record(records.partition(b"\n")[0])
    return LetterLine(
        execution_id,
        died_at,
        DeadReason(reason.decode()),
        int(attempt),
        stream.decode(),
        last if isinstance(last, Record) else None,
    )


async def count_letters(store: Store, asked: LetterFilter, after: Place | None = None) -> int:
    """Return how many letters a search has before it, whether the filter takes them or not."""
    pipe = store.client.pipeline(transaction=False)
    for shard in _shards_of(store, asked):
        pipe.zcount(shard.dead, *_span(asked, after))
    return sum(await pipe.execute())


async def sees_letter(store: Store, execution_id: str, groups: Container[str] | None) -> bool:
    """Return whether a letter is there for who sees the jobs of these groups alone; None is all."""
    return groups is None or bool(await _of_groups(store, [(0, execution_id)], groups))
