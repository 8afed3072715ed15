"""What the doctor says of a server: a verdict for each thing, and advice where it is not well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.doctor import Verdict
from engine.doctor.server import judge_server
from engine.store.facts import ReplicaFacts, ServerFacts, load_facts

INFO: dict[str, Any] = {
    "redis_version": "7.2.4",
    "server_name": "valkey",
    "valkey_version": "9.1.2",
    "server_mode": "standalone",
    "role": "master",
    "uptime_in_seconds": 60,
    "master_repl_offset": 1_000,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
    "aof_delayed_fsync": 0,
    "aof_current_size": 1 << 30,
    "rdb_last_bgsave_status": "ok",
    "rdb_last_save_time": 1_700_000_000,
    "used_memory": 1 << 20,
    "maxmemory": 1 << 30,
    "total_system_memory": 1 << 34,
    "maxmemory_policy": "noeviction",
    "evicted_keys": 0,
    "connected_clients": 3,
    "maxclients": 10_000,
}
SETTINGS = {
    "appendfsync": "everysec",
    "aof-load-truncated": "yes",
    "min-replicas-to-write": "0",
    "save": "",
    "hash-max-listpack-value": "1024",
}
WELL = load_facts(INFO, SETTINGS, now=0, skew_ms=3, disk_free_bytes=1 << 33)
TAIL = "append-only file after a power cut"
REDIS: dict[str, Any] = {"name": "redis", "version": "8.2.2"}


def verdicts(facts: ServerFacts) -> dict[str, tuple[Verdict, str]]:
    """Return verdict and advice of each check that is not well."""
    return {
        one.check: (one.verdict, one.advice or "")
        for one in judge_server(facts)
        if one.verdict is not Verdict.OK
    }


def test_info_and_settings_become_facts() -> None:
    assert (WELL.name, WELL.version, WELL.mode, WELL.role) == (
        "valkey",
        "9.1.2",
        "standalone",
        "master",
    )
    assert (WELL.appendonly, WELL.appendfsync, WELL.loads_truncated) == (True, "everysec", True)
    assert (WELL.used_memory, WELL.max_memory, WELL.system_memory) == (1 << 20, 1 << 30, 1 << 34)
    assert WELL.last_save_at == 1_700_000_000_000
    assert load_facts(
        {**INFO, "maxmemory": 0}, {}, now=0, skew_ms=0, disk_free_bytes=None
    ) == replace(
        WELL,
        max_memory=None,
        appendfsync=None,
        loads_truncated=None,
        compact_bytes=None,
        good_replicas_wanted=None,
        save=None,
        skew_ms=0,
        disk_free_bytes=None,
    )


def test_replicas_are_told_with_how_far_they_are_behind() -> None:
    row = {"ip": "10.0.0.2", "port": 6379, "state": "online", "offset": 900, "lag": 1}
    facts = load_facts({**INFO, "slave0": row}, SETTINGS, now=0, skew_ms=0, disk_free_bytes=None)
    assert facts.replicas == (ReplicaFacts("10.0.0.2:6379", "online", 1, 100),)


def test_a_server_that_is_well_needs_no_advice() -> None:
    assert verdicts(WELL) == {}
    assert len(list(judge_server(WELL))) == 9


def test_an_unknown_disk_is_not_judged() -> None:
    checks = {one.check for one in judge_server(replace(WELL, disk_free_bytes=None))}
    assert "disk" not in checks


REPLICA = ReplicaFacts("10.0.0.2:6379", "online", 0, 10)


@pytest.mark.parametrize(
    ("wrong", "check", "verdict", "advice"),
    [
        ({"version": "7.1.0"}, "server version", "fail", "Valkey 7.2"),
        ({**REDIS, "version": "6.2.9"}, "server version", "fail", "Redis 7.0"),
        ({"policy": "allkeys-lru"}, "eviction", "fail", "noeviction"),
        ({"evicted": 3}, "eviction", "fail", "lost"),
        ({"appendonly": False, "save": ""}, "persistence", "fail", "appendonly yes"),
        ({"appendonly": False, "save": "3600 1"}, "persistence", "fail", "appendonly yes"),
        ({"last_write_ok": False}, "persistence", "fail", "room"),
        ({"last_rewrite_ok": False}, "persistence", "fail", "BGREWRITEAOF"),
        ({"appendfsync": "no"}, "persistence", "warn", "everysec"),
        ({"delayed_fsyncs": 1}, "persistence", "warn", "disk"),
        ({"version": "9.1.1"}, TAIL, "warn", "BGREWRITEAOF"),
        (REDIS, TAIL, "warn", "redis-check-aof"),
        ({"used_memory": 3 << 28}, "memory", "warn", "more memory"),
        ({"used_memory": 31 << 25}, "memory", "fail", "more memory"),
        ({"max_memory": None, "used_memory": 15 << 30}, "memory", "fail", "set maxmemory"),
        ({"compact_bytes": 64}, "memory of a job", "warn", "hash-max-listpack-value 1024"),
        ({"role": "slave"}, "replication", "fail", "primary"),
        ({"good_replicas_wanted": 1}, "replication", "fail", "connect a replica"),
        ({"replicas": (REPLICA,)}, "replication", "warn", "min-replicas-to-write 1"),
        (
            {"replicas": (REPLICA, replace(REPLICA, lag_s=10)), "good_replicas_wanted": 1},
            "replication",
            "warn",
            "failover",
        ),
        ({"skew_ms": -1_000}, "clock of this machine", "warn", "NTP"),
        ({"skew_ms": 1_000}, "clock of this machine", "warn", "NTP"),
        ({"disk_free_bytes": 1 << 30}, "disk", "warn", "room"),
        ({"disk_free_bytes": 1 << 25}, "disk", "fail", "room"),
    ],
)
def test_what_is_wrong_comes_with_what_to_do(
    wrong: dict[str, Any], check: str, verdict: str, advice: str
) -> None:
    told = verdicts(replace(WELL, **wrong))
    told = told if check == TAIL else {n: said for n, said in told.items() if n != TAIL}
    assert list(told) == [check]
    assert told[check][0] == verdict
    assert advice in told[check][1]


@pytest.mark.parametrize(
    ("version", "is_patched"),
    [
        ("7.0.15", False),
        ("7.2.10", False),
        ("7.2.11", True),
        ("7.4.5", False),
        ("8.0.4", True),
        ("8.2.1", False),
        ("8.4.0", True),
    ],
)
def test_a_redis_with_the_hole_in_its_scripts_is_told(version: str, is_patched: bool) -> None:
    facts = replace(WELL, **REDIS | {"version": version})
    assert ("server version" in verdicts(facts)) is not is_patched


@pytest.mark.parametrize("wrong", [{"skew_ms": 999}, {"used_memory": (3 << 28) - 1}])
def test_what_is_just_within_bounds_is_well(wrong: dict[str, Any]) -> None:
    assert verdicts(replace(WELL, **wrong)) == {}


def test_a_redis_that_refuses_cut_files_is_safe_after_a_power_cut() -> None:
    assert verdicts(replace(WELL, **REDIS, loads_truncated=False)) == {}


def test_a_replica_in_step_that_writes_wait_for_is_well() -> None:
    assert verdicts(replace(WELL, replicas=(REPLICA,), good_replicas_wanted=1)) == {}
