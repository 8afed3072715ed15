"""Whose turn it is: slots shared out by weight, and the queues that a worker is told to read."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadInput
from engine.reading import HANDFUL, HEAVIEST, Handfuls, Turns, parse_queues

PLENTY = 1_000_000
NAMES = "abcd"


def one_by_one(turns: Turns[str], waiting: dict[str, int], slots: int) -> list[str]:
    """Return who gets which slot, if they become free one after the other."""
    order = []
    for _ in range(slots):
        [(key, count)] = turns.share(waiting, 1).items()
        assert count == 1
        order.append(key)
    return order


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, HEAVIEST), min_size=1),
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(NAMES), st.integers(0, 300)), st.integers(0, 500)
        ),
        max_size=8,
    ),
)
def test_all_slots_are_given_as_far_as_something_waits_and_no_more(
    weights: dict[str, int], asks: list[tuple[dict[str, int], int]]
) -> None:
    turns = Turns(weights)
    for waiting, slots in asks:
        shares = turns.share(waiting, slots)
        known = {key: waiting.get(key, 0) for key in weights}
        assert sum(shares.values()) == min(slots, sum(known.values()))
        assert all(0 < count <= known[key] for key, count in shares.items())


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=2),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
def test_under_backlog_each_has_its_share_however_the_slots_come(
    weights: dict[str, int], slots: list[int]
) -> None:
    turns = Turns(weights)
    got: Counter[str] = Counter()
    for count in slots:
        got.update(turns.share(dict.fromkeys(weights, PLENTY), count))
    for key, weight in weights.items():
        due = sum(slots) * weight / sum(weights.values())
        assert abs(got[key] - due) <= len(weights)


def test_the_turns_of_a_heavy_queue_are_spread_out() -> None:
    turns = Turns({"a": 5, "b": 1, "c": 1})
    order = one_by_one(turns, {"a": PLENTY, "b": PLENTY, "c": PLENTY}, 7)
    assert Counter(order) == {"a": 5, "b": 1, "c": 1}
    assert "aaaa" not in "".join(order)


def test_what_an_idle_queue_does_not_need_goes_to_the_others_by_their_weights() -> None:
    turns = Turns({"a": 3, "b": 1, "idle": 6})
    assert turns.share({"a": PLENTY, "b": PLENTY}, 40) == {"a": 30, "b": 10}
    assert turns.share({"a": 2, "b": PLENTY}, 40) == {"a": 2, "b": 38}


def test_a_queue_that_was_idle_has_saved_nothing_up() -> None:
    turns = Turns({"a": 1, "b": 1})
    one_by_one(turns, {"a": PLENTY}, 50)
    order = one_by_one(turns, {"a": PLENTY, "b": PLENTY}, 10)
    assert Counter(order) == {"a": 5, "b": 5}


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(NAMES), st.integers(0, 300)), st.integers(0, 900)
        ),
        max_size=8,
    ),
    st.integers(0, 9),
)
def test_handfuls_give_all_slots_as_far_as_something_waits_and_no_more(
    asks: list[tuple[dict[str, int], int]], first: int
) -> None:
    handfuls = Handfuls(NAMES, first=first)
    for waiting, slots in asks:
        shares = handfuls.share(waiting, slots)
        assert sum(shares.values()) == min(slots, sum(waiting.values()))
        assert all(0 < count <= waiting[key] for key, count in shares.items())


def test_handfuls_come_from_one_after_the_other_and_from_all_in_turn() -> None:
    handfuls = Handfuls("abcd", first=1)
    waiting = dict.fromkeys("abcd", PLENTY)
    assert handfuls.share(waiting, HANDFUL) == {"b": HANDFUL}
    assert handfuls.share(waiting, HANDFUL + 1) == {"c": HANDFUL, "d": 1}
    assert [handfuls.share(waiting, 1) for _ in range(3)] == [{"a": 1}, {"b": 1}, {"c": 1}]
    assert handfuls.share({"c": PLENTY}, 3 * HANDFUL) == {"c": 3 * HANDFUL}


def test_queues_are_read_with_their_weights() -> None:
    assert parse_queues(["mail=3", " http ", "a.b-c = 100"]) == {"mail": 3, "http": 1, "a.b-c": 100}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["mail=0"], "weight is from 1 to 100"),
        (["mail=101"], "weight"),
        (["mail="], "weight"),
        (["mail=1.5"], "weight"),
        (["mail=٣"], "weight"),
        (["ma il"], "queue name"),
        (["mail:high"], "queue name"),
        (["mail=2", "mail"], "twice"),
        ([], "one queue"),
    ],
)
def test_what_is_no_queue_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_queues(texts)


def test_importing_the_engine_reads_nothing_else_and_lends_the_worker() -> None:
    code = (
        "import sys, engine; early = {'redis', 'engine.handlers'} & {*sys.modules};"
        "from engine import Worker; print(early, Worker.__module__)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout == "set() engine.handlers\n", printed.stderr
