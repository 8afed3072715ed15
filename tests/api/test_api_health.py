"""The API while its server is well, away, full, unfit or of another release."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import calling
import httpx
import pytest
import tzdata
from calling import AT_ONCE, CRON, Read, create, eventually, refused

from api import backend, jobs
from engine import __version__
from engine.backoff import Retry
from engine.clock import ManualClock
from engine.config import Config
from engine.embedded import EmbeddedServer
from engine.errors import Unusable
from engine.keys import LAYOUT
from engine.store import Store
from engine.store.connection import connect
from engine.store.server import time_ms

client = calling.client
clock = calling.clock
keyspace = calling.keyspace


@asynccontextmanager
async def setting(store: Store, name: str, value: str) -> AsyncIterator[None]:
    """Change a setting of the server, which the whole run shares, for a while."""
    before = (await store.client.config_get(name))[name]
    await store.client.config_set(name, value)
    try:
        yield
    finally:
        await store.client.config_set(name, before)


async def test_the_root_says_what_this_is_and_where_to_go(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/")).json()
    assert (answer["name"], answer["version"]) == ("waterclock", __version__)
    assert answer["links"]["docs"] == "/docs"
    for path in answer["links"].values():
        assert (await client.get(path)).status_code == 200


async def test_ready_says_on_what_server(client: httpx.AsyncClient, store: Store) -> None:
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    ready = answer.json()
    assert ready["status"] == "ready"
    assert ready["shards"] == len(store.layout.shards)
    assert ready["server"]["maxmemory_policy"] == "noeviction"
    assert ready["server"]["is_persistent"] is False
    assert ready["shards_without_scheduler"] == len(store.layout.shards)
    assert ready["timezones"] == tzdata.IANA_VERSION


async def test_an_evicting_server_is_not_ready_and_ready_again_when_set_right(
    client: httpx.AsyncClient, store: Store
) -> None:
    async with setting(store, "maxmemory-policy", "allkeys-lru"):
        problem = refused(await client.get("/readyz"), 503, "unusable")
        assert "noeviction" in problem["detail"]
    assert (await client.get("/readyz")).status_code == 200


async def test_a_server_that_refuses_scripts_is_not_ready(
    client: httpx.AsyncClient, store: Store
) -> None:
    await store.client.execute_command("ACL", "SETUSER", "default", "-evalsha")
    try:
        problem = refused(await client.get("/readyz"), 503, "unusable")
        assert "EVALSHA" in problem["detail"]
    finally:
        await store.client.execute_command("ACL", "SETUSER", "default", "+evalsha")
    assert (await client.get("/readyz")).status_code == 200


async def test_a_full_server_takes_no_job_and_loses_none(
    client: httpx.AsyncClient, store: Store, keyspace: Read
) -> None:
    await create(client, AT_ONCE)
    before = await keyspace()
    async with setting(store, "maxmemory", "1"):
        answer = await client.post("/v1/jobs", json=CRON)
        refused(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert (await client.get("/v1/jobs/mail")).status_code == 200
    assert await keyspace() == before
    await create(client, CRON)


async def test_an_unforeseen_error_shows_no_internals(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the wiring")

    monkeypatch.setattr(jobs, "search_jobs", fail)
    answer = await client.get("/v1/jobs")
    assert "wiring" not in str(refused(answer, 500, "internal"))


async def test_without_a_server_the_api_starts_and_serves_when_there_is_one(
    tmp_path: Path,
) -> None:
    server = EmbeddedServer(tmp_path, appendonly=False)
    async with calling.calling(Config(redis_url=server.url)) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        for method, path in [("GET", "/readyz"), ("GET", "/v1/jobs"), ("DELETE", "/v1/jobs/a")]:
            answer = await client.request(method, path)
            refused(answer, 503, "unavailable")
            assert answer.headers["retry-after"] == "1"
        with server:
            await eventually(lambda: is_ready(client))
            await create(client, CRON)


async def test_a_server_that_goes_away_is_503_until_it_is_back(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        async with calling.calling(Config(redis_url=server.url)) as client:
            created = await create(client, CRON)
            server.stop()
            refused(await client.get("/v1/jobs/report"), 503, "unavailable")
            refused(await client.post("/v1/jobs", json=AT_ONCE), 503, "unavailable")
            refused(await client.get("/readyz"), 503, "unavailable")
            assert (await client.get("/healthz")).status_code == 200
            server.start()
            assert (await client.get("/v1/jobs/report")).json() == created
            await create(client, AT_ONCE)
            assert await is_ready(client)


async def is_ready(client: httpx.AsyncClient) -> bool:
    return (await client.get("/readyz")).status_code == 200


async def test_the_api_does_not_start_on_an_evicting_server(store: Store) -> None:
    async with setting(store, "maxmemory-policy", "allkeys-lru"):
        with pytest.raises(Unusable, match="noeviction"):
            async with calling.calling(store.config):
                pass


async def test_the_api_does_not_start_on_another_layout(store: Store) -> None:
    await store.client.set(LAYOUT, '{"version": 99, "tags": []}')
    try:
        with pytest.raises(Unusable, match="layout version 99"):
            async with calling.calling(store.config):
                pass
    finally:
        await store.client.delete(LAYOUT)


async def test_an_unfit_server_that_comes_later_is_told_and_served_once_it_is_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "REACH", Retry(1_000, base_ms=5, max_ms=5, jitter="none"))
    server = EmbeddedServer(tmp_path, appendonly=False, extra=["--maxmemory-policy", "allkeys-lru"])

    async with calling.calling(Config(redis_url=server.url)) as client:

        async def is_told() -> bool:
            code: str = (await client.get("/readyz")).json()["code"]
            return code == "unusable"

        with server:
            await eventually(is_told)
            fixer = connect(server.url)
            await fixer.config_set("maxmemory-policy", "noeviction")
            await fixer.aclose()
            await eventually(lambda: is_ready(client))


class Samples(ManualClock):
    """A clock that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(calling.NOW)
        self.taken: list[int] = []

    def sample(self, server_ms: int) -> None:
        self.taken.append(server_ms)


async def test_the_servers_time_is_sampled_at_the_start_and_then_again_and_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "SAMPLE_MS", 1)
    clock = Samples()
    before = await time_ms(store.client)
    async with calling.calling(store.config, store, clock):
        assert len(clock.taken) == 1

        async def is_sampled() -> bool:
            return len(clock.taken) > 3

        await eventually(is_sampled)
    assert before <= clock.taken[0] <= clock.taken[-1] <= await time_ms(store.client)


async def test_a_given_store_stays_open(store: Store) -> None:
    async with calling.calling(store.config, store):
        pass
    assert await store.client.ping()
