"""The invariants are only worth something if each can be broken."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from invariants import Keyspace, changes, faults, faults_of_secrets

SOUND: Keyspace = {
    "plans": {"p": "{}"},
    "jobs": {"a": 0.0, "b": 0.0},
    "job:a": {
        "state": "active",
        "plan": "p",
        "next_run_at": "60005",
        "queue": "q",
        "definition": '[5,5,null,"UTC"]',
        "live": "6",
        "x:1": "ready:1:7-0:60001.0;q/q,h/a.test",
        "x:2": "due:2:60009",
        "x:3": "async:1:60011:60001.0;q/q",
        "x:4": "due:1:60012",
        "x:5": "due:1:60012",
        "x:6": "due:1:60012",
        "backfill_state": "running",
        "backfill_live": "1",
        "x:0": "due:2:60009",
        "b:0": "1",
        "dependents": "1",
        "rules": "1",
    },
    "job:b": {
        "state": "paused",
        "plan": "p",
        "next_run_at": "60005",
        "queue": "q",
        "payload": '"ü"',
        "group": "blue",
        "rules": "1",
        "tags": "x y",
    },
    "jobs:group:blue": {"b": 0.0},
    "jobs:groups": {"blue": "4"},
    "jobs:group_names": {"blue": 0.0},
    "jobs:tag:x": {"b": 0.0},
    "jobs:tag:y": {"b": 0.0},
    "dependents:a": {"gone": 0.0},
    "dependents:gone": {"a": 0.0},
    "inputs:a": {"1": '{"u":1}', "7": '{"u":1}'},
    "awaiting": {"a@9": 60001.0},
    "arrivals:a@9": {
        "u": "+succeeded 1",
        "v": "+dead ",
        "w": "-skipped ",
        "@met": "2",
        "@missed": "1",
        "@open": "2",
        "@version": "1",
    },
    "due:1": {"p|a": 60005.0, "a@3": 60011.0},
    "due:@q": {"a@2": 60009.0, "a@0": 60009.0},
    "due:@q/q": {"a@4": 60012.0},
    "due:@g/q/blue": {"a@5": 60012.0},
    "due:@h/b.test": {"a@6": 60012.0},
    "due:@": {"a@4": "@q/q", "a@5": "@g/q/blue", "a@6": "@h/b.test"},
    "gates": {"slots:q/q": "0", "live:q/q": "2", "tokens:h/a.test": "4", "live:h/a.test": "1"},
    "dead": {"a@7": 60001.0, "gone@8": 60001.0},
    "letter:a@7": {"born": "5"},
    "letter:gone@8": {"born": "5"},
    "effects:gone@8": {"paid": "1"},
    "backfills": {"a": True},
    "frozen": {"phase": "draining", "group:q": "8-0"},
    "buckets": {
        "1": 1.0,
        "@q": float("inf"),
        "@q/q": float("inf"),
        "@g/q/blue": float("inf"),
        "@h/b.test": float("inf"),
    },
    "ready:q": {
        "7-0": {"execution_id": "a@1", "attempt": "1"},
        "8-0": {"execution_id": "gone@1", "attempt": "1"},
    },
    "pending:q": {"8-0": ("w1", 1)},
    "runs:a": [[0, "succeeded", 1, 1, "w1", 5, 40]],
}


def test_a_sound_shard_has_no_fault() -> None:
    assert list(faults(SOUND)) == []


@pytest.mark.parametrize(
    ("key", "field", "value", "fault"),
    [
        ("due:1", "p|a", 60006.0, "p|a is at"),
        ("due:1", "p|a", None, "p|a is at"),
        ("due:@q", "p|a", 60005.0, "p|a is at"),
        ("due:@q", "a@2", None, "a@2 is at"),
        ("due:1", "p|b", 60005.0, "p|b is in the index"),
        ("due:1", "p|gone", 60005.0, "p|gone is in the index"),
        ("due:1", "a@9", 60005.0, "a@9 is in the index"),
        ("due:2", "p|a", 60005.0, "p|a is at"),
        ("job:a", "state", "paused", "p|a is in the index"),
        ("job:b", "state", "active", "p|b is at"),
        ("job:b", "state", "completed", "b is completed with"),
        ("job:b", "next_run_at", "", "b is paused with"),
        ("job:b", "plan", "other", "a plan that is not stored"),
        ("job:b", "rules", None, "b has group and no field `rules`"),
        ("job:b", "group", "red", "lists of jobs are"),
        ("job:b", "tags", "x", "lists of jobs are"),
        ("job:b", "payload", "1", "lists of jobs are"),
        ("job:a", "tags", "x", "lists of jobs are"),
        ("jobs:group:blue", "a", 0.0, "lists of jobs are"),
        ("jobs:group:blue", "b", 1.0, "lists of jobs are"),
        ("jobs:groups", "blue", "5", "lists of jobs are"),
        ("jobs:groups", "red", "0", "lists of jobs are"),
        ("jobs:group_names", "red", 0.0, "lists of jobs are"),
        ("jobs:tag:y", "b", None, "lists of jobs are"),
        ("jobs:tag:z", "b", 0.0, "lists of jobs are"),
        ("job:a", "live", "1", "a counts 1"),
        ("job:a", "b:0", None, "a counts 6 and 1"),
        ("job:a", "backfill_live", "0", "a counts 6 and 0"),
        ("job:a", "b:9", "1", "a counts 6 and 1"),
        ("job:a", "backfill_state", "done", "backfills are"),
        ("backfills", "a", None, "backfills are"),
        ("frozen", "phase", None, "frozen in no phase"),
        ("backfills", "b", True, "backfills are"),
        ("job:a", "x:1", "ready:2:7-0", "a@1 says"),
        ("job:a", "x:1", "ready:1:9-0", "a@1 says"),
        ("ready:q", "7-0", None, "a@1 says"),
        ("ready:q", "9-0", {"execution_id": "a@1", "attempt": "1"}, "9-0 waits in q"),
        ("pending:q", "8-0", None, "8-0 waits in q"),
        ("due:1", "a@3", 60012.0, "a@3 is at"),
        ("due:1", "a@3", None, "a@3 is at"),
        ("due:@q", "a@3", 60011.0, "a@3 is at"),
        ("job:a", "x:3", "async:1:60012", "a@3 is at"),
        ("due:@q/q", "a@4", 60013.0, "a@4 is at"),
        ("due:@q/q", "a@4", None, "a@4 is at"),
        ("due:@q/q", "a@5", 60012.0, "a@5 is at"),
        ("due:@q/q", "p|b", 60005.0, "p|b is in the index"),
        ("due:@", "a@4", None, "lanes are"),
        ("due:@", "a@4", "@g/q/blue", "lanes are"),
        ("due:@", "a@2", "@q", "lanes are"),
        ("due:@", "a@9", "@q/q", "lanes are"),
        ("gates", "live:q/q", "1", "q/q counts 1 live executions, and 2 came"),
        ("gates", "live:q/q", "3", "q/q counts 3"),
        ("gates", "live:q/q", None, "q/q counts 0"),
        ("gates", "live:h/a.test", None, "h/a.test counts 0"),
        ("gates", "live:g/q/blue", "1", "g/q/blue counts 1"),
        ("job:a", "x:1", "ready:1:7-0;q/q", "h/a.test counts 1"),
        ("dead", "a@7", None, "dead are"),
        ("dead", "a@9", 60001.0, "dead are"),
        ("letter:b@9", "born", "5", "dead are"),
        ("buckets", "1", None, "buckets are"),
        ("buckets", "2", 2.0, "buckets are"),
        ("buckets", "@q", 0.0, "buckets are"),
        ("jobs", "b", None, "jobs are"),
        ("jobs", "c", 0.0, "jobs are"),
        ("runs:c", "", "", "c has a history"),
        ("awaiting", "a@9", None, "awaiting are"),
        ("awaiting", "a@8", 60001.0, "awaiting are"),
        ("arrivals:a@9", "@met", "1", "a@9 counts"),
        ("arrivals:a@9", "@missed", "0", "a@9 counts"),
        ("arrivals:a@9", "@open", "1", "a@9 counts"),
        ("arrivals:a@9", "w", "+skipped ", "a@9 counts"),
        ("inputs:a", "8", "{}", "inputs of a@8"),
        ("inputs:gone", "1", "{}", "inputs of gone@1"),
        ("job:a", "dependents", None, "a has dependents None"),
        ("job:b", "dependents", "1", "b has dependents 1"),
    ],
)
def test_each_invariant_can_be_broken(key: str, field: str, value: Any, fault: str) -> None:
    space = deepcopy(SOUND)
    fields = space.setdefault(key, {})
    if value is None:
        del fields[field]
    else:
        fields[field] = value
    assert any(fault in found for found in faults(space))


@pytest.mark.parametrize("name", ["queued", "group", "dependents", "upstreams"])
def test_what_a_rule_asks_for_is_looked_for(name: str) -> None:
    space = deepcopy(SOUND)
    del space["job:b"]["rules"]
    space["job:b"][name] = "1"
    assert f"b has {name} and no field `rules`: nothing looks for it" in list(faults(space))


@pytest.mark.parametrize("bucket", ["@q/other", "@g/other/blue", "@q/q:high", "@h/b.test:low"])
def test_a_lane_is_of_the_members_queue_and_priority(bucket: str) -> None:
    space = deepcopy(SOUND)
    del space["due:@q/q"], space["buckets"]["@q/q"]
    space[f"due:{bucket}"] = {"a@4": 60012.0}
    space["buckets"][bucket] = float("inf")
    space["due:@"]["a@4"] = bucket
    [fault] = faults(space)
    assert fault.startswith("a@4 is at")


def test_what_is_urgent_waits_beside_the_rest_of_its_queue() -> None:
    space = deepcopy(SOUND)
    space["job:a"]["queue"] = "q:high"
    for key in [key for key in space if key.startswith(("ready:", "pending:", "due:@"))]:
        if key != "due:@":
            space[f"{key}:high"] = space.pop(key)
    space["due:@"] = {member: f"{bucket}:high" for member, bucket in space["due:@"].items()}
    space["buckets"] = {
        f"{name}:high" if name[0] == "@" else name: score
        for name, score in space["buckets"].items()
    }
    assert list(faults(space)) == []


@pytest.mark.parametrize(("born", "is_fault"), [("5", True), ("4", False)])
def test_no_execution_is_both_live_and_dead_unless_another_job_had_its_id(
    born: str, is_fault: bool
) -> None:
    space = deepcopy(SOUND)
    space["dead"]["a@1"] = 60001.0
    space["letter:a@1"] = {"born": born}
    assert list(faults(space)) == ["a@1 is live and has a letter"] * is_fault


def test_changes_are_fields_and_added_lines() -> None:
    before: Keyspace = {"h": {"a": "1", "b": "2"}, "l": [1], "s": "x", "same": {"a": "1"}}
    after: Keyspace = {"h": {"a": "1", "b": "3", "c": "4"}, "l": [1, 2], "z": {"m": 1.0}}
    after["same"] = {"a": "1"}
    assert changes(before, after) == {
        "h": {"b": "3", "c": "4"},
        "l": [2],
        "s": None,
        "z": {"m": 1.0},
    }


def test_a_secret_without_its_mark_and_a_mark_without_its_secret_are_told() -> None:
    row = '[7,["sec_1",8,null,"plain:x","beef"]]'
    assert list(faults_of_secrets({"job:a": row, "mark:beef": "job:a"})) == []
    for broken in ({"job:a": row}, {"mark:beef": "job:a"}, {"job:a": row, "mark:beef": "job:b"}):
        assert len(list(faults_of_secrets(broken))) == 1
