"""Is the server fit to be trusted with jobs: version, durability, memory, replicas, clock, disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.doctor.findings import Finding, fail, ok, size, span, warn
from engine.errors import Unusable
from engine.store.facts import ServerFacts
from engine.store.server import OLDEST, ServerInfo, refuse_unfit

KEEPS_WHOLE_TAIL = {"valkey": (9, 1, 2)}
"""From which version on a server drops the half transaction at the end of its append-only file
(measured; see `_tail`). No Redis is known to."""
PATCHED: dict[tuple[int, ...], int] = {(7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
"""Release of Redis → the patch that closes a hole in its Lua engine (CVE-2025-49844)."""
FULL, NEARLY_FULL = 0.9, 0.75
SKEWED_MS = 1_000
REPLICA_LATE_S = 10
COMPACT_BYTES = 1_024
"""As the embedded server has it; measured by the `memory` scenario of bench/."""
LEAST_DISK = 1 << 28
"""256 MiB."""


def judge_server(facts: ServerFacts) -> Iterator[Finding]:
    yield _version(facts)
    yield _policy(facts)
    yield _persistence(facts)
    if facts.appendonly:
        yield _tail(facts)
    yield _memory(facts)
    if facts.compact_bytes is not None:
        yield _compactness(facts.compact_bytes)
    yield _replication(facts)
    yield clock("clock of this machine", facts.skew_ms)
    if facts.disk_free_bytes is not None:
        yield _disk(facts, facts.disk_free_bytes)


def clock(check: str, skew_ms: int) -> Finding:
    """Judge how far a machine's clock is from the server's."""
    found = f"{span(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'} the server's"
    if abs(skew_ms) < SKEWED_MS:
        return ok(check, found)
    return warn(
        check,
        found,
        "jobs fire by the server's clock all the same; but times in logs will not match, and"
        " after a failover to a machine whose clock is wrong leases end early: run NTP on all",
    )


def numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _version(facts: ServerFacts) -> Finding:
    check, found = "server version", f"{facts.name} {facts.version}"
    numbers = numbers_of(facts.version)
    if numbers[:2] < OLDEST[facts.name]:
        return fail(check, found, "too old: install Redis 7.0 or later, or Valkey 7.2 or later")
    if facts.name == "redis":
        patch = PATCHED.get(numbers[:2])
        if numbers[:2] <= (8, 2) and (patch is None or numbers[2:] < (patch,)):
            return warn(
                check,
                found,
                "who may run scripts can break out of them (CVE-2025-49844): upgrade to 7.2.11,"
                " 7.4.6, 8.0.4 or 8.2.2, or to Valkey; some distributions patch older ones",
            )
    return ok(check, found)


def _policy(facts: ServerFacts) -> Finding:
    check = "eviction"
    try:
        refuse_unfit(ServerInfo(facts.name, "99.0", facts.policy, facts.appendonly))
    except Unusable as error:
        return fail(check, facts.policy, error.message)
    if facts.evicted:
        return fail(
            check,
            f"{facts.policy}; {facts.evicted} keys were evicted since the server started",
            "what was evicted is lost: register those jobs anew; see what `index` says below",
        )
    return ok(check, facts.policy)


def _persistence(facts: ServerFacts) -> Finding:
    check = "persistence"
    if not facts.appendonly:
        if facts.save:
            return fail(
                check,
                f"snapshots only ({facts.save})",
                "a crash undoes all since the last one: set appendonly yes (CONFIG SET appendonly"
                " yes, and in the configuration file)",
            )
        return fail(check, "none", "jobs go when the server ends: set appendonly yes")
    found = f"append-only file, appendfsync {facts.appendfsync or 'unknown'}"
    if not facts.last_write_ok:
        return fail(
            check,
            f"{found}; the last write failed",
            "the server takes no writes: make room on its disk, or mend it; it goes on by itself",
        )
    if not facts.last_rewrite_ok:
        return fail(
            check,
            f"{found}; the last rewrite failed",
            "the file grows without end: see the server's log for why (memory to fork, or disk"
            " space), then BGREWRITEAOF",
        )
    if facts.appendfsync == "no":
        return warn(check, found, "a power cut loses half a minute: set appendfsync everysec")
    if facts.delayed_fsyncs:
        return warn(
            check,
            f"{found}; {facts.delayed_fsyncs} times the disk was too slow",
            "a crash loses more than a second then: give the server a faster disk of its own",
        )
    return ok(check, found)


def _tail(facts: ServerFacts) -> Finding:
    """After a power cut an append-only file may end within a transaction. Redis 7.0.15 loads it,
    keeps the half, appends to it, and at the next start runs both as one."""
    check = "append-only file after a power cut"
    from_version = KEEPS_WHOLE_TAIL.get(facts.name)
    if from_version and numbers_of(facts.version) >= from_version:
        return ok(check, f"{facts.name} {facts.version} drops a half transaction at the end")
    if facts.loads_truncated is False:
        return ok(check, "aof-load-truncated no: the server does not start on a file cut short")
    said = "yes" if facts.loads_truncated else "unknown"
    return warn(
        check,
        f"aof-load-truncated {said}, on {facts.name} {facts.version}",
        "a file that was cut short breaks at the second start: run BGREWRITEAOF after each power"
        " cut, before anything writes; or set aof-load-truncated no and mend with redis-check-aof"
        " --fix; or use Valkey 9.1.2 or later",
    )


def _memory(facts: ServerFacts) -> Finding:
    check = "memory"
    most = facts.max_memory or facts.system_memory
    if not most:
        return ok(check, f"{size(facts.used_memory)} used, no limit")
    of = "its limit" if facts.max_memory else "the machine; no limit is set"
    share = facts.used_memory / most
    found = f"{size(facts.used_memory)} used, {share:.0%} of {of}"
    advice = "when it is full nothing fires and no job can be registered: give it more memory"
    if not facts.max_memory:
        advice = (
            "the system ends a server that takes all memory: set maxmemory, which is refused in"
            " order, and give it more memory"
        )
    if share >= FULL:
        return fail(check, found, advice)
    return warn(check, found, advice) if share >= NEARLY_FULL else ok(check, found)


def _compactness(compact_bytes: int) -> Finding:
    check, found = "memory of a job", f"hash-max-listpack-value {compact_bytes}"
    if compact_bytes >= COMPACT_BYTES:
        return ok(check, found)
    return warn(
        check,
        found,
        "a job whose payload or target is longer takes twice the memory, and fires slower: CONFIG"
        f" SET hash-max-listpack-value {COMPACT_BYTES}, and in the configuration",
    )


def _replication(facts: ServerFacts) -> Finding:
    check = "replication"
    if facts.role != "master":
        return fail(check, f"this server is a {facts.role}", "point Waterclock at its primary")
    wanted = facts.good_replicas_wanted or 0
    if not facts.replicas:
        if wanted:
            return fail(
                check,
                f"no replica, and min-replicas-to-write is {wanted}",
                "the server takes no writes: connect a replica, or set it to 0",
            )
        return ok(check, "a primary without replicas")
    late = [
        replica
        for replica in facts.replicas
        if replica.state != "online" or (replica.lag_s or 0) >= REPLICA_LATE_S
    ]
    behind = max(replica.behind_bytes for replica in facts.replicas)
    found = f"{len(facts.replicas)} replicas, at most {size(behind)} behind"
    if late:
        return warn(
            check,
            f"{found}; {len(late)} out of step ({', '.join(one.address for one in late)})",
            "a failover to it would undo much: see its log, and the network between",
        )
    if not wanted:
        return warn(
            check,
            f"{found}; min-replicas-to-write is {facts.good_replicas_wanted or 'not known'}",
            "a primary that is cut off goes on taking writes that are lost: set"
            " min-replicas-to-write 1",
        )
    return ok(check, found)


def _disk(facts: ServerFacts, free: int) -> Finding:
    check = "disk"
    # A rewrite writes all anew beside what there is.
    wanted = max(LEAST_DISK, 2 * (facts.aof_bytes or 0))
    found = f"{size(free)} free where the server's data is"
    advice = "when it is full the server takes no writes, and nothing fires: make room"
    if free < LEAST_DISK // 4:
        return fail(check, found, advice)
    return warn(check, found, advice) if free < wanted else ok(check, found)
