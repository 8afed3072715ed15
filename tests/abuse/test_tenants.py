"""Tenants, and callers without a good key: rows 98 to 102 and 108 of the list of abuses.

Tenants are groups of keys here.

Who sees what of others is walked operation by operation in tests/api/test_api_access.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from burying import delivered, die
from calling import AT_ONCE, CRON, NOW, Read, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace
from keyed import asking, bearer, make_key
from test_api_server import serving

from engine.clock import ManualClock
from engine.store import Store
from engine.store.api_keys import revoke_api_key


@asynccontextmanager
async def tenants(
    store: Store, clock: ManualClock
) -> AsyncIterator[tuple[httpx.AsyncClient, dict[str, str], dict[str, str]]]:
    """A client, and the headers of two tenants: of groups a and b."""
    a = await make_key(store, "write", groups=("a",))
    b = await make_key(store, "write", groups=("b",))
    async with asking(store, clock) as client:
        yield client, bearer(a), bearer(b)


@pytest.mark.parametrize("kind", ["none", "wrong", "revoked", "in the URL"])
async def test_row_98_without_a_good_key_nothing_is_told(
    store: Store, clock: ManualClock, kind: str
) -> None:
    good, revoked = await make_key(store), await make_key(store)
    await revoke_api_key(store, revoked[4:20], NOW)
    async with asking(store, clock) as client:
        await client.post("/v1/jobs", json=CRON, headers=bearer(good))
        answers = []
        for job_id in ("report", "absent"):
            path = f"/v1/jobs/{job_id}"
            match kind:
                case "none":
                    answer = await client.get(path)
                case "wrong":
                    answer = await client.get(path, headers=bearer(good[::-1]))
                case "revoked":
                    answer = await client.get(path, headers=bearer(revoked))
                case _:
                    answer = await client.get(path, params={"key": good}, headers=bearer(good))
            refused(answer, 401, "unauthorized")
            answers.append(answer)
    assert answers[0].content == answers[1].content
    assert answers[0].headers == answers[1].headers
    assert good not in answers[0].text


async def test_row_98_a_key_of_another_tenant_meets_nothing(
    store: Store, clock: ManualClock
) -> None:
    async with tenants(store, clock) as (client, a, b):
        await client.post("/v1/jobs", json=CRON, headers=b)
        refused(await client.get("/v1/jobs/report", headers=a), 404, "not_found")


async def test_row_99_another_tenants_job_and_letter_are_not_there(
    store: Store, clock: ManualClock, keyspace: Read
) -> None:
    async with tenants(store, clock) as (client, a, b):
        await client.post("/v1/jobs", json=AT_ONCE, headers=b)
        letter = await die(store, await delivered(store, "mail"))
        before = await keyspace()
        for method, path in (
            ("GET", "/v1/jobs/mail"),
            ("POST", "/v1/jobs/mail/cancel"),
            ("POST", f"/v1/executions/{letter}/cancel"),
            ("POST", f"/v1/executions/{letter}/rerun"),
            ("GET", f"/v1/dead/{letter}"),
            ("POST", f"/v1/dead/{letter}/redrive"),
            ("DELETE", f"/v1/dead/{letter}"),
        ):
            refused(await client.request(method, path, headers=a), 404, "not_found")
        assert await keyspace() == before
        assert (await client.get(f"/v1/dead/{letter}", headers=b)).status_code == 200


async def test_row_100_a_key_that_reads_does_not_write(
    store: Store, clock: ManualClock, keyspace: Read
) -> None:
    key = bearer(await make_key(store, "read"))
    async with asking(store, clock) as client:
        before = await keyspace()
        refused(await client.post("/v1/jobs", json=CRON, headers=key), 403, "forbidden")
        refused(await client.put("/v1/jobs/report", json=CRON, headers=key), 403, "forbidden")
        assert (await client.get("/v1/jobs", headers=key)).json()["jobs"] == []
        assert await keyspace() == before


async def test_row_101_who_sends_too_much_is_held_up_and_nobody_else(
    store: Store, clock: ManualClock
) -> None:
    greedy = bearer(await make_key(store, "write", groups=("a",), rate=10))
    other = bearer(await make_key(store, "write", groups=("b",)))
    async with asking(store, clock) as client:

        async def post(n: int) -> str:
            body = {**CRON, "job_id": f"j{n}"}
            answer = await client.post("/v1/jobs", json=body, headers=greedy)
            code: str = answer.json().get("code", "created")
            assert answer.status_code == (201 if code == "created" else 429)
            return code

        codes = await asyncio.gather(*(post(n) for n in range(40)))
        assert (codes.count("created"), codes.count("rate_limited")) == (10, 30)
        theirs = await client.post("/v1/jobs", json={**CRON, "job_id": "theirs"}, headers=other)
        assert theirs.status_code == 201


@pytest.mark.parametrize(
    ("quota", "allowed"), [({"max_jobs": 5}, 5), ({"max_payload_bytes": 1_000_000}, 9)]
)
async def test_row_101_who_keeps_too_much_is_stopped_and_nobody_else(
    store: Store, clock: ManualClock, quota: dict[str, int], allowed: int
) -> None:
    greedy = bearer(await make_key(store, "write", groups=("a",), **quota))
    other = bearer(await make_key(store, "write", groups=("b",), **quota))
    async with asking(store, clock) as client:
        for n in range(12):
            body = {**CRON, "job_id": f"j{n}", "payload": "x" * 100_000}
            answer = await client.post("/v1/jobs", json=body, headers=greedy)
            if n < allowed:
                assert answer.status_code == 201
            else:
                refused(answer, 429, "quota_exceeded")
        theirs = await client.post("/v1/jobs", json={**CRON, "job_id": "theirs"}, headers=other)
        assert theirs.status_code == 201


async def test_row_102_a_cursor_of_another_tenant_leads_to_nothing_of_theirs(
    store: Store, clock: ManualClock
) -> None:
    async with tenants(store, clock) as (client, a, b):
        for n in range(3):
            await client.post("/v1/jobs", json={**CRON, "job_id": f"b{n}"}, headers=b)
        page = (await client.get("/v1/jobs", params={"limit": 1}, headers=b)).json()
        found = await client.get("/v1/jobs", params={"after": page["next"]}, headers=a)
        assert found.json() == {"jobs": [], "next": None}


async def test_row_108_an_edge_to_another_tenant_is_as_one_to_nothing(
    store: Store, clock: ManualClock
) -> None:
    async with tenants(store, clock) as (client, a, b):
        await client.post("/v1/jobs", json=CRON, headers=b)
        answers = [
            await client.post("/v1/jobs", json={**AT_ONCE, "depends_on": [upstream]}, headers=a)
            for upstream in ("report", "absent")
        ]
    for answer in answers:
        refused(answer, 400, "bad_input")
    assert answers[0].text.replace("report", "absent") == answers[1].text


async def test_no_key_is_in_any_log(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    keys = [await make_key(store, "admin"), await make_key(store, "read")]
    await revoke_api_key(store, keys[1][4:20], NOW)
    stop = asyncio.Event()
    asked = store.config.model_copy(update={"auth": "required"})
    keyed = type(store)(store.client, store.reader, store.scripts, store.layout, asked)
    with caplog.at_level(logging.DEBUG):
        async with (
            serving(keyed, stop) as (port, _),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            caplog.clear()
            for key in (*keys, keys[0][:-1], "wck_nonsense"):
                await client.get("/v1/jobs", headers=bearer(key))
                await client.get("/v1/jobs", params={"api_key": key})
                await client.get(f"/v1/jobs/{key}", headers=bearer(keys[0]))
                await client.post("/v1/jobs", content=key, headers=bearer(key))
    # httpx tells the URLs that it asks for; those lines are the test's own.
    ours = [r.getMessage() for r in caplog.records if not r.name.startswith("http")]
    assert not [line for line in ours if "wck_" in line or any(k[-43:] in line for k in keys)]
    assert "wck_" not in json.dumps(await store.client.info("all"), default=str)
