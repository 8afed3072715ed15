"""Every key that keys.py spells has its fate when a deployment moves."""

from __future__ import annotations

import pytest
from test_readme import all_keys

from engine.keys import request_key
from engine.store.transfer.kinds import DEPLOYMENT, SHARD, Fate, kind_of, records


def test_every_kind_of_key_is_moved_rebuilt_or_left_behind_for_a_reason() -> None:
    spelled = all_keys() | {request_key("<digest>")}
    assert [key for key in spelled if kind_of(key) is None] == []
    words = {key.partition("}:")[2].partition(":")[0] for key in spelled if "}:" in key}
    assert words == SHARD.keys()
    others = {key.removeprefix("wc:") for key in spelled if "}:" not in key}
    assert {name.removesuffix(":<digest>") for name in others} == DEPLOYMENT.keys()
    assert all(kind.how for kind in (*DEPLOYMENT.values(), *SHARD.values()))


@pytest.mark.parametrize("key", ["wc:novelty", "wc:{t}:novelty", "wc:{t}:novelty:job:a"])
def test_a_key_that_nobody_spells_has_none(key: str) -> None:
    assert kind_of(key) is None


def test_a_key_goes_by_what_stands_right_behind_its_tag() -> None:
    kind = kind_of("wc:{t}:job:ready:lease")
    assert kind is not None
    assert (kind.fate, kind.how) == (Fate.MOVED, "job")
    assert "job" in records()
