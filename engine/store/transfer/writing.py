"""Import: the records of an export, written into a deployment in which nothing works meanwhile.

1. The target is marked as being imported, so that no process starts or changes anything there, and
   is refused if it holds a deployment already.
2. Records are written in batches, as they come. What is rebuilt (kinds.py) is made with the job
   that it follows from.
3. Only if the last line is there, and says what was read, the deployment opens. An import that
   was interrupted begins anew: what it had written goes first; nobody can have worked with it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator

from engine import codec
from engine.errors import BadInput, Conflict, WaterclockError
from engine.keys import PREFIX
from engine.store import Store
from engine.store.freezing import SCAN_COUNT, freeze, thaw, write_phase
from engine.store.phase import Phase, read_phase
from engine.store.server import time_ms
from engine.store.transfer.kinds import Fate, kind_of
from engine.store.transfer.older import FORMATS, as_written_now
from engine.store.transfer.reading import FORMAT, Record
from engine.store.transfer.writer import Writer


async def import_lines(store: Store, lines: AsyncIterator[bytes]) -> Counter[str]:
    """Write an export into an empty deployment; return how many records there were, by kind.

    Raises Conflict if the target holds a deployment, and BadInput for an export that is not whole:
    the target then stays closed, and the import can be run again.
    """
    if not await _begin(store):
        return Counter()
    writer = Writer(store, await time_ms(store.client))
    digest, counts, is_whole = hashlib.sha256(), Counter[str](), False
    number, is_older = 0, False
    async for line in lines:
        number += 1
        try:
            record = codec.load_line(line)
            if is_whole:
                raise BadInput("there is something after the last line of the export")
            if record["kind"] == "end":
                _compare(record, number - 1, digest.hexdigest())
                is_whole = True
                continue
            if number == 1:
                is_older = _check_first(record)
            else:
                writer.add(as_written_now(record) if is_older else record, len(line))
        except (BadInput, KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"line {number}: {_said(error)}") from None
        digest.update(line)
        counts[record["kind"]] += 1
        if writer.is_full:
            await writer.flush()
    if not is_whole:
        raise BadInput(f"the export is cut off after line {number}: it has no last line")
    await writer.flush()
    await _open(store)
    del counts["deployment"]
    return counts


async def _begin(store: Store) -> bool:
    """Close the target, and return whether there is something to import: False if an earlier import
    had come to its end, all but the opening."""
    phase = await read_phase(store.client)
    if phase is Phase.OPENING:
        await _open(store)
        return False
    if phase is Phase.IMPORTING:
        await _wipe(store)
    else:
        await refuse_full(store)
        # What begins to work on the target from here on is refused; what did before is seen now.
        # Only then comes the phase in which an import may wipe what is there.
        await freeze(store, Phase.FROZEN)
        try:
            await refuse_full(store)
        except Conflict:
            await thaw(store)
            raise
    await freeze(store, Phase.IMPORTING)
    return True


async def refuse_full(store: Store) -> None:
    """Raise Conflict if a server holds a deployment that is or was in use. What an interrupted
    import has left behind is none."""
    phase = await read_phase(store.client)
    if phase in (Phase.IMPORTING, Phase.OPENING):
        return
    if found := await _first_of_a_deployment(store):
        raise Conflict(
            f"the target holds a deployment already ({found}): import into an empty server or"
            " database number"
        )


async def _open(store: Store) -> None:
    await write_phase(store, Phase.OPENING)
    await thaw(store)


async def _wipe(store: Store) -> None:
    """Delete what an interrupted import has written. The marks that it is closed stay."""
    async for names in _keys(store):
        doomed = [name for name in names if (kind := kind_of(name)) and kind.fate is not Fate.LEFT]
        if doomed:
            await store.client.unlink(*doomed)


async def _first_of_a_deployment(store: Store) -> str | None:
    """Return a key that only a deployment in use has, None if there is none. Processes that were
    started leave some others behind."""
    async for names in _keys(store):
        for name in names:
            kind = kind_of(name)
            if kind is None or (kind.fate is not Fate.LEFT and not kind.by_processes):
                return name
            if kind.how == "entry" and await store.client.xlen(name):
                return name
    return None


async def _keys(store: Store) -> AsyncIterator[list[str]]:
    cursor: int | None = None
    while cursor != 0:
        cursor, keys = await store.client.scan(cursor or 0, match=f"{PREFIX}:*", count=SCAN_COUNT)
        yield [key.decode() for key in keys]


def _check_first(record: Record) -> bool:
    """Return whether the export is of an older format."""
    if record["kind"] != "deployment":
        raise BadInput("this is no export of a deployment")
    if record["format"] not in (FORMAT, *FORMATS):
        raise BadInput(
            f"the export has format {record['format']}, and this release reads format {FORMAT}:"
            " import with the release that made it"
        )
    return bool(record["format"] != FORMAT)


def _compare(end: Record, records: int, digest: str) -> None:
    if (end["records"], end["sha256"]) != (records, digest):
        raise BadInput(
            f"the export was changed: {records} records, and not the {end['records']} that were"
            " written, or not the same ones"
        )


def _said(error: Exception) -> str:
    return error.message if isinstance(error, WaterclockError) else f"a wrong record: {error!r}"
