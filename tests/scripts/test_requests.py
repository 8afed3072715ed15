"""begin_request and end_request: of all that are sent a request, one process carries it out."""

from __future__ import annotations

from engine.keys import request_key
from engine.store import Store
from engine.store.idempotency import LEASE_MS, Begun, Standing, begin_request, end_request

NOW = 1_800_000_000_000


async def begin(store: Store, nonce: str, now: int = NOW, fingerprint: str = "f") -> Begun:
    return await begin_request(store, "d1", fingerprint, nonce, now)


async def held(store: Store) -> dict[str, str]:
    fields = await store.client.hgetall(request_key("d1"))
    return {name.decode(): value.decode() for name, value in fields.items()}


async def test_one_of_two_carries_it_out(any_store: Store) -> None:
    assert (await begin(any_store, "a")).standing is Standing.BEGUN
    assert (await begin(any_store, "b")).standing is Standing.PENDING
    until = str(NOW + LEASE_MS)
    assert await held(any_store) == {"fingerprint": "f", "nonce": "a", "until": until}
    left_ms = await any_store.client.pttl(request_key("d1"))
    kept_ms = any_store.config.idempotency_ms
    assert kept_ms - 60_000 < left_ms <= kept_ms


async def test_who_goes_on_keeps_it(any_store: Store) -> None:
    await begin(any_store, "a")
    assert (await begin(any_store, "a", NOW + 20_000)).standing is Standing.BEGUN
    assert (await begin(any_store, "b", NOW + LEASE_MS)).standing is Standing.PENDING


async def test_who_fell_silent_is_followed_by_one_who_knows_of_it(any_store: Store) -> None:
    await begin(any_store, "a")
    assert (await begin(any_store, "b", NOW + LEASE_MS)).standing is Standing.AGAIN
    assert (await begin(any_store, "c", NOW + LEASE_MS)).standing is Standing.PENDING
    before = await held(any_store)
    assert not await end_request(any_store, "d1", "a", b"late")
    assert await held(any_store) == before


async def test_the_answer_is_kept_and_given_to_all(any_store: Store) -> None:
    await begin(any_store, "a")
    assert await end_request(any_store, "d1", "a", b"\x00answer")
    assert await begin(any_store, "b") == Begun(Standing.ANSWERED, b"\x00answer")
    assert await begin(any_store, "a") == Begun(Standing.ANSWERED, b"\x00answer")
    assert not await end_request(any_store, "d1", "a", b"another")
    assert not await end_request(any_store, "d1", "a", b"")
    assert await begin(any_store, "b") == Begun(Standing.ANSWERED, b"\x00answer")


async def test_another_request_under_the_key_is_a_conflict(any_store: Store) -> None:
    await begin(any_store, "a")
    before = await held(any_store)
    later = NOW + LEASE_MS
    assert (await begin(any_store, "b", later, "g")).standing is Standing.CONFLICT
    assert await held(any_store) == before
    await end_request(any_store, "d1", "a", b"answer")
    assert (await begin(any_store, "b", later, "g")).standing is Standing.CONFLICT


async def test_what_changed_nothing_is_forgotten(any_store: Store) -> None:
    await begin(any_store, "a")
    assert await end_request(any_store, "d1", "a", b"")
    assert await held(any_store) == {}
    assert (await begin(any_store, "b", NOW, "g")).standing is Standing.BEGUN
