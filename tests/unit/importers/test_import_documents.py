"""The door to YAML and JSON of others: what is read, and what no file can do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import BadInput
from engine.importers import documents
from engine.importers.documents import (
    MAX_DEPTH,
    lines_of,
    read_documents,
    read_json,
    write_yaml,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ('{"a": 1}', [{"a": 1}]),
        ('{"a": 1}\n{"b": 2}\n', [{"a": 1}, {"b": 2}]),
        ('[1] [2]{"c":3}', [[1], [2], {"c": 3}]),
        ("{a: 1}", [{"a": 1}]),
        ('"a": 1', [{"a": 1}]),
        ('"a" "b"', ["a", "b"]),
        ("base: &b {x: 1}\nuse: {<<: *b, y: 2}\n", [{"base": {"x": 1}, "use": {"x": 1, "y": 2}}]),
        ("day: 2030-01-31\nat: 2030-01-31T09:00:00Z", None),
        ('{"big": 9007199254740993}', [{"big": 9007199254740993}]),
    ],
)
def test_a_text_is_its_documents(text: str, found: list[Any] | None) -> None:
    dates = [{"day": "2030-01-31", "at": "2030-01-31T09:00:00Z"}]
    assert read_documents(text) == (dates if found is None else found)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ("a: 1\na: 2\n", "'a' is there twice"),
        ("- b\n- a: {x: 1, x: 1}\n", "'x' is there twice"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": 1', "not JSON at line 1, character 8"),
        ('{"a": ' + "9" * 5_000 + "}", "too many digits"),
        ("[" * 200 + "]" * 200, "levels deep"),
        ("a:\n" + "".join(" " * n + "- \n" for n in range(1, 200)) + "", "levels deep"),
        ("a: [1", "not YAML at line 2, character 1"),
        ("a: !!python/object/apply:os.system [ls]", "not YAML at line 1"),
        ("a: !ruby/object:Gem {}", "not YAML at line 1"),
        ("? [a, b]\n: c\n", "a key that is no text"),
        ("a: &a [*a]", "an alias of what it stands in"),
        ("a: \x00", "not YAML"),
        (BOMB, "aliases counted"),
    ],
)
def test_what_is_wrong_or_out_of_bounds_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read_documents(text)


def test_a_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 1 << 20)
    read_documents("a" * (1 << 20))
    with pytest.raises(BadInput, match="more than 1 MiB"):
        read_documents("a" * ((1 << 20) + 1))


def test_brackets_in_a_text_are_no_levels() -> None:
    text = "[" * (MAX_DEPTH * 2)
    assert read_documents('{"a": "' + text + '"}') == [{"a": text}]


@pytest.mark.parametrize("text", ["", "1 2", "{", "yes", "[" * 200])
def test_one_json_value_is_one(text: str) -> None:
    with pytest.raises(BadInput):
        read_json(text)


@pytest.mark.parametrize(
    ("word", "plain", "usual"),
    [
        ("on", "on", True),
        ("No", "No", False),
        ("true", True, True),
        ("010", "010", 8),
        ("12:30", "12:30", 750),
        ("-7", -7, -7),
        ("1e3", 1000.0, "1e3"),
        (".5", 0.5, 0.5),
        ("0x1f", "0x1f", 31),
        (".nan", ".nan", None),
        ("~", None, None),
        ("2030-01-31", "2030-01-31", "2030-01-31"),
    ],
)
def test_plain_words_are_those_of_yaml_1_2(word: str, plain: object, usual: object) -> None:
    assert read_documents(f"a: {word}", plain=True) == [{"a": plain}]
    if word != ".nan":
        assert read_documents(f"a: {word}") == [{"a": usual}]


def test_a_plain_key_is_a_text() -> None:
    assert read_documents("on: 1\nbase: &b {no: 2}\nuse: {<<: *b}\n", plain=True) == [
        {"on": 1, "base": {"no": 2}, "use": {"no": 2}}
    ]
    for key in ("5", "true", "~", "1.5"):
        with pytest.raises(BadInput, match=f"line 2, character 3: the key {key} needs quotes"):
            read_documents(f"a:\n  {key}: 1\n", plain=True)


def test_each_value_has_its_line() -> None:
    text = "# first\na:\n  b: [1,\n    2]\n  on: x\n'c': {d: 1}\n"
    assert lines_of(text) == {
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "b", 0): 3,
        ("a", "b", 1): 4,
        ("a", "on"): 5,
        ("c",): 6,
        ("c", "d"): 6,
    }
    assert lines_of('{"a":\n {"b": 1}}') == {("a",): 1, ("a", "b"): 2}
    assert lines_of("a: [") == {}


def test_a_schedule_that_looks_like_an_alias_is_told_what_it_lacks() -> None:
    with pytest.raises(BadInput, match=r"line 1, character \d+: .*; quote a text that begins with"):
        read_documents("expr: */5 * * * *")


TEXTS = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    ["no", "1e3", "010", "12:30", "0o7", "~", "<<", "=", "2030-01-31", "-", "1_0", "!x", "&a", "\n"]
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_what_is_written_reads_back_as_it_was_in_both_ways(value: dict[str, Any]) -> None:
    text = write_yaml(value)
    assert read_documents(text, plain=True) == [value]
    assert read_documents(text) == [value]


def test_a_value_that_is_there_twice_is_written_twice() -> None:
    shared = ["x"]
    assert write_yaml({"a": shared, "b": shared}) == "a:\n- x\nb:\n- x\n"
