"""What the API refuses whatever the field, how it says so, and that a refusal stores nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, Read, create, pointers, refused

from api.problems import STATUS
from api.wire import MAX_BODY_BYTES
from engine.errors import CODES

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b'{"payload": NaN}',
        b'{"payload": Infinity}',
        b'{"payload": 1e400}',
        b'{"payload": "\xff"}',
        b'{"payload": "\\ud800"}',
        b'{"payload": 18446744073709551616}',
        b'{"payload": -9223372036854775809}',
        b'{"payload": [1, {"n": ' + b"9" * 5_000 + b"}]}",
        b'{"payload": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
        b'\xef\xbb\xbf{"payload": 1}',
        b'{"payload": 1,}',
    ],
)
async def test_what_is_no_exact_json_object_is_refused(
    client: httpx.AsyncClient, keyspace: Read, body: bytes
) -> None:
    before = await keyspace()
    body = body.replace(b'{"payload"', b'{"target": {"type": "worker"}, "payload"')
    answer = await client.post("/v1/jobs", content=body, headers=JSON)
    # No field is at fault: the body as a whole was not read.
    assert refused(answer, 400, "bad_input")["errors"] == []
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("/v1/jobs", "application/json"), ("/v1/jobs/bulk", "application/x-ndjson")],
)
async def test_a_compressed_body_is_refused_as_one(
    client: httpx.AsyncClient, keyspace: Read, path: str, content_type: str
) -> None:
    before = await keyspace()
    headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
    answer = await client.post(
        path, content=gzip.compress(json.dumps(CRON).encode()), headers=headers
    )
    assert "Content-Encoding" in refused(answer, 415, "unsupported_media_type")["detail"]
    assert await keyspace() == before
    headers["Content-Encoding"] = "identity"
    answer = await client.post(path, content=json.dumps(CRON), headers=headers)
    assert answer.is_success


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=x"],
)
async def test_a_body_of_another_type_is_refused(
    client: httpx.AsyncClient, keyspace: Read, content_type: str | None
) -> None:
    before = await keyspace()
    sent = {} if content_type is None else {"Content-Type": content_type}
    answer = await client.post("/v1/jobs", content=json.dumps(CRON), headers=sent)
    refused(answer, 415, "unsupported_media_type")
    assert await keyspace() == before


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON;charset=UTF-8"])
async def test_a_body_of_json_is_taken(client: httpx.AsyncClient, content_type: str) -> None:
    answer = await client.post(
        "/v1/jobs", content=json.dumps(CRON), headers={"Content-Type": content_type}
    )
    assert answer.status_code == 201


async def test_a_body_that_announces_too_much_is_not_even_read(client: httpx.AsyncClient) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    announced = {**JSON, "Content-Length": str(MAX_BODY_BYTES + 1)}
    answer = await client.post("/v1/jobs", content=never(), headers=announced)
    refused(answer, 413, "too_large")


async def test_a_body_without_a_length_is_cut_off_at_the_limit(client: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield b" " * 65_536

    refused(await client.post("/v1/jobs", content=endless(), headers=JSON), 413, "too_large")
    assert sent == MAX_BODY_BYTES + 65_536


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=1.0", "limit"),
        ("limit=", "limit"),
        ("limt=5", "limt"),
        ("after=a@1", "after"),
        ("prefix=%7B", "prefix"),
        ("prefix=~", "prefix"),
    ],
)
async def test_a_wrong_query_parameter_is_named(
    client: httpx.AsyncClient, query: str, parameter: str
) -> None:
    problem = refused(await client.get(f"/v1/jobs?{query}"), 400, "bad_input")
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


async def test_a_wrong_limit_of_executions_is_named(client: httpx.AsyncClient) -> None:
    await create(client, CRON)
    answer = await client.get("/v1/jobs/report/executions?limit=0")
    assert refused(answer, 400, "bad_input")["errors"][0]["parameter"] == "limit"


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/v1/jobs/report/run", {"now": True}, "/now"),
        ("/v1/jobs/report/pause", {"until": 1}, "/until"),
        ("/v1/jobs/report/resume", {"misfire": "all"}, "/misfire"),
        ("/v1/jobs/report/resume", {"miss": "skip"}, "/miss"),
        ("/internal/executions/claim", {}, "/worker"),
        ("/internal/executions/claim", {"worker": ""}, "/worker"),
        ("/internal/executions/claim", {"worker": 'w"'}, "/worker"),
        ("/internal/executions/claim", {"worker": "w" * 65}, "/worker"),
        ("/internal/executions/claim", {"worker": "w", "queue": "{"}, "/queue"),
        ("/internal/executions/claim", {"worker": "w", "count": 2}, "/count"),
        ("/internal/executions/mail@1/complete", {"status": "failed"}, "/lease"),
        ("/internal/executions/mail@1/complete", {"lease": "x"}, "/status"),
        ("/internal/executions/mail@1/complete", {"status": "dead", "lease": "x"}, "/status"),
    ],
)
async def test_a_wrong_body_of_any_route_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read, path: str, body: dict[str, Any], pointer: str
) -> None:
    await create(client, CRON)
    await create(client, AT_ONCE)
    before = await keyspace()
    assert pointers(refused(await client.post(path, json=body), 400, "bad_input")) == [pointer]
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("error", 5),
        ("status_code", 99),
        ("status_code", 600),
        ("status_code", "200"),
        ("duration_ms", -1),
        ("duration_ms", 2**40),
        ("duration_ms", 1.5),
    ],
)
async def test_a_wrong_field_of_an_outcome_is_named(
    client: httpx.AsyncClient, field: str, value: Any
) -> None:
    body = {"status": "failed", "lease": "x.1", field: value}
    answer = await client.post("/internal/executions/mail@1/complete", json=body)
    assert pointers(refused(answer, 400, "bad_input")) == [f"/{field}"]


@pytest.mark.parametrize("path", ["/nothing", "/v1/jobs/", "/v1", "/v1/jobs/a/b", "/v1/jobs/a%2Fb"])
async def test_an_unknown_route_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    refused(await client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/jobs", "GET, HEAD, POST"),
        ("POST", "/v1/jobs/report", "DELETE, GET, HEAD, PATCH, PUT"),
        ("GET", "/v1/jobs/report/run", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
    ],
)
async def test_another_method_is_told_which_there_are(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await client.request(method, path)
    refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


def test_every_code_of_the_engine_has_a_status() -> None:
    assert CODES.keys() <= STATUS.keys()
