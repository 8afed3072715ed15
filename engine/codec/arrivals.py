"""What a job has heard of its upstream jobs (lua/lib/arrivals.lua), and what jobs give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from engine.errors import BadInput
from engine.model import MAX_RESULT_BYTES


@dataclass(frozen=True, slots=True)
class Heard:
    """What a job has heard of one upstream job."""

    is_met: bool
    """False: the condition cannot be met any more, unless that one runs again."""
    outcome: str
    result: bytes = b""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a job has heard for one time."""

    heard: Mapping[str, Heard]
    is_open: bool
    """The job waits for more: it has neither fired, nor been told that it will not."""


def load_arrivals(fields: Mapping[bytes, bytes]) -> Arrivals:
    """Return what a hash of arrivals holds."""
    heard = {}
    for name, value in fields.items():
        if not name.startswith(b"@"):
            outcome, _, result = value[1:].partition(b" ")
            heard[name.decode()] = Heard(value.startswith(b"+"), outcome.decode(), result)
    return Arrivals(heard, is_open=bool(fields) and b"@state" not in fields)


def dump_result(value: object) -> bytes:
    """Return what an execution gives as compact JSON; nothing for None. Refuses with BadInput what
    is not JSON, and what is over `MAX_RESULT_BYTES`."""
    if value is None:
        return b""
    try:
        data = orjson.dumps(value)
    except TypeError as error:
        raise BadInput(f"a result must be JSON: {error}", field="result") from None
    if len(data) > MAX_RESULT_BYTES:
        raise BadInput(
            f"a result has {MAX_RESULT_BYTES} bytes at the most, and this one has {len(data)}; keep"
            " it elsewhere, and give where",
            field="result",
        )
    return data
