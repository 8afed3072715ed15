"""`waterclock graph`, and the commands that steer jobs which depend on jobs: what is asked for, and
what is printed of the answer."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.cli import main, options

GRAPH: dict[str, Any] = {
    "job_id": "b",
    "nodes": [
        {"job_id": "b", "state": "active", "join": "all", "match": "same_time", "gate": False},
        {"job_id": "a", "state": "active", "next_run_at": "2030-01-01T00:00:00.000Z"},
        {"job_id": "x", "state": "missing"},
        {"job_id": "d", "state": "paused", "join": "any", "match": "latest", "gate": True},
        {"job_id": "c", "state": "active"},
    ],
    "edges": [
        {"from": "a", "to": "b", "condition": "succeeded"},
        {"from": "x", "to": "b", "condition": "finished"},
        {"from": "b", "to": "c", "condition": "succeeded"},
        {"from": "b", "to": "d", "condition": "failed"},
        {"from": "c", "to": "d", "condition": "succeeded"},
    ],
    "is_cut": False,
}
TREE = """\
a  active  next 2030-01-01T00:00:00.000Z
└── b  active
    ├── c  active
    │   └── d  paused  any  latest  gate  ↑
    └── d  paused  any  latest  gate  when b has failed
x  missing
└── b  active  when x has finished  ↑
"""
RUN: dict[str, Any] = {
    "root": "a",
    "scheduled_for": "2027-01-15T08:00:00.000Z",
    "runs": [
        {"job_id": "a", "status": "succeeded", "attempt_count": 2},
        {"job_id": "b", "status": "skipped", "attempt_count": 0, "reason": "overlap"},
        {
            "job_id": "c",
            "status": "waiting_for_upstream",
            "attempt_count": 0,
            "heard": {"a": {"outcome": "succeeded", "is_met": True}},
            "awaited": ["x", "y"],
        },
    ],
    "edges": [
        {"from": "a", "to": "b", "condition": "succeeded"},
        {"from": "a", "to": "c", "condition": "succeeded"},
    ],
    "is_cut": True,
}
RUN_TREE = """\
a  succeeded  2 attempts
├── b  skipped  overlap
└── c  waiting_for_upstream  for x, y
"""


class FakeApi:
    """Keeps what it is asked, and answers `answer`."""

    answer: Any = GRAPH

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...], object]] = []

    def get(self, *path: str, **query: object) -> Any:
        return self._note("GET", path, {k: v for k, v in query.items() if v is not None})

    def post(self, *path: str, body: object = None) -> Any:
        return self._note("POST", path, body)

    def delete(self, *path: str, **query: object) -> Any:
        return self._note("DELETE", path, {k: v for k, v in query.items() if v is not None})

    def _note(self, method: str, path: tuple[str, ...], more: object) -> Any:
        self.calls.append((method, path, more))
        return self.answer


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(options, "Api", lambda *_: api)
    return api


def waterclock(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_a_graph_is_a_tree_for_each_job_at_the_top(api: FakeApi) -> None:
    result = waterclock("graph", "b", "--depth", "2")
    assert (result.exit_code, result.stdout) == (0, TREE)
    assert api.calls == [("GET", ("jobs", "b", "graph"), {"depth": 2})]
    assert result.stderr == ""


def test_a_run_is_a_tree_of_states_and_says_that_there_is_more(api: FakeApi) -> None:
    api.answer = RUN
    result = waterclock("graph", "a", "--run", "2027-01-15T08:00:00Z")
    assert (result.exit_code, result.stdout) == (0, RUN_TREE)
    assert api.calls == [("GET", ("graphs", "a", "runs", "2027-01-15T08:00:00Z"), {})]
    assert "more jobs" in result.stderr


@pytest.mark.parametrize(("args", "answer"), [((), GRAPH), (("--run", "5"), RUN)])
def test_a_graph_is_json_for_programs(
    api: FakeApi, args: tuple[str, ...], answer: dict[str, Any]
) -> None:
    api.answer = answer
    result = waterclock("graph", "a", "--json", *args)
    assert json.loads(result.stdout) == answer


def test_a_graph_of_one_job_is_a_line(api: FakeApi) -> None:
    api.answer = {**GRAPH, "nodes": GRAPH["nodes"][:1], "edges": []}
    assert waterclock("graph", "b").stdout == "b  active\n"


def test_a_long_line_is_not_broken(api: FakeApi) -> None:
    long = {"job_id": "j" * 128, "state": "active"}
    edge = {"from": "b", "to": "j" * 128, "condition": "succeeded"}
    api.answer = {**GRAPH, "nodes": [GRAPH["nodes"][0], long], "edges": [edge]}
    assert waterclock("graph", "b").stdout == f"b  active\n└── {'j' * 128}  active\n"


def test_a_chain_of_a_thousand_jobs_is_printed(api: FakeApi) -> None:
    names = [f"j{n}" for n in range(1_000)]
    api.answer = {
        "nodes": [{"job_id": name, "state": "active"} for name in names],
        "edges": [
            {"from": one, "to": next_, "condition": "succeeded"} for one, next_ in pairwise(names)
        ],
        "is_cut": False,
    }
    assert len(waterclock("graph", "j0").stdout.splitlines()) == 1_000


def test_depth_does_not_go_with_a_run(api: FakeApi) -> None:
    assert waterclock("graph", "a", "--run", "5", "--depth", "1").exit_code == 2
    assert api.calls == []


@pytest.mark.parametrize(
    ("args", "query"),
    [
        ([], {}),
        (["--cascade"], {"dependents": "cascade"}),
        (["--detach"], {"dependents": "detach"}),
    ],
)
def test_delete_says_what_becomes_of_dependents(
    api: FakeApi, args: list[str], query: dict[str, str]
) -> None:
    assert waterclock("jobs", "delete", "a", *args).exit_code == 0
    assert api.calls == [("DELETE", ("jobs", "a"), query)]


def test_delete_takes_one_word_on_dependents(api: FakeApi) -> None:
    assert waterclock("jobs", "delete", "a", "--cascade", "--detach").exit_code == 2
    assert api.calls == []


@pytest.mark.parametrize(
    ("args", "body", "then"), [([], None, "–"), (["--downstream"], {"downstream": True}, "b, c")]
)
def test_rerun_says_what_runs_again(api: FakeApi, args: list[str], body: object, then: str) -> None:
    api.answer = {
        "execution_id": "a@5",
        "attempt": 2,
        "downstream": [] if body is None else ["b", "c"],
    }
    result = waterclock("executions", "rerun", "a@5", *args)
    assert result.stdout.split() == ["execution_id", "a@5", "attempt", "2", "then", *then.split()]
    assert api.calls == [("POST", ("executions", "a@5", "rerun"), body)]
