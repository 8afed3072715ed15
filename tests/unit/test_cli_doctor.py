"""`waterclock doctor`: advice where something is wrong, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cli.doctor import findings

WELL: dict[str, Any] = {
    "server": {
        "name": "valkey",
        "version": "9.1.2",
        "maxmemory_policy": "noeviction",
        "is_persistent": True,
    },
    "shards": 16,
    "shards_without_scheduler": 0,
    "timezones": "2026f",
}


def test_a_deployment_that_is_well_needs_no_advice() -> None:
    assert [finding.advice for finding in findings(WELL, "2026f")] == [None] * 5


@pytest.mark.parametrize(
    ("wrong", "check", "advice"),
    [
        ({"server": {**WELL["server"], "is_persistent": False}}, "persistence", "appendonly yes"),
        ({"shards_without_scheduler": 3}, "shards with a scheduler", "waterclock scheduler"),
        ({"timezones": "2025a"}, "time zones of the API", "2026f"),
    ],
)
def test_what_is_wrong_comes_with_what_to_do(
    wrong: dict[str, Any], check: str, advice: str
) -> None:
    told = {f.check: f.advice for f in findings({**WELL, **wrong}, "2026f") if f.advice}
    assert list(told) == [check]
    assert advice in told[check]
