"""Files of declarations: what they say together, and each fault with its place."""

from __future__ import annotations

import pytest

from engine.declared import Declared, Source, read_sources
from engine.declared.document import with_defaults


def read(*texts: str) -> Declared:
    return read_sources([Source(f"{n}.yaml", text) for n, text in enumerate(texts)])


def faults(*texts: str) -> list[str]:
    return [str(fault) for fault in read(*texts).faults]


def test_jobs_are_a_mapping_or_a_list() -> None:
    mapping = read("waterclock: 1\njobs:\n  a: {payload: 1}\n  b:\n")
    listed = read("waterclock: 1\njobs:\n- {job_id: a, payload: 1}\n- job_id: b\n")
    for declared in (mapping, listed):
        assert declared.faults == []
        assert [*declared.jobs] == ["a", "b"]
        assert declared.jobs["a"].body["payload"] == 1
    assert read('{"waterclock": 1, "jobs": {"a": {}}}').jobs.keys() == {"a"}


def test_several_files_make_one_declaration_each_with_its_own_defaults() -> None:
    declared = read(
        "waterclock: 1\nowner: me\ndefaults: {queue: x}\njobs: {a: }\n",
        "waterclock: 1\njobs: {b: }\nqueues: {x: {concurrency: 1}}\n",
    )
    assert declared.faults == []
    assert declared.owner == "me"
    assert {name: entry.body for name, entry in declared.jobs.items()} == {
        "a": {"queue": "x"},
        "b": {},
    }
    assert declared.queues["x"].body == {"concurrency": 1}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "0.yaml: this must be one mapping, with `waterclock: 1` and `jobs`"),
        ("waterclock: 1\n---\nwaterclock: 1\n", "0.yaml: this must be one mapping"),
        ("- a", "0.yaml: this must be one mapping"),
        ("a: [", "0.yaml: not YAML at line 2, character 1"),
        ("jobs: {}", "0.yaml: `waterclock: 1` must say which version"),
        ("waterclock: 2", "0.yaml:1: `waterclock: 1` must say which version"),
        ("waterclock: true", "0.yaml:1: `waterclock: 1` must say which version"),
        ('waterclock: "1"', "0.yaml:1: `waterclock: 1` must say which version"),
        ("waterclock: 1\njob: {}", "0.yaml:2: there is no 'job' here; known are waterclock,"),
        ("waterclock: 1\nowner: a b", "0.yaml:2: owner: a group's name is"),
        (f"waterclock: 1\nowner: {'x' * 59}", "0.yaml:2: owner: this is a name of 58 characters"),
        ("waterclock: 1\ndefaults:\njobs: 5", "0.yaml:3: jobs: this must be a mapping of ids"),
        ("waterclock: 1\ndefaults: []", "0.yaml:2: defaults must be a mapping"),
        ("waterclock: 1\ndefaults: {job_id: a}", "0.yaml:2: defaults must be a mapping without"),
        ("waterclock: 1\njobs:\n  a: 5", "0.yaml:3: jobs.a: this must be a mapping"),
        ("waterclock: 1\njobs:\n  a@b: {}", "0.yaml:3: jobs.a@b: a job id is"),
        ("waterclock: 1\njobs:\n  a: {job_id: b}", "0.yaml:3: jobs.a: another `job_id`"),
        ("waterclock: 1\njobs:\n- {}\n", "0.yaml:3: jobs.0: a job in a list needs its `job_id`"),
        ("waterclock: 1\njobs:\n- {job_id: 5}\n", "0.yaml:3: jobs.0: a job in a list needs its"),
        ("waterclock: 1\njobs:\n- job_id: a\n- job_id: a\n", "jobs.1: a is declared at 0.yaml:3"),
        ("waterclock: 1\nqueues: {a b: }", "0.yaml:2: queues.a b: a queue name is"),
        ("waterclock: 1\ncalendars: {a/b: }", "0.yaml:2: calendars.a/b: a calendar's name is"),
        ("waterclock: 1\nhosts: {a/b: }", "0.yaml:2: hosts.a/b: a host is"),
        ("waterclock: 1\nhosts: {A.x: , a.X: }", "hosts.a.X: a.x is declared at 0.yaml:2"),
        ("waterclock: 1\nqueues: []", "0.yaml:2: queues: this must be a mapping of names"),
        ("waterclock: 1\njobs:\n  a: {}\n  a: {}\n", "0.yaml: line 4, character 3: the key 'a' is"),
        ("waterclock: 1\njobs:\n  5: {}\n", "0.yaml: line 3, character 3: the key 5 needs quotes"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, fault: str) -> None:
    [found] = faults(text)
    assert fault in found


def test_all_faults_of_all_files_are_told() -> None:
    found = faults(
        "waterclock: 1\nowner: a\njobs:\n  x: 5\n  y: {}\n",
        "waterclock: 1\nowner: b\njobs:\n  y: {}\n",
        "{",
    )
    assert [fault.partition(": ")[0] for fault in found] == [
        "0.yaml:4",
        "1.yaml:2",
        "1.yaml:4",
        "2.yaml",
    ]
    assert "another file says a" in found[1]
    assert "y is declared at 0.yaml:5 already" in found[2]


def test_defaults_are_merged_into_target_retry_and_misfire_and_nowhere_else() -> None:
    defaults = {
        "target": {"type": "http", "url": "https://a.test/", "headers": {"X": "1"}},
        "retry": {"max_attempts": 5, "base_ms": 1},
        "payload": {"a": 1},
        "group": "g",
    }
    body = {
        "target": {"headers": {"Y": "2"}},
        "retry": {"base_ms": 2},
        "payload": {"b": None},
        "group": None,
    }
    assert with_defaults(defaults, body) == {
        "target": {"type": "http", "url": "https://a.test/", "headers": {"Y": "2"}},
        "retry": {"max_attempts": 5, "base_ms": 2},
        "payload": {"b": None},
    }


def test_a_target_takes_nothing_from_one_of_another_type() -> None:
    defaults = {"target": {"type": "http", "url": "https://a.test/"}}
    assert with_defaults(defaults, {"target": {"type": "worker"}}) == {"target": {"type": "worker"}}


def test_a_fault_points_at_the_defaults_where_those_are_wrong() -> None:
    text = "defaults:\n  target:\n    typ: x\njobs:\n  a:\n    queue: q\n    tags: [b]\n"
    entry = read(f"waterclock: 1\n{text}").jobs["a"]
    assert str(entry.fault(("target", "typ"), "no")) == "0.yaml:4: defaults.target.typ: no"
    assert str(entry.fault(("tags", 0), "no")) == "0.yaml:8: jobs.a.tags.0: no"
    assert str(entry.fault(("payload",), "no")) == "0.yaml:6: jobs.a.payload: no"
    assert str(entry.fault((), "no")) == "0.yaml:6: jobs.a: no"


def test_bodies_are_not_in_what_is_printed_of_an_entry() -> None:
    declared = read("waterclock: 1\njobs: {a: {payload: s3cret}}")
    assert "s3cret" not in repr(declared)
