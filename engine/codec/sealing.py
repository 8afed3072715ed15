"""What only the holder of a key can read: AES-GCM. The door to the library for it."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from engine.errors import BadInput

_NONCE_BYTES = 12


def seal(key: bytes, data: bytes, bound_to: bytes = b"") -> bytes:
    """Return `data` so that only `key`, of 32 bytes, opens it, and with `bound_to`."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, bound_to)


def unseal(key: bytes, sealed: bytes, bound_to: bytes = b"") -> bytes:
    """Return what `seal` was given. Refuses with BadInput another key, or what was changed."""
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):
        raise BadInput("this was sealed with another key, or was changed since") from None
