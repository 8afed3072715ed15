"""Idempotency-Key: what is sent again is carried out once and answered as it was."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, NOW, SECRET, create, refused

from api import idempotency
from engine.clock import ManualClock
from engine.keys import request_key
from engine.store import Store
from engine.store.idempotency import LEASE_MS, begin_request

client, clock, keyspace = calling.client, calling.clock, calling.keyspace

KEY = {"Idempotency-Key": "order-1"}
NAMELESS: dict[str, Any] = {**AT_ONCE, "job_id": None}


async def post(
    client: httpx.AsyncClient, body: object, path: str = "/v1/jobs", **headers: str
) -> httpx.Response:
    return await client.post(path, json=body, headers={**KEY, **headers})


async def test_a_job_without_an_id_is_made_once(client: httpx.AsyncClient) -> None:
    first, second = await post(client, NAMELESS), await post(client, NAMELESS)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert [r.headers.get("idempotency-replayed") for r in (first, second)] == [None, "true"]
    assert second.headers["location"] == f"/v1/jobs/{first.json()['job_id']}"
    assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1


async def test_requests_at_the_same_time_make_one_job(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(post(client, NAMELESS) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/jobs", {**NAMELESS, "payload": 2}), ("/v1/jobs/a/run", {})],
    ids=["another body", "another path"],
)
async def test_a_key_stands_for_one_request(
    client: httpx.AsyncClient, path: str, body: object
) -> None:
    await post(client, NAMELESS)
    answer = await post(client, body, path)
    refused(answer, 409, "idempotency_conflict")


async def test_a_key_stands_for_one_query(client: httpx.AsyncClient) -> None:
    headers = {**KEY, "Content-Type": "application/x-ndjson"}
    line = json.dumps(AT_ONCE).encode()
    for policy in ("keep", "replace"):
        query = {"on_conflict": policy}
        answer = await client.post("/v1/jobs/bulk", params=query, content=line, headers=headers)
    refused(answer, 409, "idempotency_conflict")


async def test_a_run_by_hand_is_started_once(client: httpx.AsyncClient) -> None:
    await create(client, CRON)
    first, second = [await post(client, {}, "/v1/jobs/report/run") for _ in range(2)]
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json() == second.json()
    assert len((await client.get("/v1/jobs/report/executions")).json()) == 1


async def test_a_refusal_is_not_kept(client: httpx.AsyncClient, store: Store) -> None:
    refused(await post(client, {}), 400, "bad_input")
    assert (await post(client, AT_ONCE)).status_code == 201


async def test_each_post_takes_the_key_again_after_a_while(
    client: httpx.AsyncClient, store: Store
) -> None:
    await post(client, NAMELESS)
    [key] = [k async for k in store.client.scan_iter(request_key("*"))]
    left_ms = await store.client.pttl(key)
    kept_ms = store.config.idempotency_ms
    assert kept_ms - 60_000 < left_ms <= kept_ms


async def test_nobody_reads_an_answer_out_of_the_server(
    client: httpx.AsyncClient, store: Store
) -> None:
    await post(client, CRON)
    [key] = [k async for k in store.client.scan_iter(request_key("*"))]
    kept = await store.client.hgetall(key)
    assert SECRET.encode() not in b"".join([key, *kept, *kept.values()])
    assert b"order-1" not in b"".join([key, *kept, *kept.values()])


@pytest.mark.parametrize("key", ["", '"', "x" * 256, "a\tb", "schön".encode("latin-1")])
async def test_a_key_that_is_none_is_refused(client: httpx.AsyncClient, key: str) -> None:
    headers: Any = {"Idempotency-Key": key, "Content-Type": "application/json"}
    answer = await client.post("/v1/jobs", content=b"{}", headers=headers)
    refused(answer, 400, "bad_input")
    assert "Idempotency-Key" in answer.json()["detail"]


async def test_a_repeat_waits_for_the_first_no_longer_than_it_should(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "WAIT_MS", 100)
    await _begun_elsewhere(client, store)
    answer = await post(client, NAMELESS)
    refused(answer, 409, "request_in_progress")
    assert answer.headers["retry-after"] == "1"


async def test_what_a_process_left_when_it_died_is_found(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    """The job was stored, and nobody could say so."""
    first = await post(client, NAMELESS)
    [key] = [k async for k in store.client.scan_iter(request_key("*"))]
    await store.client.hdel(key, "answer")
    clock.advance(LEASE_MS)
    second = await post(client, NAMELESS)
    assert second.status_code == 200
    assert second.json()["job_id"] == first.json()["job_id"]
    assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1


async def test_a_job_that_was_there_is_not_taken_for_ones_own(
    client: httpx.AsyncClient, store: Store, clock: ManualClock
) -> None:
    await _begun_elsewhere(client, store, CRON)
    await client.patch("/v1/jobs/report", json={"payload": "another"})
    clock.advance(LEASE_MS)
    refused(await post(client, CRON), 409, "job_exists")


async def test_keys_of_two_callers_are_two(client: httpx.AsyncClient, store: Store) -> None:
    digests = {idempotency._hash("name", caller, "k") for caller in ("a", "b")}
    assert len(digests) == 2


async def _begun_elsewhere(
    client: httpx.AsyncClient, store: Store, body: object = NAMELESS
) -> None:
    """Have another process carry out what `post` sends."""
    await post(client, body)
    [key] = [k async for k in store.client.scan_iter(request_key("*"))]
    print_ = (await store.client.hget(key, "fingerprint")).decode()
    await store.client.delete(key)
    digest = key.decode().rpartition(":")[2]
    await begin_request(store, digest, print_, "another process", NOW)
    if body is NAMELESS:
        for job in (await client.get("/v1/jobs")).json()["jobs"]:
            await client.delete(f"/v1/jobs/{job['job_id']}")
