"""API keys: make, read, rotate, revoke; when they were last used; and what their groups hold.

They are few, and read whole: so looking one up takes as long whether it is there or not, and nobody
fills a cache with keys that are not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from redis.exceptions import WatchError

from engine import codec
from engine.access import DEFAULT_OVERLAP_MS, ApiKey, Quotas, Scope, check_grant
from engine.errors import Conflict, NotFound
from engine.keys import API_KEYS, API_KEYS_USED
from engine.store import Store

MOST_API_KEYS = 10_000
KEPT_EXPIRED_MS = 30 * 86_400_000
"""How long a key that has expired is still listed."""
_STAMP = b"@stamp"

Keys = dict[str, ApiKey]


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys by id, as one look found them."""

    stamp: bytes = b""
    keys: Mapping[str, ApiKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """What some groups hold together."""

    jobs: int
    payload_bytes: int


async def read_keyring(store: Store, known: Keyring | None = None) -> Keyring:
    """Return all keys. One small read while nothing has changed since `known`."""
    if known is not None:
        stamp = await store.client.hget(API_KEYS, _STAMP) or b""
        if stamp == known.stamp:
            return known
    fields = await store.client.hgetall(API_KEYS)
    stamp = fields.pop(_STAMP, b"")
    return Keyring(stamp, _load(fields))


async def create_api_key(
    store: Store,
    now: int,
    *,
    name: str,
    scopes: Iterable[Scope],
    groups: Iterable[str] | None = None,
    expires_in_ms: int | None = None,
    quotas: Quotas | None = None,
) -> tuple[ApiKey, str]:
    """Make a key; return what is stored of it, and the key itself, which nobody can read again.

    Refuses with BadInput what no key may be given, and with Conflict one key too many.
    """
    held, named = frozenset(scopes), None if groups is None else frozenset(groups)
    quotas = quotas or Quotas()
    check_grant(name, held, named, quotas)
    key_id, text = codec.mint_api_key()
    expires_at = None if expires_in_ms is None else now + expires_in_ms
    digest = codec.digest_of(text)
    key = ApiKey(key_id, name, digest, held, now, named, expires_at, None, key_id, quotas)
    await _change(store, now, lambda _: [key])
    return key, text


async def list_api_keys(store: Store) -> list[tuple[ApiKey, int | None]]:
    """Return all keys, the oldest first, each with the time of its last use."""
    pipe = store.client.pipeline(transaction=False)
    pipe.hgetall(API_KEYS)
    pipe.hgetall(API_KEYS_USED)
    fields, used = await pipe.execute()
    fields.pop(_STAMP, None)
    keys = sorted(_load(fields).values(), key=lambda key: (key.created_at, key.id))
    last = {key_id.decode(): int(at) for key_id, at in used.items()}
    return [(key, last.get(key.id)) for key in keys]


async def revoke_api_key(store: Store, key_id: str, now: int) -> None:
    """Make a key worthless, and forget it. Raises NotFound."""

    def revoke(keys: Keys) -> list[ApiKey]:
        del keys[_known(keys, key_id).id]
        return []

    await _change(store, now, revoke)


async def rotate_api_key(
    store: Store, key_id: str, now: int, *, overlap_ms: int = DEFAULT_OVERLAP_MS
) -> tuple[ApiKey, str]:
    """Make a key of the same rights, and of as long a life, that takes another's place; the old one
    is good for `overlap_ms` more. Return what is stored of the new one, and the key itself.

    Raises NotFound, and Conflict for a key that has expired.
    """
    new_id, text = codec.mint_api_key()
    made: list[ApiKey] = []

    def rotate(keys: Keys) -> list[ApiKey]:
        old = _known(keys, key_id)
        if not old.is_good(now):
            raise Conflict("this key has expired; create a new one")
        life_ms = None if old.expires_at is None else old.expires_at - old.created_at
        new = replace(
            old,
            id=new_id,
            digest=codec.digest_of(text),
            created_at=now,
            expires_at=None if life_ms is None else now + life_ms,
            rotated_from=old.id,
        )
        made[:] = [new]
        ends_at = now + overlap_ms
        return [new, replace(old, expires_at=min(ends_at, old.expires_at or ends_at))]

    await _change(store, now, rotate)
    return made[0], text


async def note_uses(store: Store, uses: Mapping[str, int]) -> None:
    """Note when keys were last used; of those that were revoked meanwhile nothing is kept."""
    ids = list(uses)
    found = await store.client.hmget(API_KEYS, ids) if ids else []
    kept = {key_id: uses[key_id] for key_id, data in zip(ids, found, strict=True) if data}
    if kept:
        await store.client.hset(API_KEYS_USED, mapping=kept)


async def read_usage(store: Store, groups: Iterable[str]) -> Usage:
    """Return what the jobs of some groups are together."""
    pipe = store.client.pipeline(transaction=False)
    named = sorted(groups)
    for shard in store.layout.shards:
        pipe.hmget(shard.groups, named)
        for group in named:
            pipe.zcard(shard.jobs_of_group(group))
    jobs = payload_bytes = 0
    for reply in await pipe.execute():
        if isinstance(reply, list):
            payload_bytes += sum(int(size) for size in reply if size)
        else:
            jobs += reply
    return Usage(jobs, payload_bytes)


async def _change(store: Store, now: int, edit: Callable[[Keys], list[ApiKey]]) -> None:
    """Write the keys that `edit` returns, and drop those that it takes out of what it is given: all
    keys as they stand when that is written."""
    async with store.client.pipeline(transaction=True) as pipe:
        while True:
            await pipe.watch(API_KEYS)
            fields = await pipe.hgetall(API_KEYS)
            fields.pop(_STAMP, None)
            keys = _load(fields)
            written = edit(keys)
            keys |= {key.id: key for key in written}
            gone = [key_id for key_id in map(bytes.decode, fields) if key_id not in keys]
            gone += [key.id for key in keys.values() if not key.is_good(now - KEPT_EXPIRED_MS)]
            if len(keys) - len(gone) > MOST_API_KEYS:
                raise Conflict(f"there are {MOST_API_KEYS} keys already; revoke some first")
            pipe.multi()
            for key in written:
                pipe.hset(API_KEYS, key.id, codec.dump_api_key(key))
            if gone:
                pipe.hdel(API_KEYS, *gone)
            # Not a count: a failover that takes changes back must not meet the same count again.
            pipe.hset(API_KEYS, _STAMP, secrets.token_hex(8))
            with suppress(WatchError):
                await pipe.execute()
                break
    if gone:
        await store.client.hdel(API_KEYS_USED, *gone)


def _known(keys: Keys, key_id: str) -> ApiKey:
    if key_id not in keys:
        raise NotFound("there is no key of this id")
    return keys[key_id]


def _load(fields: Mapping[bytes, bytes]) -> Keys:
    return {name.decode(): codec.load_api_key(name.decode(), data) for name, data in fields.items()}
