"""The secrets that sign the webhooks of a job or of a group: two at the most are valid.

All of them stand in one hash, and each change is one transaction on it, so that no secret comes to
belong to two. What belongs to a job says when that job was created: of a job that takes the id of a
deleted one nothing is signed with what is left. Such rests are dropped with the job, or when the
sweeper meets them.
"""

from __future__ import annotations

import secrets as random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import WatchError

from engine import codec
from engine.codec.secrets import (
    StoredSecret,
    StoredSecrets,
    Vault,
    dump_secrets,
    load_secrets,
    vault_of,
)
from engine.errors import BadInput, NotFound
from engine.keys import SECRETS
from engine.model import Job
from engine.store import Store
from engine.store.reports import signing_key
from engine.webhooks import new_secret

MOST_VALID = 2
LOOK_MS = 1_000
"""How old what a process knows of secrets may be."""
MOST_KNOWN = 1_000
LOOKED_AT = 100
"""Fields at which one look for rests of deleted jobs looks."""

_JOB, _MARK = "job:", "mark:"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose secrets: `job:<id>` with its `created_at`, or `group:<name>`."""

    name: str
    born: int | None = None

    @classmethod
    def of_job(cls, job: Job) -> Owner:
        return cls(_JOB + job.id, job.created_at)

    @classmethod
    def of_group(cls, group: str) -> Owner:
        return cls(f"group:{group}")

    @classmethod
    def of_call(cls, job_id: str, signed_by: str) -> Owner:
        """Return who signs a call, by its target's `signed_by`."""
        if signed_by.startswith(_JOB):
            return cls(_JOB + job_id, int(signed_by.removeprefix(_JOB)))
        return cls(signed_by)

    @property
    def seal(self) -> str:
        """What a sealed secret is bound to."""
        return f"{self.name}@{self.born}"


async def create_secret(
    store: Store, owner: Owner, now: int, *, given: bytes | None = None, overlap_ms: int
) -> tuple[StoredSecret, bytes]:
    """Add a secret, `given` or a random one; return it with its bytes, which nobody returns again.

    The one before stays valid for `overlap_ms`; any other ends. Refuses with BadInput one that
    another owner has, or this one.
    """
    secret = given or new_secret()
    vault = _vault(store)
    marks = vault.marks(secret, await signing_key(store))
    sealed = vault.seal(secret, owner.seal)
    made = StoredSecret(f"sec_{random.token_hex(8)}", now, None, sealed, marks[0])
    async with store.client.pipeline(transaction=True) as pipe:
        while True:
            await pipe.watch(SECRETS)
            held = await _held(pipe, owner.name)
            former = await _former_owners(store, pipe, marks, now)
            valid = _valid(held, owner, now)[: MOST_VALID - 1]
            older = [replace(one, expires_at=now + overlap_ms) for one in valid]
            pipe.multi()
            for name, theirs in former.items():
                left = [one for one in theirs.secrets if one.mark not in marks]
                _write(pipe, Owner(name, theirs.born), left, theirs)
            _write(pipe, owner, [made, *(one for one in older if one.is_valid(now))], held)
            pipe.hset(SECRETS, _MARK + made.mark, owner.name)
            with suppress(WatchError):
                await pipe.execute()
                return made, secret


async def list_secrets(store: Store, owner: Owner, now: int) -> list[StoredSecret]:
    """Return the valid secrets of an owner, the newest first."""
    return _valid(await _held(store.client, owner.name), owner, now)


async def delete_secret(store: Store, owner: Owner, secret_id: str, now: int) -> None:
    """End a secret at once. Where it was the newest, the one before has no end any more. Raises
    NotFound."""
    async with store.client.pipeline(transaction=True) as pipe:
        while True:
            await pipe.watch(SECRETS)
            held = await _held(pipe, owner.name)
            valid = _valid(held, owner, now)
            left = [one for one in valid if one.id != secret_id]
            if left == valid:
                raise NotFound("there is no secret of this id, or it has ended")
            pipe.multi()
            _write(pipe, owner, [replace(left[0], expires_at=None)] if left else [], held)
            with suppress(WatchError):
                await pipe.execute()
                return


