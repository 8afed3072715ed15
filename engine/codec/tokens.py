"""Words that others carry for us, and bring back: signed, so that nobody can make one."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import astuple, dataclass

import orjson

from engine.errors import BadInput, Expired


@dataclass(frozen=True, slots=True)
class Promise:
    """What a target was asked to report on: one attempt of one execution."""

    execution_id: str
    attempt: int
    started_at: int
    expires_at: int
    """From then on the word is worth nothing."""


def dump_promise(promise: Promise, key: bytes) -> str:
    """Return the promise as one word for a URL, signed with `key` (HMAC-SHA-256)."""
    body = orjson.dumps(astuple(promise))
    return f"{_encode(body)}.{_encode(_sign(body, key))}"


def load_promise(text: str, key: bytes, now: int) -> Promise:
    """Return the promise that a word stands for. Raises BadInput if we did not sign it, Expired if
    its time is over."""
    try:
        body, signature = (_decode(part) for part in text.split("."))
        if not hmac.compare_digest(signature, _sign(body, key)):
            raise ValueError("signature")
        promise = Promise(*orjson.loads(body))
    except (ValueError, TypeError, binascii.Error):
        raise BadInput("this is no URL that a target was sent to report on") from None
    if now >= promise.expires_at:
        raise Expired("the time to report on this attempt is over")
    return promise


def _sign(body: bytes, key: bytes) -> bytes:
    return hmac.digest(key, b"promise:" + body, "sha256")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
