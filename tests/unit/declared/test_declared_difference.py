"""What differs between two things, and in which order steps are taken."""

from __future__ import annotations

from typing import Any

import pytest

from engine.declared import Difference, Step, differences, levels
from engine.declared.difference import HIDDEN
from engine.errors import Cycle


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}),
        ({"a": None}, {"a": None}),
    ],
)
def test_what_is_the_same_json_is_no_difference(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert differences(old, new) == ()


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), ("1", 1), ([1, 2], [2, 1])])
def test_what_python_takes_for_the_same_need_not_be(old: object, new: object) -> None:
    assert differences({"payload": old}, {"payload": new}) == (Difference("payload", old, new),)


def test_policies_and_targets_are_told_field_by_field_and_payloads_whole() -> None:
    old = {"retry": {"max_attempts": 3, "base_ms": 1}, "payload": {"a": 1, "b": 2}}
    new = {"retry": {"max_attempts": 5, "base_ms": 1}, "payload": {"a": 1, "b": 3}}
    assert differences(old, new) == (
        Difference("payload", old["payload"], new["payload"]),
        Difference("retry.max_attempts", 3, 5),
    )


def test_what_may_be_secret_is_named_and_not_shown() -> None:
    old = {"target": {"headers": {"A": "x"}, "url": "https://a.test/?k=x", "env": {"K": "x"}}}
    new = {"target": {"headers": {"A": "y"}, "url": "https://a.test/?k=y", "env": {"K": "y"}}}
    found = differences(old, new)
    assert found == (
        Difference("target.env", HIDDEN, HIDDEN),
        Difference("target.headers", HIDDEN, HIDDEN),
        Difference("target.url", f"https://a.test/?{HIDDEN}", f"https://a.test/?{HIDDEN}"),
    )


def test_a_step_does_not_print_its_body() -> None:
    assert "s3cret" not in repr(Step("add", "job", "a", {"payload": "s3cret"}))


def steps(**depends_on: str) -> list[Step]:
    return [Step("add", "job", n, depends_on=tuple(up.split())) for n, up in depends_on.items()]


def test_a_level_depends_on_nothing_but_those_before_it() -> None:
    found = levels(steps(d="b c", b="a", c="a", a="elsewhere", e=""))
    assert [[step.name for step in level] for level in found] == [["a", "e"], ["b", "c"], ["d"]]


def test_a_circle_is_spelled_out_before_anything_is_done() -> None:
    with pytest.raises(Cycle, match=r"a → b → c → a|b → c → a → b|c → a → b → c"):
        next(levels(steps(a="b", b="c", c="a", d="")))
