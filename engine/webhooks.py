"""Signed webhooks as the Standard Webhooks specification has them: secrets, signatures, the check.

What is signed is `<id>.<timestamp>.<body>`, with HMAC-SHA-256. Read from the left these words alone
are ambiguous: an id or a body may hold a dot and digits, and so `a` sent at `1` with body `2.x`
signs the same as `a.1` sent at `2` with body `x`. Our ids are not: each is an execution's,
`<job id>@<digits>`, with one `@` and no dot behind it, so of two that one text begins with, the
longer one would have that dot. `verify_webhook` takes no other ids. A verifier that knows nothing
of ours could still be shown a body in place of a timestamp, which is why no signed body begins with
a digit (registration.py).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as random
import time
from collections.abc import Mapping, Sequence

from engine.errors import BadInput, BadSignature
from engine.names import split_execution_id

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""Bytes of a secret."""
NEW_BYTES = 32
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE_MS = 300_000
MOST_SIGNATURES = 16
MOST_SIGNATURE_CHARS = 2_048

_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def new_secret() -> bytes:
    """Return a random secret."""
    return random.token_bytes(NEW_BYTES)


def secret_text(secret: bytes) -> str:
    """Return a secret as it is handed over: `whsec_` and Base64."""
    return PREFIX + base64.b64encode(secret).decode()


def parse_secret(text: str) -> bytes:
    """Return the bytes of a secret. Refuses with BadInput what is none, without repeating it."""
    try:
        if not text.startswith(PREFIX):
            raise ValueError
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise BadInput(
            f"a secret is `{PREFIX}` and Base64; leave it out, and one is made", field="secret"
        ) from None
    if not SHORTEST <= len(secret) <= LONGEST:
        raise BadInput(
            f"a secret has {SHORTEST} to {LONGEST} bytes, this one {len(secret)}; leave it out,"
            " and one is made",
            field="secret",
        )
    return secret


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature for each secret, in their order.
    `timestamp` is in seconds."""
    content = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(f"v1,{_mac(secret, content)}" for secret in secrets)


def verify_webhook(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: int | None = None,
    tolerance_ms: int = TOLERANCE_MS,
) -> str:
    """Return the id of a webhook that Waterclock has signed with one of `secrets`: the execution's,
    under which it may come again.

    `body` is the body as it came, before any parser; upper and lower case of headers are one. `now`
    is in ms, the machine's clock unless given. Raises BadSignature, whose `field` is the header
    that is wrong: for another signature, and for a time further from now than `tolerance_ms`, in
    either direction. Raises BadInput for what is no secret. Takes as long for a wrong signature as
    for a right one, however many are sent.
    """
    keys = [parse_secret(text) for text in ([secrets] if isinstance(secrets, str) else secrets)]
    if not keys:
        raise BadInput("give at least one secret")
    given = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at = _id_in(given), _timestamp_in(given)
    signatures = _signatures_in(given)
    now_ms = time.time_ns() // 1_000_000 if now is None else now
    if abs(now_ms - sent_at * 1000) > tolerance_ms:
        which = "too old" if sent_at * 1000 < now_ms else "in the future"
        raise BadSignature(f"the webhook's time is {which}", field=TIMESTAMP)
    content = b"%s.%s.%s" % (message_id.encode(), given[TIMESTAMP].encode(), body)
    is_signed = False
    for expected in [_mac(key, content).encode() for key in keys]:
        for signature in signatures:
            is_signed |= hmac.compare_digest(expected, signature)
    if not is_signed:
        raise BadSignature("no signature is one of these secrets'", field=SIGNATURE)
    return message_id


def _mac(secret: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, content, "sha256")).decode()


def _id_in(headers: Mapping[str, str]) -> str:
    message_id = headers.get(ID, "")
    try:
        split_execution_id(message_id)
    except BadInput:
        raise BadSignature("this is not the id of an execution", field=ID) from None
    return message_id


def _timestamp_in(headers: Mapping[str, str]) -> int:
    text = headers.get(TIMESTAMP, "")
    if not _TIMESTAMP.fullmatch(text):
        raise BadSignature("this is no time in seconds", field=TIMESTAMP)
    return int(text)


def _signatures_in(headers: Mapping[str, str]) -> list[bytes]:
    """Return the signatures of version 1; those of other versions say nothing to us."""
    text = headers.get(SIGNATURE, "")
    if len(text) > MOST_SIGNATURE_CHARS or text.count(" ") >= MOST_SIGNATURES:
        raise BadSignature(f"more than {MOST_SIGNATURES} signatures", field=SIGNATURE)
    parts = (part.partition(",") for part in text.split(" "))
    found = [mac.encode(errors="replace") for version, _, mac in parts if version == "v1"]
    if not found:
        raise BadSignature("there is no signature of version v1", field=SIGNATURE)
    return found
