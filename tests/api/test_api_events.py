"""GET /v1/events: what happens, as it happens, to whoever listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import calling
import httpx
import pytest
from calling import AT_ONCE, CRON, create, refused
from test_api_server import serving

from api import tailing
from api.events_seen import Seen
from api.events_shown import shown
from api.tailing import Tailing
from engine.access import Caller, Scope
from engine.store import Store
from engine.store.following import read_ends

client, clock = calling.client, calling.clock

Event = dict[str, Any]
Told = tuple[str, Event, str | None]
"""The kind of an event, what it says, and its id if it has one."""


class Ear:
    """Reads one stream of server-sent events."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.last_id: str | None = None

    async def next(self, count: int = 1) -> list[Told]:
        """Return the next events, which must come within seconds."""
        told: list[Told] = []
        fields: dict[str, str] = {}
        async with asyncio.timeout(10):
            async for line in self._lines:
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    if name == "id":
                        self.last_id = value
                    continue
                if "data" in fields:
                    data = json.loads(fields["data"])
                    told.append((fields["event"], data, fields.get("id")))
                fields = {}
                if len(told) == count:
                    break
        return told


@asynccontextmanager
async def hearing(
    port: int, query: dict[str, str] | None = None, after: str | None = None
) -> AsyncIterator[Ear]:
    headers = {"Last-Event-ID": after} if after else {}
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=15) as client,
        client.stream("GET", "/v1/events", params=query, headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Ear(answer)


@asynccontextmanager
async def at_port(store: Store) -> AsyncIterator[tuple[int, httpx.AsyncClient]]:
    async with (
        serving(store, asyncio.Event()) as (port, _),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        yield port, client


async def test_a_listener_hears_what_happens_from_then_on(store: Store) -> None:
    async with at_port(store) as (port, client):
        await create(client, {**CRON, "job_id": "before"})
        async with hearing(port) as ear:
            await create(client, AT_ONCE)
            told = await ear.next(2)
    assert [(kind, event["job_id"]) for kind, event, _ in told] == [
        ("created", "mail"),
        ("fired", "mail"),
    ]
    fired = told[1][1]
    assert fired["execution_id"].startswith("mail@")
    assert (fired["attempt"], fired["queue"], fired["priority"]) == (1, "default", "normal")
    assert told[0][2] is None
    assert told[1][2]


async def test_who_comes_back_misses_nothing(store: Store) -> None:
    async with at_port(store) as (port, client):
        async with hearing(port) as ear:
            await create(client, {**CRON, "job_id": "a"})
            await ear.next()
        for name in "bcd":
            await create(client, {**CRON, "job_id": name})
        async with hearing(port, after=ear.last_id) as ear:
            told = await ear.next(3)
            await create(client, {**CRON, "job_id": "e"})
            told += await ear.next()
    assert [event["job_id"] for _, event, _ in told] == ["b", "c", "d", "e"]


async def test_from_the_oldest_that_is_kept(store: Store) -> None:
    async with at_port(store) as (port, client):
        for name in ("one", "two"):
            await create(client, {**CRON, "job_id": name})
        async with hearing(port, {"after": "0"}) as ear:
            told = await ear.next(2)
    assert [event["job_id"] for _, event, _ in told] == ["one", "two"]


async def test_a_trimmed_ledger_says_that_something_is_missing(store: Store) -> None:
    async with at_port(store) as (port, client):
        async with hearing(port) as ear:
            await create(client, CRON)
            await ear.next()
        shard = store.layout.shard_of("report")
        await client.post("/v1/jobs/report/pause")
        await client.post("/v1/jobs/report/resume")
        await store.client.xtrim(shard.ledger, maxlen=1, approximate=False)
        async with hearing(port, after=ear.last_id) as ear:
            told = await ear.next(2)
    assert [kind for kind, _, _ in told] == ["gap", "resumed"]
    assert told[0][1]["until"] == told[1][1]["at"]


@pytest.mark.parametrize(
    ("query", "heard"),
    [
        ({"kind": "paused"}, [("paused", "a-1")]),
        ({"job_id": "b-1"}, [("created", "b-1")]),
        ({"prefix": "b-"}, [("created", "b-1")]),
        ({"group": "blue"}, [("created", "b-1")]),
    ],
    ids=["kind", "job", "prefix", "group"],
)
async def test_only_what_is_asked_for_is_heard(
    store: Store, query: dict[str, str], heard: list[tuple[str, str]]
) -> None:
    async with at_port(store) as (port, client):
        await create(client, {**CRON, "job_id": "a-1", "group": "red"})
        await client.post("/v1/jobs/a-1/pause")
        await create(client, {**CRON, "job_id": "b-1", "group": "blue"})
        await create(client, {**CRON, "job_id": "c-1"})
        async with hearing(port, {**query, "after": "0"}) as ear:
            told = await ear.next(len(heard))
            position = ear.last_id
        # What was not wanted is behind the listener, too.
        async with hearing(port, query, after=position) as ear:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.7):
                    await ear.next()
    assert [(kind, event["job_id"]) for kind, event, _ in told] == heard


async def test_the_end_of_the_process_ends_the_stream_at_once(store: Store) -> None:
    stop = asyncio.Event()
    async with serving(store, stop) as (port, task), hearing(port) as ear:
        stop.set()
        async with asyncio.timeout(5):
            await task
            assert await ear.next() == []


@pytest.mark.parametrize("position", ["x", "AA", "~", "A" * 9_000])
async def test_a_position_that_is_none_is_refused(client: httpx.AsyncClient, position: str) -> None:
    answer = await client.get("/v1/events", params={"after": position})
    [fault] = refused(answer, 400, "bad_input")["errors"]
    assert fault["parameter"] == "after"
    answer = await client.get("/v1/events", headers={"Last-Event-ID": position})
    problem = refused(answer, 400, "bad_input")
    assert problem["errors"] == []
    assert problem["detail"].startswith("Last-Event-ID: ")


async def test_who_is_slow_is_cut_off_and_holds_up_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "MOST_WAITING", 2)
    shared = Tailing(lambda: store)
    ledger = store.layout.shards[0].ledger
    async with shared.listen() as slow, shared.listen() as quick, asyncio.timeout(10):
        for n in range(6):
            await store.client.xadd(ledger, {"events": f'["created","j{n}"]'})
            assert (await quick.reads.get() or [])[0].events == [["created", f"j{n}"]]
        assert [len(await slow.reads.get() or ()) for _ in range(3)] == [1, 1, 0]
    shared.close()


