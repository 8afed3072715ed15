"""Which servers may be trusted with jobs."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import Unusable
from engine.store.server import ServerInfo, check_server, refuse_unfit


class Answering:
    """A client whose server answers INFO so."""

    def __init__(self, **info: Any) -> None:
        self._info = info

    async def info(self, section: str) -> dict[str, Any]:
        assert section == "everything"
        return self._info


@pytest.mark.parametrize(
    ("name", "version"),
    [("redis", "7.0.0"), ("redis", "7.0.15"), ("redis", "8.2.1"), ("valkey", "7.2.4")],
)
def test_a_server_new_enough_is_fit(name: str, version: str) -> None:
    refuse_unfit(ServerInfo(name, version, "noeviction", True))


@pytest.mark.parametrize(
    ("name", "version"),
    [("redis", "6.2.14"), ("redis", "5.0"), ("valkey", "7.1.9"), ("valkey", "7.0.15")],
)
def test_a_server_too_old_is_refused_with_what_is_needed(name: str, version: str) -> None:
    with pytest.raises(Unusable, match=rf"{version} is too old.*Redis 7\.0.*Valkey 7\.2"):
        refuse_unfit(ServerInfo(name, version, "noeviction", True))


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_evicts_is_refused_with_the_remedy(policy: str) -> None:
    with pytest.raises(Unusable, match=rf"{policy}.*CONFIG SET maxmemory-policy noeviction"):
        refuse_unfit(ServerInfo("redis", "7.0.15", policy, True))


async def test_a_valkey_is_known_by_its_own_version() -> None:
    """It also gives the version of Redis that it is compatible with."""
    answering = Answering(
        server_name="valkey",
        redis_version="7.2.4",
        valkey_version="9.1.2",
        maxmemory_policy="noeviction",
        aof_enabled=1,
    )
    assert await check_server(answering) == ServerInfo("valkey", "9.1.2", "noeviction", True)


async def test_a_redis_names_no_server() -> None:
    answering = Answering(redis_version="7.0.15", maxmemory_policy="noeviction", aof_enabled=0)
    assert await check_server(answering) == ServerInfo("redis", "7.0.15", "noeviction", False)


async def test_an_unfit_server_is_refused_when_it_is_asked() -> None:
    with pytest.raises(Unusable, match="allkeys-lru"):
        await check_server(Answering(redis_version="7.0.15", maxmemory_policy="allkeys-lru"))
