"""Ids: rows 55 to 63 of the list of abuses, each by its number.

Tenants are groups of keys here, and ids are of the whole deployment: row 60 asks for names that no
two things share.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from calling import AT_ONCE, CRON, Read, create, pointers, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace
from keyed import asking, bearer, make_key
from test_api_server import serving

from engine.clock import ManualClock
from engine.keys import Shard
from engine.store import Store

BODY = {name: value for name, value in AT_ONCE.items() if name != "job_id"}
BAD_IDS = [
    pytest.param("}{0}", id="row_55_braces"),
    pytest.param("{shard9}x", id="row_55_hash-tag"),
    pytest.param("a}b", id="row_55_one-brace"),
    pytest.param("", id="row_56_empty"),
    pytest.param("a" * 129, id="row_56_129-characters"),
    pytest.param("a" * 1_000_000, id="row_56_a-megabyte"),
    pytest.param("a\0b", id="row_57_NUL"),
    pytest.param("a\rb", id="row_57_CR"),
    pytest.param("a\n", id="row_57_LF-at-the-end"),
    pytest.param("a b", id="row_57_space"),
    pytest.param("a\u202eb", id="row_57_RTL-mark"),
    pytest.param("a\U0001f600", id="row_57_emoji"),
    pytest.param("../../admin", id="row_58_dots-and-slashes"),
    pytest.param("..", id="row_58_dots"),
    pytest.param("%2e%2e%2f", id="row_58_encoded"),
    pytest.param("a/b", id="row_58_slash"),
    pytest.param("a\\b", id="row_58_backslash"),
    pytest.param("__proto__", id="row_59_underscore-first"),
    pytest.param("*", id="row_59_star"),
    pytest.param("?", id="row_59_question-mark"),
    pytest.param("[a-z]", id="row_59_range"),
    pytest.param("caf\u00e9", id="row_61_composed"),
    pytest.param("cafe\u0301", id="row_61_combining"),
    pytest.param("\u212a", id="row_61_Kelvin-sign"),
    pytest.param("a@1", id="execution"),
    pytest.param("a|b", id="bar"),
    pytest.param(7, id="number"),
    pytest.param(["a"], id="list"),
]


@pytest.mark.parametrize("job_id", BAD_IDS)
async def test_what_is_no_id_is_refused_in_a_body(
    client: httpx.AsyncClient, keyspace: Read, job_id: Any
) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={**AT_ONCE, "job_id": job_id})
    assert pointers(refused(answer, 400, "bad_input")) == ["/job_id"]
    assert len(answer.content) < 1_000
    assert await keyspace() == before


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "job_id", [p for p in BAD_IDS if isinstance(p.values[0], str) and 0 < len(p.values[0]) < 1_000]
)
async def test_what_is_no_id_is_nothing_in_a_path(
    client: httpx.AsyncClient, keyspace: Read, method: str, job_id: str
) -> None:
    await create(client, CRON)
    before = await keyspace()
    path = httpx.URL("http://localhost").copy_with(
        raw_path=b"/v1/jobs/" + quote(job_id, safe="").encode()
    )
    body = {"json": BODY} if method in ("PUT", "PATCH") else {}
    refused(await client.request(method, path, **body), 404, "not_found")  # type: ignore[arg-type]
    assert await keyspace() == before


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/jobs/../keys",
        b"/v1/jobs/%2e%2e/keys",
        b"/v1/jobs/..%2fkeys",
        b"/v1/jobs//run",
        b"//v1/jobs",
        b"/v1/jobs/..;/x",
    ],
)
async def test_row_58_a_path_leads_nowhere_else(store: Store, path: bytes) -> None:
    """Sent as it is: a client that knows better would tidy it up."""
    async with serving(store, asyncio.Event()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b'"code":"not_found"' in answer


@pytest.mark.parametrize("job_id", ["a", "a" * 128, "constructor", "0", "a.b:c_d-e", "NaN", "null"])
async def test_row_59_an_odd_id_is_an_id_like_any_other(
    client: httpx.AsyncClient, job_id: str
) -> None:
    await create(client, {**CRON, "job_id": job_id})
    assert (await client.get(f"/v1/jobs/{job_id}")).json()["job_id"] == job_id
    found = (await client.get("/v1/jobs", params={"prefix": job_id})).json()["jobs"]
    assert [one["job_id"] for one in found] == [job_id]
    assert (await client.delete(f"/v1/jobs/{job_id}")).status_code == 204
    assert (await client.get("/v1/jobs")).json()["jobs"] == []


@pytest.mark.parametrize("text", ["*", "?", "[a-z]*", "a*", "{", "\\"])
async def test_row_59_what_is_searched_for_is_no_pattern(
    client: httpx.AsyncClient, text: str
) -> None:
    await create(client, CRON)
    for name in ("prefix", "group", "tag"):
        answer = await client.get("/v1/jobs", params={name: text})
        if answer.status_code != 400:
            assert answer.json()["jobs"] == []


def test_row_60_no_two_names_make_one_key() -> None:
    """Of what has a colon in it, too: an id, or the time behind one."""
    shard = Shard(0, "tag")
    ids = ["a", "a:b", "b", "a:b:c", "jobs", "job:a", "group:a"]
    groups = ["a", "b", "jobs"]
    keys = [
        *(key(job_id) for key in (shard.job, shard.runs, shard.inputs) for job_id in ids),
        *(shard.dependents(job_id) for job_id in ids),
        *(key(name) for key in (shard.jobs_of_group, shard.jobs_with_tag) for name in groups),
        shard.jobs,
        shard.buckets,
        shard.dead,
        shard.ledger,
        shard.outbox,
    ]
    assert len(keys) == len({*keys})


async def test_row_60_a_queue_and_its_streams_are_nobody_elses(client: httpx.AsyncClient) -> None:
    """A queue's urgent stream is `<queue>:high`, which no other queue can be called."""
    answer = await client.post("/v1/jobs", json={**AT_ONCE, "queue": "mail:high"})
    assert pointers(refused(answer, 400, "bad_input")) == ["/queue"]


