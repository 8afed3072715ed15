"""API keys: new ones, what is kept of their secrets, and the records in Redis."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import asdict

import orjson

from engine.access import API_KEY, ApiKey, Quotas, Scope

_NOBODY = "0" * 64
"""What the secret of a key that is not there is compared with."""


def mint_api_key() -> tuple[str, str]:
    """Return the id of a new key, and the key itself, which holds the secret."""
    key_id = secrets.token_hex(8)
    return key_id, f"wck_{key_id}_{secrets.token_urlsafe(32)}"


def digest_of(text: str) -> str:
    """Return what is kept of a key: its SHA-256, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def id_of_api_key(text: str) -> str | None:
    """Return the public part of a key, None for what is no key."""
    found = API_KEY.fullmatch(text)
    return found[1] if found else None


def proves(text: str, key: ApiKey | None) -> bool:
    """Return whether a text is the key. As slow for no such key as for a wrong secret, wherever
    they differ."""
    is_same = hmac.compare_digest(digest_of(text), key.digest if key else _NOBODY)
    return is_same and key is not None


def dump_api_key(key: ApiKey) -> bytes:
    """Return the record of a key as JSON, without its id."""
    fields = asdict(key)
    del fields["id"]
    fields["scopes"] = sorted(key.scopes)
    fields["groups"] = None if key.groups is None else sorted(key.groups)
    return orjson.dumps(fields)


def load_api_key(key_id: str, data: bytes) -> ApiKey:
    fields = orjson.loads(data)
    groups = fields.pop("groups")
    return ApiKey(
        **fields
        | {
            "id": key_id,
            "scopes": frozenset(map(Scope, fields["scopes"])),
            "groups": None if groups is None else frozenset(groups),
            "quotas": Quotas(**fields["quotas"]),
        }
    )
