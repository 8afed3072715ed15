"""What callers make up: limits and cursors, lines of the log, completions. Rows 102, 106 and 107 of
the list of abuses.
"""

from __future__ import annotations

import logging

import httpx
import pytest
from calling import AT_ONCE, CRON, Read, claim, create, refused
from calling import client as client
from calling import clock as clock
from calling import keyspace as keyspace
from fleet import keep
from keyed import asking, bearer, make_key

from engine.clock import ManualClock
from engine.logs import OneLine
from engine.store import Store


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/dead", "/v1/queues", "/v1/hosts", "/v1/groups"])
@pytest.mark.parametrize("limit", ["1000000000", "-1", "0", "1e9", "nan", ""])
async def test_row_102_a_limit_that_no_page_has_is_refused(
    client: httpx.AsyncClient, path: str, limit: str
) -> None:
    problem = refused(await client.get(path, params={"limit": limit}), 400, "bad_input")
    assert problem["errors"][0]["parameter"] == "limit"


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("/v1/jobs", "-1 x"),
        ("/v1/dead", "-1"),
        ("/v1/dead", "1-nothing"),
        ("/v1/dead", "99999999999999999-a@1"),
        ("/v1/executions", "1-7-a"),
        ("/v1/jobs/report/executions", "x"),
    ],
)
async def test_row_102_a_forged_cursor_is_refused(
    client: httpx.AsyncClient, path: str, after: str
) -> None:
    await create(client, CRON)
    problem = refused(await client.get(path, params={"after": after}), 400, "bad_input")
    assert problem["errors"][0]["parameter"] == "after"


@pytest.mark.parametrize("name", ["a\n2026-11-30 ERROR hacked", "a\x1b[2J", "\u202ekey"])
async def test_row_106_a_line_of_the_log_is_not_forged(
    store: Store, clock: ManualClock, name: str
) -> None:
    key = bearer(await make_key(store))
    async with asking(store, clock) as client:
        body = {"name": name, "scopes": ["read"]}
        refused(await client.post("/v1/keys", json=body, headers=key), 400, "bad_input")
        refused(
            await client.post("/v1/jobs", json={**CRON, "job_id": name}, headers=key),
            400,
            "bad_input",
        )
    record = logging.makeLogRecord({"msg": "job %s", "args": (name,), "levelname": "INFO"})
    assert OneLine().format(record).isprintable()


async def test_row_107_a_stale_completion_changes_nothing(
    client: httpx.AsyncClient, keyspace: Read
) -> None:
    await create(client, AT_ONCE)
    claimed = await claim(client)
    path = f"/internal/executions/{claimed['execution_id']}/complete"
    done = {"status": "succeeded", "lease": claimed["lease"]}
    assert (await client.post(path, json=done)).status_code == 200
    before = await keyspace()
    other = {"status": "failed", "lease": claimed["lease"]}
    refused(await client.post(path, json=other), 409, "stale_delivery")
    foreign = path.replace("mail@", "mole@")
    refused(await client.post(foreign, json=done), 409, "stale_delivery")
    assert (await client.post(path, json=done)).json()["already"] is True
    assert await keyspace() == before


async def test_row_107_a_completion_of_an_attempt_that_is_over_changes_nothing(
    client: httpx.AsyncClient, store: Store, clock: ManualClock, keyspace: Read
) -> None:
    await create(client, {**AT_ONCE, "retry": {"jitter": "none"}})
    first = await claim(client)
    path = f"/internal/executions/{first['execution_id']}/complete"
    failed = {"status": "failed", "lease": first["lease"]}
    assert (await client.post(path, json=failed)).status_code == 200
    clock.advance(1_000)
    keeper, scheduler = keep(store, clock)
    await keeper.step()
    await scheduler.step()
    second = await claim(client)
    assert (second["execution_id"], second["attempt"]) == (first["execution_id"], 2)
    before = await keyspace()
    done = {"status": "succeeded", "lease": first["lease"]}
    refused(await client.post(path, json=done), 409, "stale_delivery")
    assert await keyspace() == before
