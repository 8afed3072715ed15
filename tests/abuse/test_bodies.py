"""Bodies and payloads: rows 87 to 97 and 104 of the list of abuses, each by its number. Callers who
send slowly, or not what they announced (93), are in test_callers.py.

Where the list says 256 KiB: that is a payload; a body has 1 MiB at the most.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from calling import AT_ONCE, CRON, Read, claim, create, pointers, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace

from api import wire
from api.wire import MAX_BODY_BYTES
from engine.scripts import FOLDER

JSON = {"Content-Type": "application/json"}


def with_payload(payload: bytes) -> bytes:
    return b'{"job_id": "mail", "target": {"type": "worker"}, "payload": ' + payload + b"}"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"[" * 100_000, id="row_87_not-closed"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="row_87_closed"),
        pytest.param(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, id="row_87_objects"),
        pytest.param(b'{"a": NaN}', id="row_88_NaN"),
        pytest.param(b"-Infinity", id="row_88_infinity"),
        pytest.param(b"1e999", id="row_88_1e999"),
        pytest.param(b"9" * 5_000, id="row_90_5000-digits"),
        pytest.param(b"18446744073709551616", id="row_90_2^64"),
        pytest.param(rb'"\ud800"', id="row_91_lone-surrogate"),
        pytest.param(rb'{"\ud800": 1}', id="row_91_lone-surrogate-as-key"),
        pytest.param(b'"\xff\xfe"', id="row_91_not-UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', id="row_91_surrogate-in-UTF-8"),
        pytest.param(b'"\xc0\xaf"', id="row_91_overlong-UTF-8"),
        pytest.param(b'"a\x00b"', id="row_92_bare-NUL"),
        pytest.param(b'"a\nb"', id="row_92_bare-line-feed"),
    ],
)
async def test_what_is_no_exact_json_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient, keyspace: Read, payload: bytes
) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", content=with_payload(payload), headers=JSON)
    refused(answer, 400, "bad_input")
    assert len(answer.content) < 1_000
    assert await keyspace() == before


async def test_row_91_a_byte_order_mark_is_refused(client: httpx.AsyncClient) -> None:
    body = b"\xef\xbb\xbf" + with_payload(b"1")
    refused(await client.post("/v1/jobs", content=body, headers=JSON), 400, "bad_input")


async def test_row_89_of_a_key_that_comes_twice_the_last_counts(client: httpx.AsyncClient) -> None:
    body = with_payload(b'{"a": 1, "a": 2}')
    body = body.replace(b'{"job_id"', b'{"job_id": "other", "job_id"')
    answer = await client.post("/v1/jobs", content=body, headers=JSON)
    assert (answer.json()["job_id"], answer.json()["payload"]) == ("mail", {"a": 2})


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"9007199254740993", id="row_90_2^53+1"),
        pytest.param(b"-9223372036854775808", id="row_90_lowest-of-64-bits"),
        pytest.param(b"18446744073709551615", id="row_90_highest-of-64-bits"),
        pytest.param(rb'"a\u0000b"', id="row_92_NUL-escaped"),
        pytest.param(b'"\\");redis.call(\'FLUSHALL\')--"', id="row_96_Lua"),
        pytest.param(b"\"]] .. redis.call('FLUSHALL') --[[\"", id="row_96_Lua-long-string"),
        pytest.param(b"{}", id="row_97_empty-object"),
        pytest.param(b"[]", id="row_97_empty-list"),
        pytest.param(b'{"a":[],"b":{},"c":[{}],"d":[[]]}', id="row_97_empty-within"),
        pytest.param(b"null", id="row_97_null"),
        pytest.param(b'""', id="row_97_empty-text"),
    ],
)
async def test_a_payload_comes_to_the_worker_as_it_was_sent(
    client: httpx.AsyncClient, payload: bytes
) -> None:
    other = await create(client, CRON)
    answer = await client.post("/v1/jobs", content=with_payload(payload), headers=JSON)
    assert answer.status_code == 201, answer.text
    sent = json.loads(payload)
    claimed = (await claim(client))["payload"]
    assert json.dumps(claimed) == json.dumps(answer.json()["payload"]) == json.dumps(sent)
    assert (await client.get("/v1/jobs/report")).json() == other


@pytest.mark.parametrize("name", ["job_id", "queue", "group"])
async def test_row_92_a_nul_in_a_name_is_refused(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/v1/jobs", json={**AT_ONCE, name: "a\0b"})
    assert pointers(refused(answer, 400, "bad_input")) == [f"/{name}"]


async def test_row_92_a_nul_in_a_header_of_a_target_is_refused(client: httpx.AsyncClient) -> None:
    target = {"type": "http", "url": "https://example.com/", "headers": {"X-A": "a\0b"}}
    answer = await client.post("/v1/jobs", json={"target": target})
    assert pointers(refused(answer, 400, "bad_input")) == ["/target/headers/X-A"]


def test_row_96_no_script_is_made_of_what_is_sent() -> None:
    """No Lua is put together in Python, and none is read from arguments in Lua."""
    root = Path(wire.__file__).parents[1]
    for path in [*root.glob("engine/**/*.py"), *root.glob("api/**/*.py")]:
        assert not re.search(r"\.eval\(|register_script\(", path.read_text("utf-8")), path
    for path in FOLDER.rglob("*.lua"):
        assert not re.search(r"\b(load|loadstring|dofile)\s*\(", path.read_text("utf-8")), path


async def test_row_93_a_payload_over_its_limit_is_refused(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    before = await keyspace()
    body = with_payload(b'"' + b"x" * 262_144 + b'"')
    answer = await client.post("/v1/jobs", content=body, headers=JSON)
    assert pointers(refused(answer, 413, "too_large")) == ["/payload"]
    assert await keyspace() == before


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/a/run", "/internal/executions/claim"])
async def test_row_93_ten_megabytes_are_refused_while_they_come(
    client: httpx.AsyncClient, path: str
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 10 * MAX_BODY_BYTES:
            sent += 65_536
            yield b" " * 65_536

    refused(await client.post(path, content=endless(), headers=JSON), 413, "too_large")
    assert sent <= MAX_BODY_BYTES + 65_536


async def test_row_94_a_million_keys_are_refused_before_they_are_read(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: bytes) -> Any:
        raise AssertionError("the body was parsed")

    monkeypatch.setattr(wire, "parse_json", never)
    body = with_payload(b"{" + b",".join(b'"k%07d":1' % n for n in range(1_000_000)) + b"}")
    refused(await client.post("/v1/jobs", content=body, headers=JSON), 413, "too_large")


@pytest.mark.parametrize(
    "content_type",
    ["text/xml", "application/json; charset=utf-16", "application/jsonp", "multipart/form-data"],
)
async def test_row_95_another_media_type_is_refused(
    client: httpx.AsyncClient, keyspace: Read, content_type: str
) -> None:
    before = await keyspace()
    sent = {"Content-Type": content_type}
    answer = await client.post("/v1/jobs", content=json.dumps(CRON), headers=sent)
    refused(answer, 415, "unsupported_media_type")
    assert await keyspace() == before


async def test_row_95_utf_16_is_no_json(client: httpx.AsyncClient) -> None:
    body = json.dumps(CRON).encode("utf-16")
    refused(await client.post("/v1/jobs", content=body, headers=JSON), 400, "bad_input")


async def test_row_104_markup_is_answered_as_data_that_no_browser_runs(
    client: httpx.AsyncClient,
) -> None:
    markup = "<img src=x onerror=alert(1)>"
    created = await client.post("/v1/jobs", json={**AT_ONCE, "payload": markup})
    refusal = await client.get(f"/v1/jobs/{markup}")
    for answer in (created, refusal, await client.get(f"/{markup}")):
        assert answer.headers["content-type"].partition(";")[0] in (
            "application/json",
            "application/problem+json",
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert created.json()["payload"] == markup
    refused(await client.post("/v1/jobs", json={**AT_ONCE, "job_id": markup}), 400, "bad_input")


async def test_row_104_the_page_of_the_api_runs_no_script_of_others(
    client: httpx.AsyncClient,
) -> None:
    policy = (await client.get("/docs")).headers["content-security-policy"]
    scripts = re.search(r"(?:script-src|default-src) ([^;]*)", policy)
    assert scripts, policy
    assert "unsafe-inline" not in scripts[1]
