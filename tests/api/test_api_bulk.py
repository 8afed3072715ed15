"""Jobs in bulk over HTTP: a line each, and for each the answer of a request of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, SECRET, Read, create, refused
from keyed import asking, bearer, make_key

from api import lines as framing
from engine.clock import ManualClock
from engine.store import Store
from engine.store.jobs import StoredJob, get_job

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

NDJSON = {"Content-Type": "application/x-ndjson"}


def ndjson(*lines: object) -> bytes:
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )


async def bulk(client: httpx.AsyncClient, *lines: object, **query: str) -> list[dict[str, Any]]:
    """Return the answers to lines that create jobs."""
    return await send(client, "bulk", ndjson(*lines), **query)


async def send(
    client: httpx.AsyncClient, verb: str, body: bytes, **query: str
) -> list[dict[str, Any]]:
    answer = await client.post(f"/v1/jobs/{verb}", content=body, headers=NDJSON, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def cron(job_id: str, **more: Any) -> dict[str, Any]:
    return {**CRON, "job_id": job_id, **more}


def statuses(answers: Iterable[dict[str, Any]]) -> list[int]:
    return [answer["status"] for answer in answers]


async def test_each_line_is_answered_in_order(client: httpx.AsyncClient) -> None:
    answers = await bulk(client, cron("b"), cron("a"), AT_ONCE)
    assert answers == [
        {"line": 1, "job_id": "b", "status": 201},
        {"line": 2, "job_id": "a", "status": 201},
        {"line": 3, "job_id": "mail", "status": 201},
    ]


ODD: list[dict[str, Any]] = [
    {"schedule_expr": "H H * * *", "dialect": "jenkins"},
    {"schedule_expr": "every 10m", "window_ms": 3_600_000},
    {"schedule_expr": "2030-01-31T09:00:00Z"},
    {"schedule_expr": ["0 9 * * *", "every 2h"]},
    {"schedule_expr": None},
    {"overlap": "queue_all", "max_runs": 3, "retry": {"max_attempts": 1}},
    {"target": {"type": "worker", "handler": "x"}, "queue": "mail", "priority": "high"},
    {"target": {"type": "worker"}, "group": "a"},
    {"payload": {"n": 9_007_199_254_740_993, "text": "\u0000é"}},
    {"payload": []},
]


@pytest.mark.parametrize("more", ODD)
async def test_a_line_stores_what_a_request_of_its_own_stores(
    client: httpx.AsyncClient, store: Store, more: dict[str, Any]
) -> None:
    ids = [f"job-{n}" for n in range(4)]

    async def stored() -> list[StoredJob]:
        found = [await get_job(store, job_id) for job_id in ids]
        for job_id in ids:
            assert (await client.delete(f"/v1/jobs/{job_id}")).status_code == 204
        for shard in store.layout.shards:
            # Or what is made next in this very millisecond would start in the one after.
            await store.client.delete(shard.ran_at)
        return [replace(one, live=[]) for one in found]

    assert statuses(await bulk(client, *(cron(job_id, **more) for job_id in ids))) == [201] * 4
    in_bulk = await stored()
    posted = [await create(client, cron(job_id, **more)) for job_id in ids]
    alone = await stored()
    # A PUT looks at nothing but its own body.
    put = [await client.put(f"/v1/jobs/{job_id}", json=cron(job_id, **more)) for job_id in ids]
    assert [answer.json() for answer in put] == posted
    assert in_bulk == alone == await stored()


BAD: list[Any] = [
    b"{",
    b"[1]",
    b'{"payload": 18446744073709551616}',
    b'{"payload": ' + b"[" * 2_000 + b"]" * 2_000 + b"}",
    {},
    {"job_id": "a/b", "target": {"type": "worker"}},
    {"job_id": 5, "target": {"type": "worker"}},
    {"target": {"type": "worker"}, "color": "red"},
    {"target": {"type": "worker"}, "payload": "x" * 262_145},
    cron("a", schedule_expr="* * *"),
    cron("a", schedule_expr="0 0 30 2 *"),
    cron("a", calendars=["nowhere"]),
    cron("a", overlap="allow", concurrency=2),
    cron("a", depends_on=["nowhere"], schedule_expr=None),
]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
async def test_a_line_is_refused_as_a_post_of_its_own_is(
    client: httpx.AsyncClient, keyspace: Read, body: Any
) -> None:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    alone = await client.post(
        "/v1/jobs", content=text, headers={"Content-Type": "application/json"}
    )
    code = alone.json()["code"]
    problem = refused(alone, 413 if code == "too_large" else 400, code)
    before = await keyspace()
    # The second one meets what the first one left behind in memory.
    for answer in await bulk(client, text, text):
        assert (answer["status"], answer["code"]) == (problem["status"], code)
        assert answer.get("errors", []) == problem["errors"]
    assert await keyspace() == before


async def test_a_bad_line_stops_none_of_the_others(client: httpx.AsyncClient) -> None:
    answers = await bulk(client, cron("a"), b"{", cron("b"), b"", cron("c", queue="!"), cron("d"))
    assert [(one["line"], one["status"]) for one in answers] == [
        (1, 201),
        (2, 400),
        (3, 201),
        (5, 400),
        (6, 201),
    ]
    assert [one["job_id"] for one in answers] == ["a", None, "b", "c", "d"]
    page = (await client.get("/v1/jobs")).json()
    assert [job["job_id"] for job in page["jobs"]] == ["a", "b", "d"]


async def test_a_bad_payload_or_id_behind_a_good_shape_is_refused(
    client: httpx.AsyncClient,
) -> None:
    answers = await bulk(
        client, cron("a"), cron("a b"), cron("c", payload="x" * 262_145), cron("d")
    )
    assert statuses(answers) == [201, 400, 413, 201]
    assert [one["errors"][0]["pointer"] for one in answers[1:3]] == ["/job_id", "/payload"]


async def test_lines_without_an_id_get_one_each(client: httpx.AsyncClient) -> None:
    body = {"target": {"type": "worker"}}
    answers = await bulk(client, body, body, {**body, "job_id": None})
    assert statuses(answers) == [201] * 3
    assert len({one["job_id"] for one in answers}) == 3


async def test_an_id_that_is_taken_keeps_its_job(client: httpx.AsyncClient, store: Store) -> None:
    await create(client, cron("a"))
    answers = await bulk(client, cron("a", timezone="UTC"), cron("b"), cron("b", timezone="UTC"))
    assert statuses(answers) == [409, 201, 409]
    assert answers[0]["code"] == "job_exists"
    assert answers[0]["errors"] == [{"pointer": "/job_id", "detail": answers[0]["detail"]}]
    assert (await get_job(store, "a")).job.timezone == "Asia/Tokyo"
    assert (await get_job(store, "b")).job.timezone == "Asia/Tokyo"


async def test_an_id_that_is_taken_is_replaced_where_that_is_asked(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, cron("a"))
    lines = (cron("a", timezone="UTC"), cron("b"), cron("b", payload=2), cron("a", queue="!"))
    answers = await bulk(client, *lines, on_conflict="replace")
    assert statuses(answers) == [200, 201, 200, 400]
    stored = await get_job(store, "a")
    assert (stored.job.timezone, stored.job.version) == ("UTC", 2)
    assert (await get_job(store, "b")).job.payload == b"2"


async def test_a_line_may_depend_on_one_above_it(client: httpx.AsyncClient, store: Store) -> None:
    worker = {"target": {"type": "worker"}}
    answers = await bulk(
        client,
        {**worker, "job_id": "a", "schedule_expr": "every 1h"},
        {**worker, "job_id": "b", "depends_on": ["a"]},
        {**worker, "job_id": "c", "depends_on": ["b", "later"]},
        {**worker, "job_id": "later"},
        {**worker, "job_id": "b", "depends_on": ["a"]},
        {**worker, "job_id": "d", "depends_on": ["later"]},
    )
    assert statuses(answers) == [201, 201, 400, 201, 409, 201]
    depends = (await get_job(store, "b")).job.depends
    assert depends is not None
    assert [up.job_id for up in depends.upstreams] == ["a"]


async def test_what_is_asked_beside_the_lines_is_checked(client: httpx.AsyncClient) -> None:
    body = ndjson(cron("a"))
    for content_type in ("application/json", "text/plain", ""):
        answer = await client.post(
            "/v1/jobs/bulk", content=body, headers={"Content-Type": content_type}
        )
        refused(answer, 415, "unsupported_media_type")
    answer = await client.post(
        "/v1/jobs/bulk", content=body, headers=NDJSON, params={"on_conflict": "merge"}
    )
    refused(answer, 400, "bad_input")
    for kind in ("application/jsonl", "application/x-ndjson; charset=utf-8"):
        answer = await client.post("/v1/jobs/bulk", content=b"", headers={"Content-Type": kind})
        assert (answer.status_code, answer.content) == (200, b"")


async def test_lines_are_found_wherever_the_body_is_cut(client: httpx.AsyncClient) -> None:
    whole = ndjson(cron("a"), cron("b")) + b"\r\n" + json.dumps(cron("c")).encode()
    for size in (1, 7, 64):
        await send(client, "bulk-delete", ndjson("a", "b", "c"))

        async def pieces(size: int = size) -> AsyncIterator[bytes]:
            for at in range(0, len(whole), size):
                yield whole[at : at + size]

        answer = await client.post("/v1/jobs/bulk", content=pieces(), headers=NDJSON)
        found = [json.loads(line) for line in answer.text.splitlines()]
        assert [(one["line"], one["status"]) for one in found] == [(1, 201), (2, 201), (4, 201)]


async def test_a_line_that_is_too_long_is_refused_and_passed_over(
    client: httpx.AsyncClient,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield ndjson(cron("a"))
        for _ in range(40):
            yield b"x" * 65_536
        yield b"\n" + ndjson(cron("b"))

    answer = await client.post("/v1/jobs/bulk", content=pieces(), headers=NDJSON)
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [(one["line"], one["status"]) for one in found] == [(1, 201), (2, 413), (3, 201)]
    assert found[1]["code"] == "too_large"


async def test_more_lines_than_there_may_be_are_left_alone(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "MOST_LINES", 2)
    answers = await bulk(client, *(cron(f"job-{n}") for n in range(5)))
    assert statuses(answers) == [201, 201, 413]
    assert "the rest in another" in answers[-1]["detail"]


async def test_a_batch_that_redis_refuses_is_answered_line_by_line(
    client: httpx.AsyncClient, store: Store
) -> None:
    await store.client.config_set("maxmemory", "1")
    try:
        answers = await bulk(client, cron("a"), b"{", cron("b"))
    finally:
        await store.client.config_set("maxmemory", "0")
    assert [(one["status"], one["code"]) for one in answers] == [
        (503, "unavailable"),
        (400, "bad_input"),
        (503, "unavailable"),
    ]


async def test_with_an_idempotency_key_lines_are_worked_off_once(
    client: httpx.AsyncClient,
) -> None:
    body, headers = ndjson(cron("a"), b"{"), {**NDJSON, "Idempotency-Key": "once"}
    first, again = [
        await client.post("/v1/jobs/bulk", content=body, headers=headers) for _ in range(2)
    ]
    assert first.text == again.text
    assert [json.loads(line)["status"] for line in first.text.splitlines()] == [201, 400]
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_no_answer_repeats_a_secret(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/v1/jobs/bulk", content=ndjson(cron("a", queue="!"), cron("a", color=1)), headers=NDJSON
    )
    assert SECRET not in answer.text


async def test_ids_or_objects_name_what_is_deleted(client: httpx.AsyncClient, store: Store) -> None:
    await bulk(client, *(cron(f"job-{n}") for n in range(4)))
    body = ndjson("job-0", {"job_id": "job-1"}, "job-0", "nowhere", "a b", 5, {"id": "job-2"})
    answers = await send(client, "bulk-delete", body)
    assert statuses(answers) == [204, 204, 404, 404, 400, 400, 400]
    assert answers[0] == {"line": 1, "job_id": "job-0", "status": 204}
    page = (await client.get("/v1/jobs")).json()
    assert [job["job_id"] for job in page["jobs"]] == ["job-2", "job-3"]


@pytest.mark.parametrize(
    ("dependents", "expected", "left"),
    [("refuse", [409, 204], ["a"]), ("cascade", [204, 404], []), ("detach", [204, 204], [])],
)
async def test_it_is_said_what_becomes_of_dependents(
    client: httpx.AsyncClient, dependents: str, expected: list[int], left: list[str]
) -> None:
    worker = {"target": {"type": "worker"}}
    await bulk(
        client,
        {**worker, "job_id": "a", "schedule_expr": "every 1h"},
        {**worker, "job_id": "b", "depends_on": ["a"]},
    )
    answers = await send(client, "bulk-delete", ndjson("a", "b"), dependents=dependents)
    assert statuses(answers) == expected
    page = (await client.get("/v1/jobs")).json()
    assert [job["job_id"] for job in page["jobs"]] == left


async def test_what_depends_is_deleted_before_what_it_depends_on(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    before = await keyspace()
    worker = {"target": {"type": "worker"}}
    await bulk(
        client,
        {**worker, "job_id": "a", "schedule_expr": "every 1h"},
        {**worker, "job_id": "b", "depends_on": ["a"]},
    )
    assert statuses(await send(client, "bulk-delete", ndjson("b", "a"))) == [204, 204]
    assert [len(shard) for shard in await keyspace()] >= [len(shard) for shard in before]


@pytest.mark.parametrize(
    ("quotas", "code"),
    [({"rate": 0.01, "burst": 3}, "rate_limited"), ({"max_jobs": 2}, "quota_exceeded")],
)
async def test_each_line_counts_against_what_a_key_may_have(
    store: Store, clock: ManualClock, quotas: dict[str, Any], code: str
) -> None:
    key = await make_key(store, "write", groups=("a",), **quotas)
    lines = ndjson(*(cron(f"job-{n}", group="a") for n in range(3)))
    async with asking(store, clock) as client:
        headers = NDJSON | bearer(key)
        answer = await client.post("/v1/jobs/bulk", content=lines, headers=headers)
    found = [json.loads(line) for line in answer.text.splitlines()]
    # The request itself counts, too.
    assert [one["status"] for one in found] == [201, 201, 429]
    assert found[-1]["code"] == code
