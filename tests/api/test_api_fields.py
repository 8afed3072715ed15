"""Each field of a job, what it refuses, and that a refusal stores nothing."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import CRON, SECRET, Read, create, pointers, refused

from engine.model import MAX_PAYLOAD_BYTES

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

HTTP = {"type": "http", "url": "https://example.com/"}


def url(text: object) -> dict[str, Any]:
    return {"target": {**HTTP, "url": text}}


def headers(value: object) -> dict[str, Any]:
    return {"target": {**HTTP, "headers": value}}


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"unknown": 1}, "/unknown"),
        ({"a/b~c": 1}, "/a~1b~0c"),
        ({"job_id": 5}, "/job_id"),
        ({"job_id": ""}, "/job_id"),
        ({"job_id": "a@1"}, "/job_id"),
        ({"job_id": "a\n"}, "/job_id"),
        ({"job_id": "x" * 129}, "/job_id"),
        ({"schedule_expr": 5}, "/schedule_expr"),
        ({"timezone": None}, "/timezone"),
        ({"timezone": "Mars/Olympus"}, "/timezone"),
        ({"target": None}, "/target"),
        ({"target": "http://example.com/"}, "/target"),
        ({"target": {}}, "/target"),
        ({"target": {"type": "ftp"}}, "/target"),
        ({"target": {"type": "http"}}, "/target/url"),
        ({"target": {"type": "worker", "url": "http://example.com/"}}, "/target/url"),
        ({"target": {"type": "worker", "handler": ""}}, "/target/handler"),
        ({"target": {"type": "worker", "timeout_ms": 99}}, "/target/timeout_ms"),
        ({"target": {**HTTP, "http": 1}}, "/target/http"),
        ({"target": {**HTTP, "timeout_ms": 99}}, "/target/timeout_ms"),
        ({"target": {**HTTP, "timeout_ms": 3_600_001}}, "/target/timeout_ms"),
        ({"target": {**HTTP, "timeout_ms": "500"}}, "/target/timeout_ms"),
        ({"target": {**HTTP, "timeout_ms": 500.0}}, "/target/timeout_ms"),
        ({"target": {**HTTP, "timeout_ms": True}}, "/target/timeout_ms"),
        (url(5), "/target/url"),
        (url("http:///path"), "/target/url"),
        (url("http://:80/"), "/target/url"),
        (url("http://example.com/#part"), "/target/url"),
        (url("http://example.com/#"), "/target/url"),
        (url("http://example.com/a b"), "/target/url"),
        (url(" http://example.com/"), "/target/url"),
        (url("http://example.com/\r\nX: y"), "/target/url"),
        (url("http://example.com/\x85"), "/target/url"),
        (url("http://exa$mple.com/"), "/target/url"),
        (url("http://[::1/"), "/target/url"),
        (url("http://example.com/" + "x" * 2_030), "/target/url"),
        (headers(None), "/target/headers"),
        (headers({"X-Key": 5}), "/target/headers/X-Key"),
        (headers({"X Key": "v"}), "/target/headers/X Key"),
        (headers({"": "v"}), "/target/headers/"),
        (headers({"X-Key": "a\r\nb"}), "/target/headers/X-Key"),
        (headers({"X-Key": "a\0"}), "/target/headers/X-Key"),
        (headers({"X-Key": "\u20ac"}), "/target/headers/X-Key"),
        (headers({"X-Key": "v" * 8_193}), "/target/headers/X-Key"),
        (headers({"X-Key": "1", "x-key": "2"}), "/target/headers"),
        (headers({f"X-{n}": "v" for n in range(51)}), "/target/headers"),
        (headers({"Host": "v"}), "/target/headers/Host"),
        (headers({"content-length": "1"}), "/target/headers/content-length"),
        (headers({"Transfer-Encoding": "v"}), "/target/headers/Transfer-Encoding"),
        (headers({"Connection": "v"}), "/target/headers/Connection"),
        (headers({"IDEMPOTENCY-KEY": "v"}), "/target/headers/IDEMPOTENCY-KEY"),
        (headers({"Waterclock-Attempt": "1"}), "/target/headers/Waterclock-Attempt"),
        ({"queue": 5}, "/queue"),
        ({"queue": "a:b"}, "/queue"),
        ({"queue": "x" * 65}, "/queue"),
        ({"queue": "http", "target": {"type": "worker"}}, "/queue"),
        ({"retry": 3}, "/retry"),
        ({"retry": {"attempts": 3}}, "/retry/attempts"),
        ({"retry": {"max_attempts": 0}}, "/retry/max_attempts"),
        ({"retry": {"max_attempts": 1_001}}, "/retry/max_attempts"),
        ({"retry": {"max_attempts": True}}, "/retry/max_attempts"),
        ({"retry": {"base_ms": -1}}, "/retry/base_ms"),
        ({"retry": {"base_ms": 10, "max_ms": 9}}, "/retry/max_ms"),
        ({"retry": {"max_ms": 2**40}}, "/retry/max_ms"),
        ({"retry": {"jitter": "some"}}, "/retry/jitter"),
        ({"misfire": "skip"}, "/misfire"),
        ({"misfire": {"policy": "never"}}, "/misfire/policy"),
        ({"misfire": {"grace_ms": -1}}, "/misfire/grace_ms"),
        ({"misfire": {"grace_ms": 2**63}}, "/misfire/grace_ms"),
        ({"misfire": {"grace": 1}}, "/misfire/grace"),
        ({"misfire": {"max_catch_up": 0}}, "/misfire/max_catch_up"),
        ({"dialect": "cron"}, "/dialect"),
        ({"dst_gap": "fire"}, "/dst_gap"),
        ({"dst_overlap": "none"}, "/dst_overlap"),
        ({"start_at": "2027-01-01T00:00:00"}, "/start_at"),
        ({"end_at": 1_900_000_000_000}, "/end_at"),
        ({"start_at": "2028-01-01T00:00:00Z", "end_at": "2027-12-01T00:00:00Z"}, "/end_at"),
        ({"window_ms": -1}, "/window_ms"),
        ({"window_ms": 7 * 86_400_000 + 1}, "/window_ms"),
        ({"window_ms": 5, "schedule_expr": "2028-01-01T00:00:00Z"}, "/window_ms"),
        ({"max_runs": 0}, "/max_runs"),
        ({"expires_after_ms": 0}, "/expires_after_ms"),
        ({"pause_after_failures": 0}, "/pause_after_failures"),
        ({"delete_after_completion": "yes"}, "/delete_after_completion"),
        ({"overlap": "queue"}, "/overlap"),
        ({"priority": "urgent"}, "/priority"),
        ({"group": "a/b"}, "/group"),
        ({"concurrency": 0}, "/concurrency"),
        ({"concurrency": 1_001}, "/concurrency"),
        ({"concurrency": 2, "overlap": "allow"}, "/concurrency"),
        ({"overlap": None}, "/overlap"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_stored(
    client: httpx.AsyncClient, keyspace: Read, given: dict[str, Any], pointer: str
) -> None:
    before = await keyspace()
    problem = refused(await client.post("/v1/jobs", json={**CRON, **given}), 400, "bad_input")
    assert pointers(problem) == [pointer]
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        ("", "bad_expression"),
        ("* * * *", "bad_expression"),
        ("60 * * * *", "bad_expression"),
        ("every 0s", "bad_expression"),
        ("2027-01-15T09:00:00", "bad_expression"),
        ("2027-01-15T08:00:00Z", "bad_input"),
        ("0 0 30 2 *", "never_fires"),
    ],
)
async def test_a_wrong_schedule_says_why_by_its_code(
    client: httpx.AsyncClient, keyspace: Read, expr: str, code: str
) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={**CRON, "schedule_expr": expr})
    assert pointers(refused(answer, 400, code)) == ["/schedule_expr"]
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        ({"schedule_expr": "0 0 12 ? * MON", "dialect": "quartz"}, True),
        ({"schedule_expr": "0 0 12 ? * MON"}, False),
        ({"schedule_expr": "0 0 12 ? * MON", "dialect": "vixie"}, False),
        ({"schedule_expr": "H H * * *", "job_id": None}, True),
    ],
)
async def test_an_expression_is_read_in_the_dialect_that_is_named(
    client: httpx.AsyncClient, given: dict[str, Any], is_right: bool
) -> None:
    answer = await client.post("/v1/jobs", json={**CRON, **given})
    if is_right:
        assert answer.status_code == 201
    else:
        assert pointers(refused(answer, 400, "bad_expression")) == ["/schedule_expr"]


async def test_a_missing_target_is_named(client: httpx.AsyncClient, keyspace: Read) -> None:
    before = await keyspace()
    answer = await client.post("/v1/jobs", json={"job_id": "x"})
    assert pointers(refused(answer, 400, "bad_input")) == ["/target"]
    assert await keyspace() == before


async def test_all_that_is_wrong_is_said_at_once(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/jobs",
        json={
            "job_id": "@",
            "schedule_expr": "nonsense",
            "timezone": "Nowhere",
            "target": {**HTTP, "url": "x", "headers": {"Host": "x"}, "timeout_ms": 1},
            "retry": {"base_ms": 2, "max_ms": 1},
            "misfire": {"grace_ms": "1"},
            "more": 1,
        },
    )
    assert pointers(refused(answer, 400, "bad_input")) == [
        "/job_id",
        "/misfire/grace_ms",
        "/more",
        "/retry/max_ms",
        "/schedule_expr",
        "/target/headers/Host",
        "/target/timeout_ms",
        "/target/url",
        "/timezone",
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (url(f"http://example.com:x/?key={SECRET}"), "port_not_allowed"),
        (url(f"ftp://user:{SECRET}@example.com/{SECRET}"), "scheme_not_allowed"),
        (url(f"http://{SECRET}@example.com/"), "userinfo_not_allowed"),
        (url(f"http://127.0.0.1/?{SECRET}"), "target_not_public"),
        (url(f"http://127.0.0.1:8787/?{SECRET}"), "loop"),
        (url(f"http://example.com/ ?{SECRET}"), "bad_input"),
        (headers({"Authorization": f"{SECRET}\n"}), "bad_input"),
        (headers({"Authorization": [SECRET]}), "bad_input"),
        (headers({"Host": SECRET}), "bad_input"),
    ],
)
async def test_no_refusal_repeats_a_secret(
    client: httpx.AsyncClient, given: Any, code: str
) -> None:
    answer = await client.post("/v1/jobs", json={**CRON, **given})
    assert SECRET not in str(refused(answer, 403 if code == "loop" else 400, code))


async def test_a_payload_that_is_nested_too_deeply_is_refused(client: httpx.AsyncClient) -> None:
    payload = "[" * 255 + "]" * 255
    body = f'{{"target": {{"type": "worker"}}, "payload": {payload}}}'
    answer = await client.post(
        "/v1/jobs", content=body, headers={"Content-Type": "application/json"}
    )
    assert pointers(refused(answer, 400, "bad_input")) == ["/payload"]


async def test_a_payload_of_just_the_limit_is_taken(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "payload": "x" * (MAX_PAYLOAD_BYTES - 2)})
