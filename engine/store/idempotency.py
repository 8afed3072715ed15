"""Requests that must not be carried out twice: each known by a key that its caller chose."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from engine.keys import request_key
from engine.store import Store

LEASE_MS = 60_000
"""How long a request stays with a process that does not say that it goes on."""


class Standing(StrEnum):
    """How a request stands."""

    BEGUN = "begun"
    """It is ours to carry out."""
    AGAIN = "again"
    """It is ours; one that began it before us has gone, and may have carried it out."""
    PENDING = "pending"
    CONFLICT = "conflict"
    """Its key stands for another request."""
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Begun:
    standing: Standing
    answer: bytes = b""


async def begin_request(store: Store, digest: str, fingerprint: str, nonce: str, now: int) -> Begun:
    """Begin a request, or go on with one that this `nonce` has begun; return how it stands."""
    reply: list[bytes] = await store.scripts.run(
        "begin_request",
        [request_key(digest)],
        [fingerprint, nonce, now, now + LEASE_MS, store.config.idempotency_ms],
    )
    return Begun(Standing(reply[0].decode()), *reply[1:])


async def end_request(store: Store, digest: str, nonce: str, answer: bytes) -> bool:
    """Keep the answer of a request, or with b"" forget it; return False if another process carries
    it out by now."""
    kept: int = await store.scripts.run(
        "end_request", [request_key(digest)], [nonce, answer, store.config.idempotency_ms]
    )
    return kept == 1