async def test_row_61_ids_that_differ_in_case_are_two(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "job_id": "Report"})
    await create(client, {**CRON, "job_id": "report"})
    await client.delete("/v1/jobs/Report")
    assert (await client.get("/v1/jobs/report")).status_code == 200


@pytest.mark.parametrize("body", [AT_ONCE, BODY], ids=["its own id", "a random id"])
async def test_row_62_a_job_that_is_sent_twice_at_once_is_one(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    headers = {"Idempotency-Key": "once"}
    answers = await asyncio.gather(
        *(client.post("/v1/jobs", json=body, headers=headers) for _ in range(10))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert len((await client.get("/v1/jobs")).json()["jobs"]) == 1
    [execution] = (await client.get("/v1/executions")).json()
    assert execution["execution_id"] == answers[0].json()["execution_id"]


async def test_row_62_a_key_is_the_callers_own(store: Store, clock: ManualClock) -> None:
    one, two = bearer(await make_key(store)), bearer(await make_key(store))
    async with asking(store, clock) as client:
        key = {"Idempotency-Key": "once"}
        first = await client.post("/v1/jobs", json=BODY, headers=one | key)
        second = await client.post("/v1/jobs", json=BODY, headers=two | key)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["job_id"] != second.json()["job_id"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/jobs", {**AT_ONCE, "payload": 2}),
        ("/v1/jobs", {**AT_ONCE, "payload": {"to": "me "}}),
        ("/v1/jobs/mail/run", None),
    ],
)
async def test_row_63_the_same_key_with_another_request_is_refused(
    client: httpx.AsyncClient, keyspace: Read, path: str, body: dict[str, Any] | None
) -> None:
    headers = {"Idempotency-Key": "once"}
    assert (await client.post("/v1/jobs", json=AT_ONCE, headers=headers)).status_code == 201
    before = await keyspace()
    answer = await client.post(path, json=body, headers=headers)
    refused(answer, 409, "idempotency_conflict")
    assert await keyspace() == before
