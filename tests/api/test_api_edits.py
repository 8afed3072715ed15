"""Jobs that are replaced and patched: what changes, what stays, and who may not write."""

from __future__ import annotations

from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, MINUTE, Read, create, pointers, refused, version_of

from api.edits import merge
from engine.clock import ManualClock

client = calling.client
clock = calling.clock
keyspace = calling.keyspace

BODY = {name: value for name, value in CRON.items() if name != "job_id"}


async def test_put_creates_a_job_and_then_replaces_it(client: httpx.AsyncClient) -> None:
    created = await client.put("/v1/jobs/report", json={**BODY, "max_runs": 5})
    assert (created.status_code, created.headers["location"]) == (201, "/v1/jobs/report")
    assert version_of(created) == 1
    replaced = await client.put("/v1/jobs/report", json={**BODY, "schedule_expr": "0 10 * * *"})
    assert (replaced.status_code, version_of(replaced)) == (200, 2)
    job = replaced.json()
    assert job == (await client.get("/v1/jobs/report")).json()
    assert (job["version"], job["next_run_at"]) == (2, "2027-01-16T01:00:00.000Z")
    assert (job["max_runs"], job["runs_left"]) == (None, None)


async def test_a_replaced_schedule_skips_what_was_overdue_with_a_record(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await create(client, {**CRON, "schedule_expr": "* * * * *"})
    clock.advance(2 * MINUTE)
    job = (await client.put("/v1/jobs/report", json={**BODY, "schedule_expr": "@daily"})).json()
    assert job["next_run_at"] == "2027-01-15T15:00:00.000Z"
    [skipped] = (await client.get("/v1/jobs/report/executions")).json()
    assert (skipped["reason"], skipped["count"]) == ("edited", 2)


async def test_a_patch_changes_what_it_names_and_null_resets(client: httpx.AsyncClient) -> None:
    given = {"retry": {"max_attempts": 7, "base_ms": 5}, "max_runs": 4, "payload": {"a": 1, "b": 2}}
    created = await create(client, {**CRON, **given})
    changed = {"retry": {"base_ms": None}, "max_runs": None, "payload": {"b": None, "c": 3}}
    answer = await client.patch("/v1/jobs/report", json=changed)
    assert (answer.status_code, version_of(answer)) == (200, 2)
    assert answer.json() == {
        **created,
        "version": 2,
        "retry": {**created["retry"], "base_ms": 1_000},
        "max_runs": None,
        "runs_left": None,
        "payload": {"a": 1, "c": 3},
    }


async def test_a_patch_of_the_target_keeps_an_intervals_phase(
    client: httpx.AsyncClient, clock: ManualClock
) -> None:
    created = await create(client, {**CRON, "schedule_expr": "every 10m"})
    clock.advance(MINUTE)
    answer = await client.patch("/v1/jobs/report", json={"target": {"timeout_ms": 500}})
    job = answer.json()
    assert job["target"] == {**created["target"], "timeout_ms": 500}
    assert job["next_run_at"] == created["next_run_at"]


async def test_a_patch_may_be_sent_under_its_own_media_type_and_nothing_else_may(
    client: httpx.AsyncClient,
) -> None:
    await create(client, CRON)
    as_patch = {"Content-Type": "application/merge-patch+json"}
    body = b'{"timezone": "Asia/Tokyo"}'
    answer = await client.patch("/v1/jobs/report", content=body, headers=as_patch)
    assert answer.json()["timezone"] == "Asia/Tokyo"
    answer = await client.put("/v1/jobs/report", content=body, headers=as_patch)
    assert answer.status_code == 415


async def test_a_patch_may_change_the_targets_type_and_its_usual_queue(
    client: httpx.AsyncClient,
) -> None:
    await create(client, CRON)
    job = (await client.patch("/v1/jobs/report", json={"target": {"type": "worker"}})).json()
    target = {"type": "worker", "handler": None, "timeout_ms": None}
    assert (job["target"], job["queue"]) == (target, "default")


async def test_a_job_that_ran_at_once_does_not_run_again_when_patched(
    client: httpx.AsyncClient,
) -> None:
    await create(client, AT_ONCE)
    job = (await client.patch("/v1/jobs/mail", json={"overlap": "allow"})).json()
    assert (job["state"], job["live_executions"]) == ("completed", 1)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("tag", ['"2"', 'W/"1"', '"x"'])
async def test_another_version_than_if_match_names_is_left_alone(
    client: httpx.AsyncClient, keyspace: Read, method: str, tag: str
) -> None:
    await create(client, CRON)
    before = await keyspace()
    answer = await client.request(method, "/v1/jobs/report", json=BODY, headers={"If-Match": tag})
    refused(answer, 412, "precondition_failed")
    assert await keyspace() == before
    right = {"If-Match": '"1"'}
    answer = await client.request(method, "/v1/jobs/report", json=BODY, headers=right)
    assert answer.status_code == 200


async def test_if_match_creates_no_job(client: httpx.AsyncClient, keyspace: Read) -> None:
    before = await keyspace()
    answer = await client.put("/v1/jobs/report", json=BODY, headers={"If-Match": '"1"'})
    refused(answer, 412, "precondition_failed")
    refused(await client.patch("/v1/jobs/report", json={}), 404, "not_found")
    assert await keyspace() == before


@pytest.mark.parametrize(
    ("method", "body", "pointer"),
    [
        ("PUT", {**BODY, "job_id": "other"}, "/job_id"),
        ("PUT", {"schedule_expr": "@daily"}, "/target"),
        ("PATCH", {"job_id": "other"}, "/job_id"),
        ("PATCH", {"max_runs": 0}, "/max_runs"),
        ("PATCH", {"target": None}, "/target"),
        ("PATCH", {"state": "paused"}, "/state"),
    ],
)
async def test_a_wrong_edit_names_the_field_and_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read, method: str, body: dict[str, Any], pointer: str
) -> None:
    await create(client, CRON)
    before = await keyspace()
    answer = await client.request(method, "/v1/jobs/report", json=body)
    assert pointers(refused(answer, 400, "bad_input")) == [pointer]
    assert await keyspace() == before


async def test_a_worker_target_names_its_handler_and_is_patched(client: httpx.AsyncClient) -> None:
    target = {"type": "worker", "handler": "send_mail", "timeout_ms": 5_000}
    created = await create(client, {**AT_ONCE, "target": target})
    assert created["target"] == target
    answer = await client.patch("/v1/jobs/mail", json={"target": {"timeout_ms": None}})
    assert answer.status_code == 200, answer.text
    assert answer.json()["target"] == {**target, "timeout_ms": None}


async def test_concurrency_is_kept_and_shown(client: httpx.AsyncClient) -> None:
    await create(client, {**CRON, "concurrency": 3})
    assert (await client.get("/v1/jobs/report")).json()["concurrency"] == 3
    answer = await client.patch("/v1/jobs/report", json={"overlap": "replace"})
    assert pointers(refused(answer, 400, "bad_input")) == ["/concurrency"]


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": ["c"]}, {"a": ["c"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7396_hold(target: Any, patch: Any, merged: Any) -> None:
    assert merge(target, patch) == merged


async def test_a_body_that_leaves_the_id_to_the_path_may_say_so_with_null(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.put("/v1/jobs/report", json={**CRON, "job_id": None})
    assert answer.status_code == 201
    assert answer.json()["job_id"] == "report"
