"""Jobs that call this API itself, which could make jobs without end: row 29 of the abuse list."""

from __future__ import annotations

import asyncio
from typing import Any

import calling
import httpx
import pytest
from calling import CRON, Read, create, pointers, refused
from fleet import ON_LOOPBACK
from reaching import reaching, target, work

from api.server import serve
from engine.clock import ManualClock
from engine.store import Store

clock = calling.clock
client = calling.client
keyspace = calling.keyspace

OWN = {
    "public_url": "https://wc.example/base",
    "api_url": "http://api.example:8080",
    "host": "127.0.0.1",
    "port": 8787,
}


@pytest.mark.parametrize(
    ("url", "is_own"),
    [
        ("https://wc.example/v1/jobs", True),
        ("https://WC.example:443/", True),
        ("http://wc.example/", False),
        ("http://api.example:8080/", True),
        ("http://api.example:8081/", False),
        ("http://127.0.0.1:8787/", True),
        ("http://localhost:8787/", True),
        ("http://[::1]:8787/", True),
        ("http://127.0.0.1:8788/", False),
    ],
    ids=lambda value: f"row_29_{value}" if isinstance(value, str) else None,
)
async def test_the_urls_of_this_api_are_no_targets(
    store: Store, clock: ManualClock, url: str, is_own: bool
) -> None:
    allowed = {**OWN, "allow_networks": "127.0.0.0/8,::1"}
    config = store.config.model_copy(update=allowed)
    async with calling.calling(config, store, clock) as client:
        answer = await client.post("/v1/jobs", json={**CRON, **target(url)})
        assert answer.status_code == (403 if is_own else 201)
        if is_own:
            assert pointers(refused(answer, 403, "loop")) == ["/target/url"]


WRITES = [
    ("POST", "/v1/jobs", CRON),
    ("PUT", "/v1/jobs/report", CRON),
    ("PATCH", "/v1/jobs/mail", {"payload": 1}),
    ("POST", "/v1/jobs/mail/run", {}),
    ("DELETE", "/v1/jobs/mail", None),
]


@pytest.mark.parametrize(
    ("method", "path", "body"), WRITES, ids=[f"row_29_{row[0]}_{row[1]}" for row in WRITES]
)
async def test_a_call_of_a_job_changes_no_jobs_unless_the_api_is_an_allowed_host(
    store: Store, clock: ManualClock, keyspace: Read, method: str, path: str, body: Any
) -> None:
    ours = {"Waterclock-Job": "a"}
    async with calling.calling(store.config, store, clock) as client:
        await create(client, calling.AT_ONCE)
        before = await keyspace()
        refused(await client.request(method, path, json=body, headers=ours), 403, "loop")
        assert await keyspace() == before
        assert (await client.get("/v1/jobs/mail", headers=ours)).status_code == 200
    config = store.config.model_copy(update={**OWN, "allow_hosts": "api.example"})
    async with calling.calling(config, store, clock) as client:
        answer = await client.request(method, path, json=body, headers=ours)
        assert answer.status_code < 300, answer.text
        await create(client, {**CRON, **target("http://api.example:8080/"), "job_id": "own"})


async def test_row_29_a_job_that_comes_to_this_api_by_another_name_is_refused_there(
    store: Store, clock: ManualClock, client: httpx.AsyncClient
) -> None:
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    config = store.config.model_copy(update={"port": 0})
    async with asyncio.TaskGroup() as group:
        group.create_task(
            serve(config, stop, store=store, clock=clock, on_listening=port.set_result)
        )
        url = f"http://alias.example:{await port}/v1/jobs/loop/run"
        await create(client, {"job_id": "loop", **target(url), "payload": {}})
        async with reaching({"alias.example": ["127.0.0.1"]}, ON_LOOPBACK) as runner:
            await work(store, clock, runner)
        stop.set()
    [execution] = (await client.get("/v1/jobs/loop/executions")).json()
    assert (execution["status"], execution["attempts"][0]["status_code"]) == ("dead", 403)
