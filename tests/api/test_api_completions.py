"""Ends over HTTP beyond the plain one: fail, final, asked waits, and many in one request."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import (
    AT_ONCE,
    MINUTE,
    NOW,
    Read,
    claim,
    create,
    let_lease_run_out,
    pointers,
    refused,
)

from engine.clock import ManualClock
from engine.store import Store

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

MANY = "/internal/executions/complete"
RETRY = {"max_attempts": 3, "base_ms": 5_000, "jitter": "none", "max_ms": 60_000}


async def end(client: httpx.AsyncClient, how: str, **body: Any) -> httpx.Response:
    """End an execution of the job `mail`, which is claimed for it."""
    claimed = await claim(client)
    path = f"/internal/executions/{claimed['execution_id']}/{how}"
    return await client.post(path, json={"lease": claimed["lease"], **body})


async def attempt_of(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return the newest attempt of the job `mail`."""
    [execution] = (await client.get("/v1/jobs/mail/executions")).json()
    newest: dict[str, Any] = execution["attempts"][0]
    return newest


async def test_fail_is_complete_with_status_failed(client: httpx.AsyncClient) -> None:
    await create(client, {**AT_ONCE, "retry": RETRY})
    answer = await end(client, "fail", error="no such mailbox", status_code=502, duration_ms=7)
    assert answer.json() == {
        "execution_id": f"mail@{NOW}",
        "status": "retrying",
        "already": False,
        "retry_at": "2027-01-15T08:00:05.000Z",
    }
    attempt = await attempt_of(client)
    shown = [attempt[name] for name in ("outcome", "error", "status_code", "duration_ms")]
    assert shown == ["failed", "no such mailbox", 502, 7]


@pytest.mark.parametrize("how", ["fail", "complete"])
async def test_a_final_failure_is_not_tried_again(client: httpx.AsyncClient, how: str) -> None:
    await create(client, {**AT_ONCE, "retry": RETRY})
    status = {"status": "failed"} if how == "complete" else {}
    answer = await end(client, how, final=True, **status)
    assert (answer.json()["status"], "retry_at" in answer.json()) == ("dead", False)
    assert (await attempt_of(client))["outcome"] == "dead"


@pytest.mark.parametrize(
    ("asked_ms", "retry_at"),
    [(0, "08:00:05"), (20_000, "08:00:20"), (90_000, "08:01:00")],
)
async def test_the_next_attempt_waits_as_asked_within_the_policy(
    client: httpx.AsyncClient, asked_ms: int, retry_at: str
) -> None:
    await create(client, {**AT_ONCE, "retry": RETRY})
    answer = await end(client, "fail", retry_after_ms=asked_ms)
    assert answer.json()["retry_at"] == f"2027-01-15T{retry_at}.000Z"


async def test_a_repeat_of_a_failure_after_the_deadline_is_already_recorded(
    client: httpx.AsyncClient, clock: ManualClock, keyspace: Read
) -> None:
    # The first time another attempt follows; by now it would be the last one.
    await create(client, {**AT_ONCE, "retry": {**RETRY, "deadline_ms": MINUTE}})
    claimed = await claim(client)
    path = f"/internal/executions/{claimed['execution_id']}/fail"
    first = await client.post(path, json={"lease": claimed["lease"]})
    assert first.json()["status"] == "retrying"
    clock.advance(2 * MINUTE)
    before = await keyspace()
    again = await client.post(path, json={"lease": claimed["lease"]})
    assert again.json() == {"execution_id": f"mail@{NOW}", "status": "retrying", "already": True}
    assert await keyspace() == before


async def test_the_failure_that_the_next_holder_reports_is_not_that_of_who_lost_the_lease(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, {**AT_ONCE, "retry": RETRY})
    lost = await claim(client)
    await let_lease_run_out(store)
    path = f"/internal/executions/{lost['execution_id']}/fail"
    assert (await end(client, "fail")).json()["already"] is False
    refused(await client.post(path, json={"lease": lost["lease"]}), 409, "stale_delivery")


