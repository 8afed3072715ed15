"""Long polls: claims that wait for work, all of them at the cost of one."""

from __future__ import annotations

import asyncio
from typing import Any

import calling
import httpx
import pytest
from calling import (
    AT_ONCE,
    claim,
    claims,
    create,
    create_many,
    eventually,
    job_ids,
    let_lease_run_out,
)

from api import polling
from api.backend import Backend
from api.server import serve
from engine.clock import ManualClock
from engine.store import Store
from engine.store.limits import QueueSettings, write_queue

clock = calling.clock
keyspace = calling.keyspace
client = calling.client

CLAIM = "/internal/executions/claim"


async def test_a_claim_waits_until_there_is_work(client: httpx.AsyncClient) -> None:
    waiting = asyncio.create_task(claims(client, wait_ms=30_000))
    await eventually(is_waiting(client))
    await create(client, AT_ONCE)
    assert job_ids(await waiting) == ["mail"]


async def test_a_claim_that_waits_sees_a_lease_run_out(
    client: httpx.AsyncClient, store: Store
) -> None:
    await create(client, AT_ONCE)
    await claim(client)
    waiting = asyncio.create_task(claims(client, wait_ms=30_000, worker="w2"))
    await eventually(is_waiting(client))
    await let_lease_run_out(store)
    [taken] = await waiting
    assert taken["deliveries"] == 2


@pytest.mark.parametrize(("body", "status"), [({}, 204), ({"max": 5}, 200)])
async def test_a_claim_that_waited_in_vain_is_answered_as_one_that_did_not_wait(
    client: httpx.AsyncClient, body: dict[str, Any], status: int
) -> None:
    answer = await client.post(CLAIM, json={"worker": "w1", "wait_ms": 1, **body})
    assert (answer.status_code, answer.content) == (status, b"[]" if body else b"")
    assert polls_of(client).watched == []


async def test_a_claim_waits_while_a_queue_is_paused(
    client: httpx.AsyncClient, store: Store
) -> None:
    await write_queue(store, "default", QueueSettings(paused=True))
    await create(client, AT_ONCE)
    answer = await client.post(CLAIM, json={"worker": "w1", "wait_ms": 100})
    assert answer.status_code == 204
    waiting = asyncio.create_task(claims(client, wait_ms=30_000))
    await eventually(is_waiting(client))
    await write_queue(store, "default", QueueSettings())
    store.limits = None
    assert job_ids(await waiting) == ["mail"]


async def test_all_that_wait_share_one_look_and_each_gets_its_own(
    client: httpx.AsyncClient,
) -> None:
    waiting = [
        asyncio.create_task(claims(client, wait_ms=30_000, worker=f"w{n}", max=1))
        for n in range(50)
    ]
    await eventually(is_waiting(client, 50))
    assert polls_of(client).watched == ["default"]
    await create_many(client, 50)
    found = [job_id for one in await asyncio.gather(*waiting) for job_id in job_ids(one)]
    assert sorted(found) == sorted(f"mail-{n}" for n in range(50))
    assert polls_of(client).watched == []


async def test_a_claim_waits_for_several_queues(client: httpx.AsyncClient) -> None:
    waiting = asyncio.create_task(claims(client, wait_ms=30_000, queues=["a", "b"]))
    await eventually(is_waiting(client))
    assert polls_of(client).watched == ["a", "b"]
    await create(client, {**AT_ONCE, "queue": "b"})
    assert job_ids(await waiting) == ["mail"]


async def test_no_more_wait_than_there_is_room_for(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "MOST_WAITING", 1)
    waiting = asyncio.create_task(claims(client, wait_ms=30_000))
    await eventually(is_waiting(client))
    assert await claims(client, wait_ms=30_000) == []
    assert not waiting.done()
    polls_of(client).close()
    assert await waiting == []


async def test_when_the_process_is_to_end_all_are_answered_and_nobody_waits_any_more(
    client: httpx.AsyncClient,
) -> None:
    waiting = asyncio.create_task(claims(client, wait_ms=30_000))
    await eventually(is_waiting(client))
    polls_of(client).close()
    assert await waiting == []
    assert await claims(client, wait_ms=30_000) == []


async def test_a_server_that_stops_answers_those_that_wait(
    store: Store, clock: ManualClock
) -> None:
    config = store.config.model_copy(update={"port": 0, "shutdown_ms": 60_000})
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(
            serve(config, stop, store=store, clock=clock, on_listening=port.set_result)
        )
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{await port}") as client:
            body = {"worker": "w1", "wait_ms": 30_000}
            waiting = group.create_task(client.post(CLAIM, json=body, timeout=30))
            # It has arrived once its queue was looked at.
            await eventually(lambda: has_been_looked_at(store))
            stop.set()
            assert (await waiting).status_code == 204


async def has_been_looked_at(store: Store) -> bool:
    return store.limits is not None


class Leaver:
    """An ASGI client that sends a claim, and goes away when it is told to."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.leaves = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def call(self, client: httpx.AsyncClient) -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": CLAIM,
            "raw_path": CLAIM.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        }
        await app_of(client)(scope, self.receive, self.send)


async def test_a_client_that_goes_away_stops_its_wait(client: httpx.AsyncClient) -> None:
    leaver = Leaver(b'{"worker": "w1", "wait_ms": 30000}')
    call = asyncio.create_task(leaver.call(client))
    await eventually(is_waiting(client))
    leaver.leaves.set()
    await call
    assert polls_of(client).watched == []


async def test_what_a_client_cannot_get_any_more_is_given_back(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaver = Leaver(b'{"worker": "w1", "wait_ms": 30000}')

    async def find_and_leave(*args: Any) -> Any:
        found = await polling.find_work(*args)
        if found:
            leaver.leaves.set()
        return found

    monkeypatch.setattr("api.claims.find_work", find_and_leave)
    call = asyncio.create_task(leaver.call(client))
    await eventually(is_waiting(client))
    await create(client, AT_ONCE)
    await call
    claimed = await claim(client, "w2")
    assert (claimed["job_id"], claimed["deliveries"]) == ("mail", 1)


def app_of(client: httpx.AsyncClient) -> Any:
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    return transport.app


def polls_of(client: httpx.AsyncClient) -> polling.Polls:
    backend = app_of(client).state.backend
    assert isinstance(backend, Backend)
    return backend.polls


def is_waiting(client: httpx.AsyncClient, count: int = 1) -> Any:
    async def ask() -> bool:
        return polls_of(client).waiting == count

    return ask
