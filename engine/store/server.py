"""What is asked of the server itself: its time, and whether it can be trusted with jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import Unusable

OLDEST = {"redis": (7, 0), "valkey": (7, 2)}


@dataclass(frozen=True, slots=True)
class ServerInfo:
    name: str
    version: str
    maxmemory_policy: str
    is_persistent: bool


async def time_ms(client: Any) -> int:
    """Return the server's time in ms."""
    seconds, microseconds = await client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


async def check_server(client: Any) -> ServerInfo:
    """Return what the server is. Raises Unusable if it is too old, or would evict keys."""
    info = await client.info("everything")
    name, version = server_name(info)
    found = ServerInfo(
        name=name,
        version=version,
        maxmemory_policy=str(info.get("maxmemory_policy", "noeviction")),
        is_persistent=str(info.get("aof_enabled", "0")) == "1",
    )
    refuse_unfit(found)
    return found


def server_name(info: Mapping[str, Any]) -> tuple[str, str]:
    """Return (`redis` or `valkey`, version) of what INFO says."""
    is_valkey = info.get("server_name") == "valkey"
    return (
        "valkey" if is_valkey else "redis",
        str(info["valkey_version" if is_valkey else "redis_version"]),
    )


def refuse_unfit(server: ServerInfo) -> None:
    """Raise Unusable, with the reason and the remedy, if the server cannot be trusted with jobs."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", server.version)[:2])
    oldest = OLDEST[server.name]
    if numbers < oldest:
        raise Unusable(
            f"{server.name} {server.version} is too old: Waterclock needs Redis 7.0 or later, or"
            " Valkey 7.2 or later"
        )
    if server.maxmemory_policy != "noeviction":
        raise Unusable(
            f"the server's maxmemory-policy is {server.maxmemory_policy}, which deletes jobs"
            " without an error when memory is full; set it to noeviction (CONFIG SET"
            " maxmemory-policy noeviction, and the same in its configuration file)"
        )
