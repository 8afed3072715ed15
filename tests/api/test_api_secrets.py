"""Secrets of webhooks over HTTP: shown once, two at the most, and what a signed job must say."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import CRON, MINUTE, NOW_TEXT, Read, create, pointers, refused

from engine.access import ANYONE, Caller, Scope
from engine.clock import ManualClock
from engine.store import Store
from engine.webhooks import parse_secret, secret_text

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

OWN = secret_text(bytes(range(32)))
JOB, ACME = "/v1/jobs/report/secrets", "/v1/groups/acme/secrets"
SIGNED: dict[str, Any] = {**CRON, "target": {**CRON["target"], "signing": "job"}}


async def made(client: httpx.AsyncClient, path: str = ACME, **body: Any) -> dict[str, Any]:
    """Return the answer that holds a secret."""
    answer = await client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    found: dict[str, Any] = answer.json()
    return found


async def listed(client: httpx.AsyncClient, path: str = ACME) -> list[dict[str, Any]]:
    answer = await client.get(path)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["secrets"]
    return found


@pytest.mark.parametrize("path", [JOB, ACME])
async def test_a_secret_is_answered_once_and_never_listed(
    client: httpx.AsyncClient, path: str
) -> None:
    await create(client, SIGNED)
    answer = await client.post(path)
    assert answer.status_code == 201
    first = answer.json()
    assert len(parse_secret(first.pop("secret"))) == 32
    assert first == {"id": first["id"], "created_at": NOW_TEXT, "expires_at": None}
    assert await listed(client, path) == [first]
    second = await made(client, path, overlap_ms=MINUTE)
    del second["secret"]
    ending = {**first, "expires_at": "2027-01-15T08:01:00.000Z"}
    assert await listed(client, path) == [second, ending]


async def test_no_answer_about_a_job_holds_its_secret(client: httpx.AsyncClient) -> None:
    await create(client, SIGNED)
    secret = (await made(client, JOB, secret=OWN))["secret"]
    assert secret == OWN
    for path in ("/v1/jobs", "/v1/jobs/report", JOB, "/v1/jobs/report/executions"):
        answer = await client.get(path)
        assert answer.status_code == 200
        assert OWN not in answer.text
        assert "signed_by" not in answer.text


async def test_a_third_secret_and_time_end_the_first(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    ids = [(await made(client))["id"] for _ in range(3)]
    assert [one["id"] for one in await listed(client)] == [ids[2], ids[1]]
    clock.advance(86_400_000)
    assert [one["id"] for one in await listed(client)] == [ids[2]]


async def test_a_secret_is_deleted_by_its_id(client: httpx.AsyncClient) -> None:
    first, second = await made(client), await made(client)
    answer = await client.delete(f"{ACME}/{second['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert [(one["id"], one["expires_at"]) for one in await listed(client)] == [(first["id"], None)]
    refused(await client.delete(f"{ACME}/{second['id']}"), 404, "not_found")
    refused(await client.delete(f"/v1/groups/other/secrets/{first['id']}"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"secret": "hunter2"}, "/secret"),
        ({"secret": "whsec_hunter2!"}, "/secret"),
        ({"secret": secret_text(bytes(23))}, "/secret"),
        ({"secret": secret_text(bytes(65))}, "/secret"),
        ({"secret": 5}, "/secret"),
        ({"overlap_ms": -1}, "/overlap_ms"),
        ({"overlap_ms": 30 * 86_400_000 + 1}, "/overlap_ms"),
        ({"overlap_ms": "5"}, "/overlap_ms"),
        ({"hunter2": True}, "/hunter2"),
    ],
)
async def test_a_wrong_body_is_refused_by_field_and_makes_nothing(
    client: httpx.AsyncClient, body: dict[str, Any], pointer: str
) -> None:
    problem = refused(await client.post(ACME, json=body), 400, "bad_input")
    assert pointers(problem) == [pointer]
    if "secret" in body:
        assert str(body["secret"]) not in str(problem["errors"][0]["detail"])
        assert "hunter2" not in str(problem)
    assert await listed(client) == []


async def test_a_secret_that_another_has_is_refused_without_saying_who(
    client: httpx.AsyncClient,
) -> None:
    await made(client, secret=OWN)
    answer = await client.post("/v1/groups/other/secrets", json={"secret": OWN})
    problem = refused(answer, 400, "bad_input")
    assert pointers(problem) == ["/secret"]
    assert "acme" not in answer.text
    assert OWN not in answer.text
    assert await listed(client, "/v1/groups/other/secrets") == []


@pytest.mark.parametrize("path", ["/v1/jobs/nobody", "/v1/jobs/a@b", "/v1/groups/no%20group"])
async def test_what_is_not_there_has_no_secrets(client: httpx.AsyncClient, path: str) -> None:
    refused(await client.post(f"{path}/secrets"), 404, "not_found")
    refused(await client.get(f"{path}/secrets"), 404, "not_found")
    refused(await client.delete(f"{path}/secrets/sec_1"), 404, "not_found")


async def test_for_a_caller_of_one_group_there_are_no_others(
    client: httpx.AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(client, {**SIGNED, "group": "acme"})
    secret = await made(client, JOB)
    await made(client)
    for group, is_there in (("acme", True), ("other", False)):
        caller = Caller("k", frozenset({Scope.WRITE}), frozenset({group}))
        monkeypatch.setattr("api.secrets.caller_of", lambda _, one=caller: one)
        for path in (JOB, ACME):
            if is_there:
                assert len(await listed(client, path)) == 1
                continue
            refused(await client.get(path), 404, "not_found")
            refused(await client.post(path), 404, "not_found")
            refused(await client.delete(f"{path}/{secret['id']}"), 404, "not_found")
    monkeypatch.setattr("api.secrets.caller_of", lambda _: ANYONE)
    assert [len(await listed(client, path)) for path in (JOB, ACME)] == [1, 1]


async def test_a_deleted_jobs_secrets_are_not_those_of_the_next(client: httpx.AsyncClient) -> None:
    await create(client, SIGNED)
    await made(client, JOB, secret=OWN)
    assert (await client.delete("/v1/jobs/report")).status_code == 204
    await create(client, SIGNED)
    assert await listed(client, JOB) == []
    await made(client, ACME, secret=OWN)


# What a job may ask for


async def test_signing_is_kept_shown_and_taken_back(client: httpx.AsyncClient) -> None:
    shown = await create(client, SIGNED)
    assert (shown["target"]["signing"], shown["target"]["template"]) == ("job", False)
    for signing in ("group", None):
        body = {"group": "acme", "target": {"signing": signing}}
        answer = await client.patch("/v1/jobs/report", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["target"] == {**shown["target"], "signing": signing}


@pytest.mark.parametrize(
    ("job", "pointer"),
    [
        ({"target": {"signing": "group"}}, "/target/signing"),
        ({"target": {"signing": "job"}, "payload": 1800000000.5}, "/payload"),
        ({"target": {"template": True}, "payload": ["{{jobid}}"]}, "/payload"),
        ({"target": {"template": True, "url": "https://a.test/{{x}}"}}, "/target/url"),
        ({"target": {"template": True, "headers": {"A": "{{x}}"}}}, "/target/headers/A"),
    ],
)
async def test_what_cannot_be_signed_or_filled_in_is_refused_by_field(
    client: httpx.AsyncClient, keyspace: Read, job: dict[str, Any], pointer: str
) -> None:
    before = await keyspace()
    body = {**CRON, **job, "target": {**CRON["target"], **job["target"]}}
    problem = refused(await client.post("/v1/jobs", json=body), 400, "bad_input")
    assert pointers(problem) == [pointer]
    assert await keyspace() == before


async def test_a_template_that_is_known_is_taken_as_it_is(client: httpx.AsyncClient) -> None:
    url = "https://a.test/{{job_id}}?t=<aws.scheduler.scheduled-time>"
    body = {**CRON, "target": {"type": "http", "url": url, "template": True}}
    shown = await create(client, {**body, "payload": {"id": "{{execution_id}}"}})
    assert (shown["target"]["url"], shown["payload"]) == (url, {"id": "{{execution_id}}"})


@pytest.mark.parametrize(
    "name", ["webhook-id", "Webhook-Timestamp", "WEBHOOK-SIGNATURE", "traceparent"]
)
async def test_headers_that_sign_and_trace_are_not_a_jobs_own(
    client: httpx.AsyncClient, name: str
) -> None:
    body = {**CRON, "target": {**CRON["target"], "headers": {name: "x"}}}
    refused(await client.post("/v1/jobs", json=body), 400, "bad_input")
