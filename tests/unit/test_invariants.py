"""The invariants are only worth something if each can be broken."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from invariants import Keyspace, changes, faults

SOUND: Keyspace = {
    "plans": {"p": "{}"},
    "jobs": {"a": 0.0, "b": 0.0},
    "job:a": {
        "state": "active",
        "plan": "p",
        "next_run_at": "60005",
        "queue": "q",
        "live": "2",
        "x:1": "ready:1:7-0",
        "x:2": "due:2:60009",
        "backfill_state": "running",
        "backfill_live": "1",
        "x:0": "due:2:60009",
        "b:0": "1",
    },
    "job:b": {"state": "paused", "plan": "p", "next_run_at": "60005", "queue": "q"},
    "due:1": {"p|a": 60005.0},
    "due:@q": {"a@2": 60009.0, "a@0": 60009.0},
    "backfills": {"a": True},
    "buckets": {"1": 1.0, "@q": float("inf")},
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
        ("due:1", "a@3", 60005.0, "a@3 is in the index"),
        ("due:2", "p|a", 60005.0, "p|a is at"),
        ("job:a", "state", "paused", "p|a is in the index"),
        ("job:b", "state", "active", "p|b is at"),
        ("job:b", "state", "completed", "b is completed with"),
        ("job:b", "next_run_at", "", "b is paused with"),
        ("job:b", "plan", "other", "a plan that is not stored"),
        ("job:b", "queued", "1", "b has times that wait"),
        ("job:a", "live", "1", "a counts 1"),
        ("job:a", "b:0", None, "a counts 2 and 1"),
        ("job:a", "backfill_live", "0", "a counts 2 and 0"),
        ("job:a", "b:3", "1", "a counts 2 and 1"),
        ("job:a", "backfill_state", "done", "backfills are"),
        ("backfills", "a", None, "backfills are"),
        ("backfills", "b", True, "backfills are"),
        ("job:a", "x:1", "ready:2:7-0", "a@1 says"),
        ("job:a", "x:1", "ready:1:9-0", "a@1 says"),
        ("ready:q", "7-0", None, "a@1 says"),
        ("ready:q", "9-0", {"execution_id": "a@1", "attempt": "1"}, "9-0 waits in q"),
        ("pending:q", "8-0", None, "8-0 waits in q"),
        ("buckets", "1", None, "buckets are"),
        ("buckets", "2", 2.0, "buckets are"),
        ("buckets", "@q", 0.0, "buckets are"),
        ("jobs", "b", None, "jobs are"),
        ("jobs", "c", 0.0, "jobs are"),
        ("runs:c", "", "", "c has a history"),
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
