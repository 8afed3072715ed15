"""What the server says of itself: kind, role, durability, memory, clients, clock. It only reads."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from redis.exceptions import ResponseError

from engine.keys import LAYOUT
from engine.store import Store
from engine.store.connection import connect
from engine.store.server import server_name, time_ms

_SETTINGS = (
    "appendonly",
    "appendfsync",
    "aof-load-truncated",
    "min-replicas-to-write",
    "save",
    "dir",
    "hash-max-listpack-value",
)


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One replica: where it is, whether it is in step, and how far behind."""

    address: str
    state: str
    lag_s: int | None
    behind_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """One server. What it does not tell, or not to us, is None."""

    name: str
    version: str
    mode: str
    role: str
    uptime_s: int
    now: int
    skew_ms: int
    """How far the clock of this machine is ahead of the server's."""
    replicas: tuple[ReplicaFacts, ...]
    good_replicas_wanted: int | None
    """`min-replicas-to-write`."""
    appendonly: bool
    appendfsync: str | None
    last_write_ok: bool
    """Of the append-only file."""
    last_rewrite_ok: bool
    delayed_fsyncs: int
    loads_truncated: bool | None
    """`aof-load-truncated`."""
    aof_bytes: int | None
    save: str | None
    last_save_ok: bool
    last_save_at: int | None
    used_memory: int
    max_memory: int | None
    """None for no limit."""
    system_memory: int | None
    policy: str
    evicted: int
    compact_bytes: int | None
    """`hash-max-listpack-value`: a hash with a longer value takes twice the memory."""
    clients: int
    max_clients: int | None
    disk_free_bytes: int | None
    """Where the server's data lies, if that is this machine."""


async def is_deployed(url: str) -> bool:
    """Return whether there is a deployment on a server: to open a store would begin one. Raises
    Unusable for what is no URL of a server, and the driver's errors when there is none."""
    async with connect(url) as client:
        return bool(await client.exists(LAYOUT))


async def read_server(store: Store) -> ServerFacts:
    """Return what the server says of itself. Raises the driver's errors when it is away."""
    info = await store.client.info("everything")
    sent_at = time.time()
    now = await time_ms(store.client)
    # The middle of the exchange: a slow answer is no skew.
    skew_ms = int((sent_at + time.time()) * 500) - now
    settings = await _settings(store.client)
    return load_facts(
        info,
        settings,
        now=now,
        skew_ms=skew_ms,
        disk_free_bytes=_disk_free(store.config.redis_url, settings.get("dir")),
    )


def load_facts(
    info: Mapping[str, Any],
    settings: Mapping[str, str],
    *,
    now: int,
    skew_ms: int,
    disk_free_bytes: int | None,
) -> ServerFacts:
    """Return the facts in a server's INFO and in those of its settings that could be read."""
    name, version = server_name(info)
    max_memory = int(info.get("maxmemory", 0))
    truncated = settings.get("aof-load-truncated")
    wanted = settings.get("min-replicas-to-write")
    saved_s = int(info.get("rdb_last_save_time", 0))
    return ServerFacts(
        name=name,
        version=version,
        mode=str(info.get("redis_mode") or info.get("server_mode") or "standalone"),
        role=str(info.get("role", "master")),
        uptime_s=int(info.get("uptime_in_seconds", 0)),
        now=now,
        skew_ms=skew_ms,
        replicas=tuple(_replicas(info)),
        good_replicas_wanted=None if wanted is None else int(wanted),
        appendonly=str(info.get("aof_enabled", 0)) == "1",
        appendfsync=settings.get("appendfsync"),
        last_write_ok=info.get("aof_last_write_status", "ok") == "ok",
        last_rewrite_ok=info.get("aof_last_bgrewrite_status", "ok") == "ok",
        delayed_fsyncs=int(info.get("aof_delayed_fsync", 0)),
        loads_truncated=None if truncated is None else truncated == "yes",
        aof_bytes=_number(info.get("aof_current_size")),
        save=settings.get("save"),
        last_save_ok=info.get("rdb_last_bgsave_status", "ok") == "ok",
        last_save_at=saved_s * 1000 or None,
        used_memory=int(info.get("used_memory", 0)),
        max_memory=max_memory or None,
        system_memory=_number(info.get("total_system_memory")),
        policy=str(info.get("maxmemory_policy", "noeviction")),
        evicted=int(info.get("evicted_keys", 0)),
        compact_bytes=_number(settings.get("hash-max-listpack-value")),
        clients=int(info.get("connected_clients", 0)),
        max_clients=_number(info.get("maxclients")),
        disk_free_bytes=disk_free_bytes,
    )


def _replicas(info: Mapping[str, Any]) -> list[ReplicaFacts]:
    offset = int(info.get("master_repl_offset", 0))
    rows = [row for name, row in info.items() if re.fullmatch(r"slave\d+", name)]
    return [
        ReplicaFacts(
            address=f"{row.get('ip', '')}:{row.get('port', '')}",
            state=str(row.get("state", "")),
            lag_s=_number(row.get("lag")),
            behind_bytes=max(0, offset - int(row.get("offset", 0))),
        )
        for row in rows
        if isinstance(row, Mapping)
    ]


async def _settings(client: Any) -> dict[str, str]:
    """Return those of the settings that we may read: a hosted server often has no CONFIG."""
    try:
        found = await client.config_get(*_SETTINGS)
    except ResponseError:
        return {}
    return {_text(name): _text(value) for name, value in found.items()}


def _disk_free(url: str, folder: str | None) -> int | None:
    """Return how much room there is where a server of this machine keeps its data."""
    if not folder or not _is_here(url) or not os.path.isdir(folder):
        return None
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _is_here(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "unix" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
