"""A position in the ledgers of all shards, as one word that a listener carries and brings back.

For each shard the id of the last entry that was seen. The times in them lie close together, so each
is written as what it lacks to the latest one: about six bytes a shard.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence

from engine.errors import BadInput

EntryId = tuple[int, int]
"""The id of a stream's entry: ms, and a number in it."""
Position = tuple[EntryId, ...]
"""By shard."""

BEGINNING: EntryId = (0, 0)
_MOST_CHARS = 8_192


def dump_position(position: Position) -> str:
    latest = max((ms for ms, _ in position), default=0)
    data = bytearray(_varint(latest))
    for ms, number in position:
        data += _varint(latest - ms) + _varint(number)
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def load_position(text: str, shards: int) -> Position:
    """Return the position that a word stands for. Refuses with BadInput one that is none for so
    many shards. Nobody gains by making one up: it says no more than where to begin."""
    try:
        if len(text) > _MOST_CHARS:
            raise ValueError(text)
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        latest, *rest = _numbers(data)
        if len(rest) != 2 * shards or max(rest[::2], default=0) > latest:
            raise ValueError(text)
        return tuple((latest - ago, number) for ago, number in _pairs(rest))
    except (ValueError, binascii.Error):
        raise BadInput("this is no position; send the `id` of an event as it came") from None


def load_entry_id(text: bytes) -> EntryId:
    ms, _, number = text.partition(b"-")
    return int(ms), int(number or 0)


def dump_entry_id(entry: EntryId) -> str:
    return f"{entry[0]}-{entry[1]}"


def _pairs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(numbers[::2], numbers[1::2], strict=True)


def _varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; the top bit says that more
    follow."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
        elif shift > 63:
            raise ValueError("too long")
    if shift:
        raise ValueError("cut off")
