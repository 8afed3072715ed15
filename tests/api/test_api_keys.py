"""Keys over HTTP: made, listed, rotated, revoked; and the rates and quotas that come with them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from calling import CRON, NOW, Read, calling, create, eventually, refused
from calling import clock as clock
from calling import keyspace as keyspace
from keyed import (
    World,
    asking,
    bearer,
    job,
    make_key,
    move_to,
)
from keyed import world as world
from starlette.datastructures import Headers

from api import gate
from engine.clock import ManualClock
from engine.keys import API_KEYS, API_KEYS_USED
from engine.store import Store
from engine.store.api_keys import list_api_keys, revoke_api_key, rotate_api_key

# Keys over the API


async def test_a_key_is_shown_once_and_never_stored(
    world: World, store: Store, keyspace: Read
) -> None:
    client, admin = world.client, bearer(world.keys["admin"])
    body: dict[str, Any] = {
        "name": "ci",
        "scopes": ["write"],
        "groups": ["a"],
        "rate": 5,
        "max_jobs": 3,
    }
    answer = await client.post("/v1/keys", json=body, headers=admin)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert {name: made[name] for name in body} == body
    listed = await client.get("/v1/keys", headers=admin)
    [shown] = [key for key in listed.json()["keys"] if key["key_id"] == made["key_id"]]
    assert shown == {name: value for name, value in made.items() if name != "key"}
    secret = made["key"][-43:]
    assert secret not in listed.text
    stored = await store.client.hgetall(API_KEYS)
    assert secret.encode() not in b"".join(stored.values())
    assert (await client.get("/v1/jobs", headers=bearer(made["key"]))).status_code == 200


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"scopes": ["worker"], "groups": ["a"]}, "/groups"),
        ({"scopes": ["admin"], "groups": ["a"]}, "/groups"),
        ({"groups": []}, "/groups"),
        ({"groups": ["a b"]}, "/groups/0"),
        ({"max_jobs": 5}, "/max_jobs"),
        ({"max_payload_bytes": 5}, "/max_payload_bytes"),
        ({"burst": 5}, "/burst"),
        ({"rate": 0}, "/rate"),
        ({"expires_in_ms": 0}, "/expires_in_ms"),
        ({"name": ""}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"digest": "0"}, "/digest"),
    ],
)
async def test_a_key_that_cannot_be_is_refused_where_it_is_wrong(
    world: World, change: dict[str, Any], pointer: str
) -> None:
    body = {"name": "x", "scopes": ["read"], **change}
    answer = await world.client.post("/v1/keys", json=body, headers=bearer(world.keys["admin"]))
    problem = refused(answer, 400, "bad_input")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


async def test_a_rotated_key_is_good_beside_the_new_one_for_a_while(
    world: World, clock: ManualClock
) -> None:
    client, admin, old = world.client, bearer(world.keys["admin"]), world.keys["b"]
    path = f"/v1/keys/{old[4:20]}/rotate"
    made = await client.post(path, json={"overlap_ms": 5_000}, headers=admin)
    new = made.json()
    assert (made.status_code, new["rotated_from"]) == (201, old[4:20])
    assert (new["scopes"], new["groups"]) == (["write"], ["b"])
    for key, after, status in ((old, 4_999, 200), (old, 5_000, 401), (new["key"], 5_000, 200)):
        move_to(clock, NOW + after)
        assert (await client.get("/v1/jobs", headers=bearer(key))).status_code == status
    refused(await client.post(path, headers=admin), 409, "conflict")


async def test_keys_that_are_not_there_are_not_found(world: World) -> None:
    client, admin = world.client, bearer(world.keys["admin"])
    for key_id in ("0" * 16, "@stamp", "x"):
        for method, path in (("DELETE", ""), ("POST", "/rotate")):
            answer = await client.request(method, f"/v1/keys/{key_id}{path}", headers=admin)
            refused(answer, 404, "not_found")


async def test_a_revoked_key_is_worthless_elsewhere_after_a_second(
    world: World, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = bearer(world.keys["read"])
    async with asking(store, clock) as elsewhere:
        assert (await elsewhere.get("/v1/jobs", headers=key)).status_code == 200
        path = f"/v1/keys/{world.keys['read'][4:20]}"
        await world.client.delete(path, headers=bearer(world.keys["admin"]))
        assert (await elsewhere.get("/v1/jobs", headers=key)).status_code == 200
        monkeypatch.setattr(gate, "LOOK_S", 0)
        refused(await elsewhere.get("/v1/jobs", headers=key), 401, "unauthorized")


async def test_the_last_use_is_stored_by_a_running_api(world: World, store: Store) -> None:
    async def is_noted() -> bool:
        found = {key.id: at for key, at in await list_api_keys(store)}
        return found[world.keys["read"][4:20]] == NOW

    await world.client.get("/v1/jobs", headers=bearer(world.keys["read"]))
    await eventually(is_noted)


async def test_the_last_use_is_noted_once_a_minute(store: Store) -> None:
    key = await make_key(store, "read")
    door = gate.Gate(store.config.model_copy(update={"auth": "required"}))
    for after, noted in ((0, 0), (59_999, 0), (60_000, 60_000)):
        await door.caller(store, Headers(bearer(key)), NOW + after)
        await door.write_uses(store)
        assert [at for _, at in await list_api_keys(store)] == [NOW + noted]


async def test_rotation_keeps_one_caller(store: Store) -> None:
    first = (await make_key(store, "read"))[4:20]
    second, _ = await rotate_api_key(store, first, NOW)
    third, _ = await rotate_api_key(store, second.id, NOW)
    assert {key.caller().name for key, _ in await list_api_keys(store)} == {first}
    assert third.rotated_from == second.id


# Rates and quotas


async def test_a_rate_is_told_and_held(store: Store, clock: ManualClock) -> None:
    key = bearer(await make_key(store, "read", rate=2, burst=4))
    async with asking(store, clock) as client:
        left = []
        for _ in range(4):
            answer = await client.get("/v1/jobs", headers=key)
            assert answer.headers["ratelimit-policy"] == '"default";q=4;w=2'
            left.append(answer.headers["ratelimit"])
        assert left == [f'"default";r={r};t={t}' for r, t in ((3, 1), (2, 1), (1, 2), (0, 2))]
        answer = await client.get("/v1/jobs", headers=key)
        refused(answer, 429, "rate_limited")
        assert (answer.headers["retry-after"], answer.headers["ratelimit"][-7:]) == ("1", "r=0;t=2")
        move_to(clock, NOW + 499)
        refused(await client.get("/v1/jobs", headers=key), 429, "rate_limited")
        move_to(clock, NOW + 500)
        assert (await client.get("/v1/jobs", headers=key)).status_code == 200


async def test_refusals_tell_the_rate_too_and_keys_without_one_have_no_headers(
    store: Store, clock: ManualClock
) -> None:
    limited = bearer(await make_key(store, "read", rate=5))
    free = bearer(await make_key(store, "read"))
    async with asking(store, clock) as client:
        answer = await client.get("/v1/jobs/nobody", headers=limited)
        assert (answer.status_code, answer.headers["ratelimit"]) == (404, '"default";r=4;t=1')
        forbidden = await client.post("/v1/jobs", json=CRON, headers=limited)
        assert (forbidden.status_code, forbidden.headers["ratelimit"][:13]) == (
            403,
            '"default";r=3',
        )
        assert "ratelimit" not in (await client.get("/v1/jobs", headers=free)).headers


async def test_groups_hold_no_more_jobs_than_the_quota(store: Store, clock: ManualClock) -> None:
    key = bearer(await make_key(store, "write", groups=("a",), max_jobs=2))
    async with asking(store, clock) as client:
        for n in range(2):
            made = await client.post("/v1/jobs", json=job(f"j{n}"), headers=key)
            assert made.status_code == 201
        refused(await client.post("/v1/jobs", json=job("j2"), headers=key), 429, "quota_exceeded")
        put = await client.put("/v1/jobs/j2", json=job("j2"), headers=key)
        refused(put, 429, "quota_exceeded")
        replaced = await client.put("/v1/jobs/j1", json=job("j1", payload="x"), headers=key)
        assert replaced.status_code == 200


async def test_groups_hold_no_more_bytes_than_the_quota(store: Store, clock: ManualClock) -> None:
    key = bearer(await make_key(store, "write", groups=("a",), max_payload_bytes=20))
    async with asking(store, clock) as client:
        made = await client.post("/v1/jobs", json=job("one", payload="x" * 10), headers=key)
        assert made.status_code == 201
        for method, body in (
            ("POST", job("two", payload="x" * 10)),
            ("PATCH", {"payload": "x" * 20}),
        ):
            path = "/v1/jobs" if method == "POST" else "/v1/jobs/one"
            answer = await client.request(method, path, json=body, headers=key)
            refused(answer, 429, "quota_exceeded")
        smaller = await client.patch("/v1/jobs/one", json={"payload": "x"}, headers=key)
        assert smaller.status_code == 200


async def test_bulk_counts_each_line(store: Store, clock: ManualClock) -> None:
    key = bearer(await make_key(store, "write", groups=("a",), rate=1, burst=4, max_jobs=2))
    key["Content-Type"] = "application/x-ndjson"
    lines = [httpx.Request("POST", "http://x", json=job(f"j{n}")).content for n in range(5)]
    async with asking(store, clock) as client:
        answer = await client.post("/v1/jobs/bulk", content=b"\n".join(lines), headers=key)
    words = ["201", "201", "quota_exceeded", "rate_limited", "rate_limited"]
    for line, word in zip(answer.text.splitlines(), words, strict=True):
        assert word in line


async def test_where_no_key_is_asked_for_there_are_no_limits(
    store: Store, clock: ManualClock
) -> None:
    key = bearer(await make_key(store, "read", rate=1))
    async with calling(store.config, store, clock) as client:
        for _ in range(3):
            answer = await client.get("/v1/jobs", headers=key)
            assert answer.status_code == 200
            assert "ratelimit" not in answer.headers
        await create(client, CRON)


async def test_the_use_of_a_key_that_was_revoked_meanwhile_is_not_kept(store: Store) -> None:
    key = await make_key(store, "read")
    door = gate.Gate(store.config.model_copy(update={"auth": "required"}))
    await door.caller(store, Headers(bearer(key)), NOW)
    await revoke_api_key(store, key[4:20], NOW)
    await door.write_uses(store)
    assert not await store.client.exists(API_KEYS_USED)
