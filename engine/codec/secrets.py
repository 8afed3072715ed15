"""What signs webhooks, as Redis holds it: encrypted where a key is configured.

A field of `wc:secrets` holds the secrets of a job or a group as JSON, the newest first:

    [born, [id, created_at, expires_at, sealed, mark], …]

`born` is the job's `created_at`, null for a group; times are ms; `expires_at` is null for one that
has no end. `sealed` is `plain:` and the secret in Base64, or `aesgcm:` and what sealing.py makes of
it, bound to its owner, so that nobody can give it to another. `mark` is a keyed hash, by which the
same secret is known again.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import lru_cache

import orjson

from engine.codec.sealing import seal, unseal
from engine.errors import BadInput, Unusable

_PLAIN, _SEALED = "plain:", "aesgcm:"


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One secret of a job or a group."""

    id: str
    created_at: int
    expires_at: int | None
    """When it ends; None for the newest, which has no end."""
    sealed: str = field(repr=False)
    mark: str = field(repr=False)

    def is_valid(self, now: int) -> bool:
        return self.expires_at is None or now < self.expires_at


@dataclass(frozen=True, slots=True)
class StoredSecrets:
    """All secrets of a job or a group, the newest first."""

    born: int | None
    secrets: tuple[StoredSecret, ...]


def dump_secrets(held: StoredSecrets) -> bytes:
    return orjson.dumps([held.born, *map(astuple, held.secrets)])


def load_secrets(data: bytes) -> StoredSecrets:
    born, *rows = orjson.loads(data)
    return StoredSecrets(born, tuple(StoredSecret(*row) for row in rows))


class Vault:
    """Seals secrets with the newest of its keys, and opens what any of them has sealed. Without
    keys secrets are stored as they are."""

    def __init__(self, keys: Sequence[str]) -> None:
        derived = [hmac.digest(key.encode(), b"waterclock secrets", "sha512") for key in keys]
        self._sealing = [key[:32] for key in derived]
        self._marking = [key[32:] for key in derived]

    def seal(self, secret: bytes, owner: str) -> str:
        """Return a secret of `owner` as it is stored."""
        if not self._sealing:
            return _PLAIN + base64.b64encode(secret).decode()
        sealed = seal(self._sealing[0], secret, owner.encode())
        return _SEALED + base64.b64encode(sealed).decode()

    def open(self, sealed: str, owner: str) -> bytes:
        """Return the secret. Raises Unusable if none of the keys is the one that sealed it for this
        owner."""
        if sealed.startswith(_PLAIN):
            return base64.b64decode(sealed.removeprefix(_PLAIN))
        data = base64.b64decode(sealed.removeprefix(_SEALED))
        for key in self._sealing:
            with suppress(BadInput):
                return unseal(key, data, owner.encode())
        has = "other keys" if self._sealing else "no key"
        raise Unusable(
            f"a secret was stored encrypted, and this process has {has}: set"
            " WATERCLOCK_SECRET_KEY as it was, the newest key first"
        )

    def marks(self, secret: bytes, usual: bytes) -> list[str]:
        """Return the marks by which a secret may be known: under each key, the newest first, and
        under the deployment's `usual` one."""
        return [
            hmac.digest(key, b"mark:" + secret, "sha256").hex()[:32]
            for key in (*self._marking, usual)
        ]


@lru_cache(maxsize=8)
def vault_of(keys: str | None) -> Vault:
    """Return the vault for the setting `secret_key`, its keys with commas between."""
    return Vault([key.strip() for key in keys.split(",")] if keys else [])