async def test_what_many_hear_is_put_in_words_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def count(kind: str, *more: Any) -> dict[str, Any]:
        made.append(kind)
        return shown(kind, *more)

    monkeypatch.setattr("api.events_read.shown", count)
    async with at_port(store) as (port, client), AsyncExitStack() as stack:
        ears = [await stack.enter_async_context(hearing(port)) for _ in range(5)]
        ears += [await stack.enter_async_context(hearing(port, {"kind": "created"}))]
        await create(client, CRON)
        told = [await ear.next() for ear in ears]
    assert told == [told[0]] * 6
    assert made == ["created"]


async def test_who_hears_all_and_who_hears_a_part_of_it_come_to_the_same_place(
    store: Store,
) -> None:
    async with at_port(store) as (port, client):
        async with hearing(port) as all_of_it, hearing(port, {"prefix": "b"}) as part:
            await create(client, {**CRON, "job_id": "a"})
            await all_of_it.next()
            await create(client, {**CRON, "job_id": "b"})
            assert (await part.next())[0][1]["job_id"] == "b"
            await all_of_it.next()
        assert part.last_id == all_of_it.last_id


async def test_nobody_listening_costs_no_reads(store: Store) -> None:
    shared = Tailing(lambda: store)
    async with shared.listen():
        assert shared._task is not None
        task = shared._task
    async with asyncio.timeout(5):
        await task
    assert shared._task is None
    # And who comes then begins at what is then the end.
    await store.client.xadd(store.layout.shards[0].ledger, {"events": '["created","j"]'})
    async with shared.listen() as late:
        assert late.position == await read_ends(store)
    shared.close()


async def test_a_key_of_a_group_hears_of_its_own_jobs_alone(
    client: httpx.AsyncClient, store: Store
) -> None:
    caller = Caller("k", frozenset({Scope.READ}), frozenset({"red"}))
    seen = Seen(store, caller, None, "", None)
    await create(client, {**CRON, "job_id": "mine", "group": "red"})
    await create(client, {**CRON, "job_id": "theirs", "group": "blue"})
    await create(client, {**CRON, "job_id": "nobodys"})
    subjects = ["mine", "mine@1", "theirs", "theirs@1", "nobodys", "unheard-of"]
    assert await seen.among(subjects) == {"mine", "mine@1"}
    # The last events of a job come when it is gone already.
    await client.delete("/v1/jobs/mine")
    assert await seen.among(["mine"]) == {"mine"}
