"""Secrets in storage: which are valid when, whose they are, and that rests sign nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fleet import keep
from pydantic import SecretStr
from seeding import NOW, at_once, registration, seed

from engine.clock import ManualClock
from engine.errors import BadInput, NotFound, Unusable
from engine.keys import SECRETS
from engine.model import HttpTarget, Job, Rules
from engine.store import Store
from engine.store.changes import replace_job
from engine.store.jobs import create_jobs, delete_job, get_job
from engine.store.registering import remove_job
from engine.store.removing import remove_plain
from engine.store.secrets import (
    Owner,
    SigningSecrets,
    create_secret,
    delete_secret,
    list_secrets,
)
from engine.sweeper import Sweeper

DAY = 86_400_000
ACME = Owner.of_group("acme")
OTHER = Owner.of_group("other")
KEY = "k" * 32


def keyed(store: Store, key: str) -> Store:
    """Return the same store for a process that has a key."""
    config = store.config.model_copy(update={"secret_key": SecretStr(key)})
    return replace(store, config=config)


async def make(
    store: Store,
    owner: Owner = ACME,
    at: int = NOW,
    overlap_ms: int = DAY,
    given: bytes | None = None,
) -> bytes:
    """Return a secret that was just made."""
    return (await create_secret(store, owner, at, given=given, overlap_ms=overlap_ms))[1]


async def valid(store: Store, owner: Owner = ACME, at: int = NOW) -> list[bytes]:
    """Return what a process that knows nothing yet would sign with."""
    return await SigningSecrets(store).of(owner, at)


async def ends(store: Store, owner: Owner = ACME, at: int = NOW) -> list[int | None]:
    return [one.expires_at for one in await list_secrets(store, owner, at)]


async def job(store: Store, job_id: str = "a", created_at: int = NOW) -> Job:
    """Return a job that was just created, and is signed by its own secrets."""
    target = HttpTarget("https://a.test/", signing="job")
    made = registration(job_id, target=target)
    made = replace(made, job=replace(made.job, created_at=created_at))
    assert await create_jobs(store, [made]) == [True]
    return (await get_job(store, job_id)).job


async def signer_of(store: Store, job_id: str) -> Owner:
    """Return who signs the calls of a job, by what its target says to workers."""
    target = (await get_job(store, job_id)).job.target
    assert isinstance(target, HttpTarget)
    return Owner.of_call(job_id, target.signed_by)


async def test_two_are_valid_and_a_third_ends_the_first(any_store: Store) -> None:
    first = await make(any_store)
    assert await valid(any_store) == [first]
    assert await ends(any_store) == [None]
    second = await make(any_store, at=NOW + 1)
    assert await valid(any_store) == [second, first]
    assert await ends(any_store) == [None, NOW + 1 + DAY]
    third = await make(any_store, at=NOW + 2)
    assert await valid(any_store) == [third, second]
    assert await ends(any_store) == [None, NOW + 2 + DAY]


async def test_the_older_one_ends_after_the_overlap(any_store: Store) -> None:
    first = await make(any_store)
    second = await make(any_store, overlap_ms=1_000)
    assert await valid(any_store, at=NOW + 999) == [second, first]
    assert await valid(any_store, at=NOW + 1_000) == [second]
    assert await ends(any_store, at=NOW + 1_000) == [None]


async def test_without_an_overlap_the_older_one_ends_at_once(any_store: Store) -> None:
    await make(any_store)
    second = await make(any_store, overlap_ms=0)
    assert await valid(any_store) == [second]


async def test_a_process_that_knows_a_secret_sees_it_end(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [100.0]
    still = SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr("engine.store.secrets.time", still)
    known = SigningSecrets(any_store)
    assert await known.of(ACME, NOW) == []
    first = await make(any_store)
    assert await known.of(ACME, NOW) == [first], "that there is none is asked each time"
    second = await make(any_store, overlap_ms=1_000)
    assert await known.of(ACME, NOW) == [first], "it was looked at within this second"
    seconds[0] += 1
    assert await known.of(ACME, NOW) == [second, first]
    assert await known.of(ACME, NOW + 1_000) == [second], "an end needs no other look"


async def test_a_secret_that_is_deleted_is_gone_and_the_one_before_has_no_end(
    any_store: Store,
) -> None:
    first = await make(any_store)
    second = await make(any_store)
    [newest, oldest] = await list_secrets(any_store, ACME, NOW)
    await delete_secret(any_store, ACME, newest.id, NOW)
    assert await valid(any_store) == [first]
    assert await ends(any_store) == [None]
    with pytest.raises(NotFound):
        await delete_secret(any_store, ACME, newest.id, NOW)
    with pytest.raises(NotFound):
        await delete_secret(any_store, OTHER, oldest.id, NOW)
    await delete_secret(any_store, ACME, oldest.id, NOW)
    assert await any_store.client.hgetall(SECRETS) == {}
    assert second != first


async def test_no_two_owners_have_the_same_secret(any_store: Store) -> None:
    made = await job(any_store)
    own = Owner.of_job(made)
    secret = await make(any_store, own)
    for owner in (ACME, own):
        with pytest.raises(BadInput, match="in use already") as refused:
            await make(any_store, owner, given=secret)
        assert refused.value.field == "secret"
    assert await valid(any_store) == []


async def test_an_ended_secret_is_free_for_others(any_store: Store) -> None:
    first = await make(any_store)
    second = await make(any_store, overlap_ms=1_000)
    await make(any_store, OTHER, at=NOW + 1_000, given=first)
    assert await valid(any_store, OTHER) == [first]
    [newest] = await list_secrets(any_store, ACME, NOW)
    await delete_secret(any_store, ACME, newest.id, NOW + 1_000)
    assert await make(any_store, OTHER, given=second) == second


async def test_of_many_that_take_a_secret_at_once_one_has_it(store: Store) -> None:
    secret = bytes(32)
    owners = [Owner.of_group(f"g{n}") for n in range(10)]
    became = await asyncio.gather(
        *(make(store, owner, given=secret) for owner in owners), return_exceptions=True
    )
    assert became.count(secret) == 1
    assert sum(isinstance(one, BadInput) for one in became) == 9


async def test_secrets_made_at_once_for_one_owner_are_the_last_two(store: Store) -> None:
    made = await asyncio.gather(*(make(store) for _ in range(10)))
    left = await valid(store)
    assert len(left) == 2
    assert set(left) <= set(made)


async def test_a_deleted_jobs_secrets_go_with_it(any_store: Store) -> None:
    await make(any_store, Owner.of_job(await job(any_store)))
    await make(any_store)
    await remove_job(any_store, "a", NOW)
    names = [name.decode() for name in await any_store.client.hkeys(SECRETS)]
    assert sorted(name.partition(":")[0] for name in names) == ["group", "mark"]


async def test_what_is_left_of_a_job_signs_for_no_other_of_its_id(any_store: Store) -> None:
    """The scripts that delete a job by themselves know nothing of its secrets."""
    old = await job(any_store)
    secret = await make(any_store, Owner.of_job(old))
    known = SigningSecrets(any_store)
    assert await known.of(await signer_of(any_store, "a"), NOW) == [secret]
    await delete_job(any_store, "a")
    new = await job(any_store, created_at=NOW + 1)
    assert await known.of(await signer_of(any_store, "a"), NOW) == []
    assert await list_secrets(any_store, Owner.of_job(new), NOW) == []
    # Nor does the new one's sign what was sent for the old one.
    await make(any_store, Owner.of_job(new))
    assert await valid(any_store, Owner.of_job(old)) == []
    assert len(await valid(any_store, Owner.of_job(new))) == 1


async def test_what_is_left_of_a_job_keeps_no_secret_from_others(any_store: Store) -> None:
    secret = await make(any_store, Owner.of_job(await job(any_store)))
    await delete_job(any_store, "a")
    await make(any_store, given=secret)
    assert await valid(any_store) == [secret]


async def test_the_sweeper_drops_what_jobs_leave_that_delete_themselves(any_store: Store) -> None:
    await make(any_store, Owner.of_job(await job(any_store, "gone")))
    kept = await make(any_store, Owner.of_job(await job(any_store, "kept")))
    await make(any_store)
    await delete_job(any_store, "gone")
    clock = ManualClock(NOW)
    keeper, _ = keep(any_store, clock)
    await keeper.step()
    await Sweeper(any_store, clock, keeper).step()
    names = {name.decode() for name in await any_store.client.hkeys(SECRETS)}
    assert {name for name in names if name[:5] != "mark:"} == {"job:kept", "group:acme"}
    assert await valid(any_store, await signer_of(any_store, "kept")) == [kept]


async def test_many_jobs_that_are_deleted_together_leave_no_secrets(any_store: Store) -> None:
    for job_id in ("a", "b", "kept"):
        await make(any_store, Owner.of_job(await job(any_store, job_id)))
    await remove_plain(any_store, ["a", "b", "none"])
    names = {name.decode() for name in await any_store.client.hkeys(SECRETS)}
    assert {name for name in names if name[:5] != "mark:"} == {"job:kept"}
    await remove_plain(any_store, [])


async def test_who_signs_stays_the_same_when_a_job_is_edited(any_store: Store) -> None:
    made = await job(any_store)
    owner = await signer_of(any_store, "a")
    assert owner == Owner.of_job(made)
    for signing, group, by in (("job", None, owner), ("group", "acme", ACME)):
        stored = await get_job(any_store, "a")
        target = HttpTarget("https://b.test/", signing=signing)  # type: ignore[arg-type]
        edit = registration("a", target=target, group=group)
        edit = replace(edit, job=replace(edit.job, created_at=NOW + 5))
        await replace_job(any_store, stored, edit, NOW)
        assert await signer_of(any_store, "a") == by
    stored = await get_job(any_store, "a")
    assert isinstance(stored.job.target, HttpTarget)
    # As by a job that depended on another: what is stored is stored again.
    unsigned = registration("a", target=replace(stored.job.target, signing=None))
    await replace_job(any_store, stored, unsigned, NOW)
    assert (await get_job(any_store, "a")).job.target == HttpTarget("https://b.test/")


async def test_a_job_that_deletes_itself_is_signed_until_then(any_store: Store) -> None:
    target = HttpTarget("https://a.test/", signing="job")
    made = at_once("a", target=target, rules=Rules(delete_after_completion=True))
    await seed(any_store, made)
    secret = await make(any_store, Owner.of_job(made.job))
    assert await valid(any_store, await signer_of(any_store, "a")) == [secret]


async def test_with_a_key_secrets_are_stored_encrypted(any_store: Store) -> None:
    sealed, other = keyed(any_store, KEY), keyed(any_store, f"{'n' * 32},{KEY}")
    secret = await make(sealed)
    [row] = json.loads(await any_store.client.hget(SECRETS, "group:acme"))[1:]
    assert row[3].startswith("aesgcm:")
    assert await valid(sealed) == await valid(other) == [secret]
    for stranger in (any_store, keyed(any_store, "x" * 32)):
        with pytest.raises(Unusable, match="WATERCLOCK_SECRET_KEY"):
            await valid(stranger)
        assert len(await list_secrets(stranger, ACME, NOW)) == 1
    with pytest.raises(BadInput, match="in use already"):
        await make(other, OTHER, given=secret)


async def test_what_was_stored_before_there_was_a_key_still_signs(any_store: Store) -> None:
    first = await make(any_store)
    second = await make(keyed(any_store, KEY))
    assert await valid(keyed(any_store, KEY)) == [second, first]
    with pytest.raises(BadInput, match="in use already"):
        await make(keyed(any_store, KEY), OTHER, given=first)


async def test_a_sealed_secret_is_of_no_use_to_another_owner(any_store: Store) -> None:
    sealed = keyed(any_store, KEY)
    await make(sealed)
    stolen = await any_store.client.hget(SECRETS, "group:acme")
    await any_store.client.hset(SECRETS, "group:other", stolen)
    with pytest.raises(Unusable):
        await valid(sealed, OTHER)
    await any_store.client.hdel(SECRETS, "group:other")
