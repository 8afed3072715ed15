"""What the doctor says of fleet and work, from facts that are made up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from engine.doctor import Facts, Verdict, examine
from engine.doctor.facts import LetterFacts
from engine.doctor.findings import size, span
from engine.names import Priority
from engine.store.audit import Audit
from engine.store.facts import load_facts
from engine.store.fleet import SchedulerStanding, ShardStanding, WorkerStanding
from engine.store.limits import QueueSettings
from engine.store.phase import Phase
from engine.store.processes import Process, Role
from engine.store.standing import QueueStanding

INFO: dict[str, Any] = {
    "redis_version": "7.2.4",
    "server_name": "valkey",
    "valkey_version": "9.1.2",
    "aof_enabled": 1,
    "used_memory": 1,
    "maxmemory": 100,
}
PROCESS = Process("s1", Role.SCHEDULER, "here", 1, "1.0", "2026f", 0, 0, 2)
SHARD = ShardStanding(0, "a", "s1", 5, 9_000, 1_000, 0, 1, 0, 0, 3)
WORKER = WorkerStanding("w1", ("http",), 1, 0, None)
QUEUE = QueueStanding("http", QueueSettings(), dict.fromkeys(Priority, 1), 0, {})
WELL = Facts(
    server=load_facts(INFO, {}, now=0, skew_ms=0, disk_free_bytes=None),
    phase=None,
    shards=[SHARD, replace(SHARD, index=1, tag="b")],
    oldest_due_later={},
    schedulers=[SchedulerStanding("s1", [0, 1], PROCESS)],
    workers=[WORKER],
    queues=[QUEUE],
    processes=[PROCESS],
    letters=LetterFacts(total=5, most=100, last_hour=0, hour_before=4, poison_last_hour=0),
    audit=Audit(jobs=3, members=3),
    version="1.0",
    zones="2026f",
)


def told(facts: Facts) -> dict[str, tuple[str, str, str]]:
    return {
        one.check: (one.verdict.value, one.found, one.advice or "")
        for one in examine(facts)
        if one.verdict is not Verdict.OK
    }


def late(lag_ms: int) -> list[ShardStanding]:
    return [SHARD, replace(SHARD, index=1, tag="b", lag_ms=lag_ms)]


def test_a_fleet_that_is_well_needs_no_advice() -> None:
    assert told(WELL) == {}


def test_a_finding_that_is_well_has_no_advice_and_any_other_has() -> None:
    for one in [*examine(WELL), *examine(replace(WELL, shards=late(9_000), schedulers=[]))]:
        assert (one.advice is None) is (one.verdict is Verdict.OK)


@pytest.mark.parametrize(
    ("wrong", "check", "verdict", "found", "advice"),
    [
        (
            {"shards": [SHARD, replace(SHARD, index=1, holder=None)]},
            "shards with a scheduler",
            "fail",
            "nobody holds 1",
            "taken over",
        ),
        (
            {"shards": [replace(SHARD, holder=None)], "schedulers": []},
            "shards with a scheduler",
            "fail",
            "0 of 1",
            "start `waterclock scheduler`",
        ),
        ({"shards": late(5_000)}, "lateness", "warn", "5.0 s", "keep up"),
        (
            {"shards": late(60_000), "oldest_due_later": {1: 1_001}},
            "lateness",
            "fail",
            "60.0 s",
            "keep up",
        ),
        (
            {"shards": late(5_000), "oldest_due_later": {0: 1_000, 1: 1_000}},
            "lateness",
            "fail",
            "held and stuck: 1",
            "restart",
        ),
        ({"phase": Phase.FROZEN}, "deployment", "fail", "was stopped", "deployment thaw"),
        ({"workers": []}, "queues with a worker", "fail", "3 executions", "--queue http"),
        (
            {"queues": [QUEUE, replace(QUEUE, queue="shell")]},
            "queues with a worker",
            "fail",
            "shell",
            "--allow-shell",
        ),
        (
            {"processes": [PROCESS, replace(PROCESS, skew_ms=-20_000, host="there")]},
            "clocks of the processes",
            "warn",
            "20.0 s behind the server's (there)",
            "NTP",
        ),
        (
            {"processes": [replace(PROCESS, version="0.9")]},
            "versions of Waterclock",
            "warn",
            "0.9, 1.0",
            "deploy",
        ),
        ({"zones": "2025a"}, "time zones", "warn", "2025a, 2026f", "newest, 2026f"),
        (
            {"zones_before": frozenset({"2027a"})},
            "time zones",
            "warn",
            "2026f, and 2027a before",
            "newest, 2027a",
        ),
        (
            {"zones_before": frozenset({"2026a"})},
            "time zones",
            "warn",
            "2026f; next times of 2026a are left",
            "in a minute",
        ),
        (
            {"letters": replace(WELL.letters, last_hour=5)},
            "dead letters",
            "warn",
            "5 of the last hour (4 of the one before)",
            "dead list",
        ),
        (
            {"letters": replace(WELL.letters, total=100)},
            "dead letters",
            "warn",
            "100",
            "no room",
        ),
        (
            {"letters": replace(WELL.letters, poison_last_hour=2)},
            "poison",
            "fail",
            "2 executions",
            "poison",
        ),
        (
            {"audit": Audit(9, 9, faults=Counter({"is lost": 2}), examples=["a: is lost"])},
            "index",
            "fail",
            "2 × is lost; 9 jobs",
            "resume",
        ),
    ],
)
def test_what_is_wrong_comes_with_what_to_do(
    wrong: dict[str, Any], check: str, verdict: str, found: str, advice: str
) -> None:
    said = told(replace(WELL, **wrong))
    assert list(said) == [check]
    assert said[check][0] == verdict
    assert found in said[check][1]
    assert advice in said[check][2]


@pytest.mark.parametrize(
    "fine",
    [
        {"shards": late(4_999)},
        {"queues": [replace(QUEUE, queue="mail", waiting=dict.fromkeys(Priority, 0), running=3)]},
        {"queues": [replace(QUEUE, queue="mail", settings=QueueSettings(paused=True))]},
        {"processes": []},
        {"audit": Audit(9, 9, is_whole=False)},
    ],
)
def test_what_is_in_order_is_not_told(fine: dict[str, Any]) -> None:
    assert told(replace(WELL, **fine)) == {}


def test_a_shard_that_nobody_holds_is_not_called_stuck() -> None:
    alone = [replace(SHARD, holder=None, lag_ms=9_000)]
    said = told(replace(WELL, shards=alone, oldest_due_later={0: SHARD.oldest_due_at}))
    assert "stuck" not in said["lateness"][1]


def test_a_sample_says_that_it_is_one() -> None:
    found = examine(replace(WELL, audit=Audit(9, 9, is_whole=False)))[-1].found
    assert "--full" in found
    assert "--full" not in examine(WELL)[-1].found


@pytest.mark.parametrize(
    ("count", "text"),
    [(5, "5 B"), (1_536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (1 << 41, "2048.0 GiB")],
)
def test_sizes_are_readable(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(999, "999 ms"), (12_500, "12.5 s"), (180_000, "3.0 min"), (9_000_000, "2.5 h")],
)
def test_durations_are_readable(ms: int, text: str) -> None:
    assert span(ms) == text
