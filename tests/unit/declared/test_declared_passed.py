"""Whether a job of a file was for one time that is over: also asked of what is no job at all."""

from __future__ import annotations

from typing import Any

import pytest

from api.declared import has_passed

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("expr", "is_over"),
    [
        ("2020-01-01T00:00:00Z", True),
        (["2020-01-01T00:00:00Z"], True),
        ("2090-01-01T00:00:00Z", False),
        (["2020-01-01T00:00:00Z", "every 5m"], False),
        ("every 5m", False),
        (None, False),
    ],
)
def test_only_a_single_time_is_over(expr: Any, is_over: bool) -> None:
    assert has_passed({"schedule_expr": expr}, NOW) is is_over


@pytest.mark.parametrize(
    "body",
    [
        {"schedule_expr": {"type": []}},
        {"schedule_expr": [{"a": 1}]},
        {"schedule_expr": [None]},
        {"schedule_expr": []},
        {"schedule_expr": 5},
        {"schedule_expr": "every 5m", "timezone": []},
        {"schedule_expr": "every 5m", "timezone": ["UTC"]},
        {"schedule_expr": "every 5m", "dialect": {"a": 1}},
    ],
)
def test_what_is_no_schedule_is_not_over(body: dict[str, Any]) -> None:
    assert not has_passed(body, NOW)
