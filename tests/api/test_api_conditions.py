"""If-Match and If-None-Match: nobody undoes what others wrote, or reads again what stands."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from calling import CRON, Read, create, refused, version_of
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace

from api.conditions import Conditions
from engine.clock import ManualClock
from engine.errors import Conflict
from engine.store import Store
from engine.store.jobs import get_job
from engine.store.registering import Dependents, remove_job

JOB = "/v1/jobs/report"
CALENDAR = "/v1/calendars/holidays"
BODY = {name: value for name, value in CRON.items() if name != "job_id"}


@pytest.mark.parametrize("path", [JOB, CALENDAR])
async def test_what_has_not_changed_is_not_sent_again(client: httpx.AsyncClient, path: str) -> None:
    body = BODY if path == JOB else {}
    await client.put(path, json=body)
    tag = (await client.get(path)).headers["etag"]
    for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        answer = await client.get(path, headers={"If-None-Match": given})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    await client.put(path, json=body)
    answer = await client.get(path, headers={"If-None-Match": tag})
    assert (answer.status_code, version_of(answer)) == (200, 2)


async def test_a_job_that_changed_by_itself_is_sent_again_and_may_be_written(
    client: httpx.AsyncClient,
) -> None:
    """Its state and its live executions are no part of its version."""
    await create(client, CRON)
    tag = (await client.get(JOB)).headers["etag"]
    await client.post(f"{JOB}/run")
    answer = await client.get(JOB, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.json()["live_executions"]) == (200, 1)
    assert version_of(answer) == 1
    assert answer.headers["etag"] != tag
    written = await client.put(JOB, json=BODY, headers={"If-Match": tag})
    assert (written.status_code, version_of(written)) == (200, 2)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_a_job_that_was_deleted_and_made_anew_is_another_one(
    client: httpx.AsyncClient, clock: ManualClock, keyspace: Read, method: str
) -> None:
    """It has the old one's version, and not its ETag."""
    old = (await client.put(JOB, json=BODY)).headers["etag"]
    assert (await client.delete(JOB, headers={"If-Match": old})).status_code == 204
    clock.advance(1)
    new = (await client.put(JOB, json=BODY)).headers["etag"]
    before = await keyspace()
    body = None if method == "DELETE" else BODY
    answer = await client.request(method, JOB, headers={"If-Match": old}, json=body)
    refused(answer, 412, "precondition_failed")
    assert await keyspace() == before
    answer = await client.request(method, JOB, headers={"If-Match": new}, json=body)
    assert answer.status_code in (200, 204)


@pytest.mark.parametrize("path", [JOB, CALENDAR])
async def test_what_is_only_to_be_made_is_left_alone_where_it_is(
    client: httpx.AsyncClient, keyspace: Read, path: str
) -> None:
    body = BODY if path == JOB else {}
    made = {"If-None-Match": "*"}
    assert (await client.put(path, json=body, headers=made)).status_code == 201
    before = await keyspace()
    refused(await client.put(path, json=body, headers=made), 412, "precondition_failed")
    assert await keyspace() == before
    assert version_of(await client.get(path)) == 1


@pytest.mark.parametrize("path", [JOB, CALENDAR])
async def test_of_many_that_make_the_same_at_once_one_does(
    client: httpx.AsyncClient, path: str
) -> None:
    body = BODY if path == JOB else {}
    answers = await asyncio.gather(
        *(client.put(path, json=body, headers={"If-None-Match": "*"}) for _ in range(20))
    )
    codes = sorted(answer.status_code for answer in answers)
    assert codes[0] == 201
    assert set(codes[1:]) <= {409, 412}


@pytest.mark.parametrize("path", [JOB, CALENDAR])
async def test_what_must_be_there_is_not_made(client: httpx.AsyncClient, path: str) -> None:
    body = BODY if path == JOB else {}
    answer = await client.put(path, json=body, headers={"If-Match": "*"})
    refused(answer, 412, "precondition_failed")
    refused(await client.get(path), 404, "not_found")
    await client.put(path, json=body)
    answer = await client.put(path, json=body, headers={"If-Match": "*"})
    assert answer.status_code == 200


@pytest.mark.parametrize("tag", ['"2"', 'W/"1"', '"x"', ""])
async def test_a_job_of_another_version_is_not_deleted(
    client: httpx.AsyncClient, keyspace: Read, tag: str
) -> None:
    await create(client, CRON)
    before = await keyspace()
    refused(await client.delete(JOB, headers={"If-Match": tag}), 412, "precondition_failed")
    assert await keyspace() == before


@pytest.mark.parametrize("tag", ['"1"', '"7", "1"', "*", None])
async def test_a_job_of_that_version_is_deleted(client: httpx.AsyncClient, tag: str | None) -> None:
    await create(client, CRON)
    given = {"If-Match": tag or (await client.get(JOB)).headers["etag"]}
    assert (await client.delete(JOB, headers=given)).status_code == 204
    refused(await client.delete(JOB, headers=given), 404, "not_found")


@pytest.mark.parametrize("dependents", [*Dependents])
async def test_a_job_that_is_written_before_it_is_deleted_stays(
    client: httpx.AsyncClient, store: Store, dependents: Dependents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the very moment: the script has the last word, whatever was read before it."""
    stale = await _read_before_a_write(client, store)

    async def read(*_: object) -> object:
        return stale

    monkeypatch.setattr("engine.store.registering.get_job", read)
    with pytest.raises(Conflict, match="has changed since it was read"):
        await remove_job(store, "report", 0, dependents, version=1)
    assert version_of(await client.get(JOB)) == 2


async def _read_before_a_write(client: httpx.AsyncClient, store: Store) -> object:
    await create(client, CRON)
    stale = await get_job(store, "report")
    assert (await client.put(JOB, json=BODY)).status_code == 200
    return stale


@pytest.mark.parametrize("dependents", ["cascade", "detach"])
async def test_a_job_of_another_version_keeps_what_depends_on_it(
    client: httpx.AsyncClient, store: Store, keyspace: Read, dependents: str
) -> None:
    await create(client, CRON)
    await create(client, {**BODY, "job_id": "b", "schedule_expr": None, "depends_on": ["report"]})
    before = await keyspace()
    with pytest.raises(Conflict, match="has changed since it was read"):
        await remove_job(store, "report", 0, Dependents(dependents), version=2)
    assert await keyspace() == before


def test_without_conditions_all_is_let_through() -> None:
    Conditions().check(None)
    Conditions().check(7)