@pytest.mark.parametrize(
    ("how", "body", "pointer"),
    [
        ("complete", {"status": "succeeded", "final": True}, "/final"),
        ("complete", {"status": "succeeded", "retry_after_ms": 5}, "/retry_after_ms"),
        ("complete", {}, "/status"),
        ("fail", {"status": "failed"}, "/status"),
        ("fail", {"retry_after_ms": -1}, "/retry_after_ms"),
        ("fail", {"final": "yes"}, "/final"),
    ],
)
async def test_a_wrong_end_names_the_field_and_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read, how: str, body: dict[str, Any], pointer: str
) -> None:
    await create(client, AT_ONCE)
    claimed = await claim(client)
    before = await keyspace()
    path = f"/internal/executions/{claimed['execution_id']}/{how}"
    answer = await client.post(path, json={"lease": claimed["lease"], **body})
    assert pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert await keyspace() == before


# Many in one request


async def claim_many(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """Return what proves so many executions, oldest job first."""
    for n in range(count):
        await create(client, {**AT_ONCE, "job_id": f"mail-{n}", "retry": RETRY})
    body = {"worker": "w1", "max": count}
    claims = (await client.post("/internal/executions/claim", json=body)).json()
    proofs = [{"execution_id": c["execution_id"], "lease": c["lease"]} for c in claims]
    return sorted(proofs, key=lambda proof: proof["execution_id"])


async def test_many_ends_are_answered_each_by_itself(client: httpx.AsyncClient) -> None:
    done, failed, lost, foreign = await claim_many(client, 4)
    lost_path = f"/internal/executions/{lost['execution_id']}/complete"
    await client.post(lost_path, json={"status": "failed", "lease": lost["lease"]})
    answer = await client.post(
        MANY,
        json=[
            {**lost, "status": "succeeded"},
            {**done, "status": "succeeded"},
            {**foreign, "execution_id": done["execution_id"], "status": "succeeded"},
            {**failed, "status": "failed", "error": "later", "retry_after_ms": 7_000},
        ],
    )
    assert answer.status_code == 200
    stale, *ended = answer.json()
    other = ended.pop(1)
    for one, execution_id in ((stale, lost), (other, done)):
        assert (one["execution_id"], one["code"]) == (
            execution_id["execution_id"],
            "stale_delivery",
        )
        assert one["detail"]
    assert ended == [
        {"execution_id": done["execution_id"], "status": "succeeded", "already": False},
        {
            "execution_id": failed["execution_id"],
            "status": "retrying",
            "already": False,
            "retry_at": "2027-01-15T08:00:07.000Z",
        },
    ]


async def test_many_ends_sent_again_are_already_recorded(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    ends = [{**proof, "status": "succeeded"} for proof in await claim_many(client, 3)]
    await client.post(MANY, json=ends)
    before = await keyspace()
    again = (await client.post(MANY, json=ends)).json()
    assert [one["already"] for one in again] == [True] * 3
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"lease": "nonsense"}, ["/1/lease"]),
        ({"status": "lost"}, ["/1/status"]),
        ({"final": True}, ["/1/final"]),
        ({"more": 1}, ["/1/more"]),
    ],
)
async def test_one_that_cannot_be_read_refuses_all_and_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read, change: dict[str, Any], where: list[str]
) -> None:
    ends = [{**proof, "status": "succeeded"} for proof in await claim_many(client, 2)]
    before = await keyspace()
    answer = await client.post(MANY, json=[ends[0], {**ends[1], **change}])
    assert pointers(refused(answer, 400, "bad_input")) == where
    assert await keyspace() == before


async def test_a_lease_that_stands_twice_refuses_all(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    [proof] = await claim_many(client, 1)
    before = await keyspace()
    ends = [{**proof, "status": status} for status in ("succeeded", "failed")]
    refused(await client.post(MANY, json=ends), 400, "bad_input")
    assert await keyspace() == before


@pytest.mark.parametrize("body", [b"[]", b"{}", b"null", b"[" + b",".join([b"{}"] * 101) + b"]"])
async def test_what_is_no_array_of_ends_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post(MANY, content=body, headers={"content-type": "application/json"})
    assert refused(answer, 400, "bad_input")["errors"] == []


async def test_ends_are_taken_as_json_only(client: httpx.AsyncClient) -> None:
    answer = await client.post(MANY, content=b"[]", headers={"content-type": "text/plain"})
    refused(answer, 415, "unsupported_media_type")