async def forget_secrets(store: Store, job_ids: Sequence[str]) -> None:
    """Drop what is left of the secrets of jobs that were deleted."""
    names = [_JOB + job_id for job_id in job_ids]
    found = await store.client.hmget(SECRETS, names) if names else []
    for name, data in zip(names, found, strict=True):
        if data:
            await _drop_rest(store, name)


async def drop_rests(store: Store) -> None:
    """Look at some secrets, and drop what is left of jobs that are there no more: of those that
    deleted themselves."""
    found = await store.client.hrandfield(SECRETS, LOOKED_AT) or []
    jobs = [name.decode().removeprefix(_JOB) for name in found if name.startswith(_JOB.encode())]
    await forget_secrets(store, jobs)


class SigningSecrets:
    """What a process knows of secrets, as of a second ago at the most."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Owner, tuple[float, list[tuple[StoredSecret, bytes]]]] = {}

    async def of(self, owner: Owner, now: int) -> list[bytes]:
        """Return the valid secrets of an owner, the newest first. Raises Unusable if one cannot be
        opened."""
        until, found = self._known.get(owner, (0.0, []))
        if time.monotonic() >= until:
            vault = _vault(self._store)
            held = await list_secrets(self._store, owner, now)
            found = [(one, vault.open(one.sealed, owner.seal)) for one in held]
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            # That there is none is not kept: the first one is often made when it is missed.
            if found:
                self._known[owner] = (time.monotonic() + LOOK_MS / 1000, found)
        return [secret for one, secret in found if one.is_valid(now)]


def _vault(store: Store) -> Vault:
    key = store.config.secret_key
    return vault_of(key.get_secret_value() if key else None)


async def _held(client: Any, name: str) -> StoredSecrets | None:
    """Return all that is stored under an owner's name, whether it is valid or not."""
    data = await client.hget(SECRETS, name)
    return load_secrets(data) if data else None


def _valid(held: StoredSecrets | None, owner: Owner, now: int) -> list[StoredSecret]:
    if held is None or held.born != owner.born:
        return []
    return [one for one in held.secrets if one.is_valid(now)]


def _write(
    pipe: Any, owner: Owner, secrets: Sequence[StoredSecret], before: StoredSecrets | None
) -> None:
    """Have an owner hold `secrets`, and drop the marks of those that it held and does not hold."""
    if secrets:
        data = dump_secrets(StoredSecrets(owner.born, tuple(secrets)))
        pipe.hset(SECRETS, owner.name, data)
    else:
        pipe.hdel(SECRETS, owner.name)
    kept = {one.mark for one in secrets}
    for mark in {one.mark for one in (before.secrets if before else ())} - kept:
        pipe.hdel(SECRETS, _MARK + mark)


async def _former_owners(
    store: Store, pipe: Any, marks: Sequence[str], now: int
) -> dict[str, StoredSecrets]:
    """Return what is stored of those who had the secret of these marks, by name. Refuses with
    BadInput one that somebody has."""
    former: dict[str, StoredSecrets] = {}
    for name in await pipe.hmget(SECRETS, [_MARK + mark for mark in marks]):
        held = await _held(pipe, name.decode()) if name else None
        if held is None:
            continue
        has_it = any(one.mark in marks and one.is_valid(now) for one in held.secrets)
        if has_it and not await _is_rest(store, name.decode(), held):
            raise BadInput(
                "this secret is in use already: each job and group has secrets of its own; leave it"
                " out, and one is made",
                field="secret",
            )
        former[name.decode()] = held
    return former


async def _is_rest(store: Store, name: str, held: StoredSecrets) -> bool:
    """Return whether secrets belong to a job that is there no more."""
    if not name.startswith(_JOB):
        return False
    job_id = name.removeprefix(_JOB)
    definition = await store.client.hget(store.layout.shard_of(job_id).job(job_id), "definition")
    return definition is None or codec.load_json(definition)[0] != held.born


async def _drop_rest(store: Store, name: str) -> None:
    async with store.client.pipeline(transaction=True) as pipe:
        await pipe.watch(SECRETS)
        held = await _held(pipe, name)
        if held is None or not await _is_rest(store, name, held):
            return
        pipe.multi()
        pipe.hdel(SECRETS, name, *(_MARK + one.mark for one in held.secrets))
        # Whoever changes the hash meanwhile leaves it to the next one who looks.
        with suppress(WatchError):
            await pipe.execute()
