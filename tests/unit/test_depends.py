"""The vocabulary of dependencies: what is refused, and which match is the usual one."""

from __future__ import annotations

import pytest
from hashing import hash_of
from linking import depends
from seeding import NOW

from engine.codec.jobs import load_job
from engine.depends import MOST_UPSTREAMS, Depends, Join, Match, Upstream, roots_of, usual_match
from engine.errors import BadInput
from engine.model import JobState, WorkerTarget
from engine.registration import Registration, Timing, register

GRAPH = {
    "b": depends("a"),
    "c": depends("a"),
    "d": depends("b c"),
    "e": depends("d x"),
    "l": depends("a x", match=Match.LATEST),
    "m": depends("l"),
    "g": depends("a", gate_ms=5),
}


@pytest.mark.parametrize(
    ("jobs", "roots"),
    [
        ("a", "a"),
        ("d", "a"),
        ("b c d", "a"),
        ("e", "a x"),
        ("l", "l"),
        ("m", "l"),
        ("m d", "a l"),
        ("g", "g"),
        ("unknown", "unknown"),
    ],
)
def test_roots_are_those_whose_times_a_job_has(jobs: str, roots: str) -> None:
    assert roots_of(jobs.split(), GRAPH) == set(roots.split())


def test_roots_of_a_circle_are_none_and_found() -> None:
    assert roots_of(["p"], {"p": depends("q"), "q": depends("p")}) == set()


@pytest.mark.parametrize(
    ("jobs", "match"),
    [("b c", Match.SAME_TIME), ("b x", Match.LATEST), ("m", Match.SAME_TIME)],
)
def test_one_root_means_the_same_time(jobs: str, match: Match) -> None:
    assert usual_match(jobs.split(), GRAPH) is match


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([], "depends on 1 to 1000 others"),
        ([f"u{n}" for n in range(MOST_UPSTREAMS + 1)], "depends on 1 to 1000 others"),
        (["a", "b", "a"], "a is named twice"),
    ],
)
def test_too_few_too_many_and_the_same_twice_are_refused(ids: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        Depends(tuple(map(Upstream, ids)))
    assert refused.value.field is not None
    assert refused.value.field.startswith("depends_on")


def test_a_thousand_are_not_too_many() -> None:
    assert len(depends(" ".join(f"u{n}" for n in range(MOST_UPSTREAMS))).upstreams) == 1_000


def test_a_gate_looks_at_the_same_time_only() -> None:
    with pytest.raises(BadInput, match="leave match out"):
        depends("a", match=Match.LATEST, gate_ms=5)


def made(on: Depends, timing: Timing | None = None) -> Registration:
    return register(now=NOW, target=WorkerTarget(), job_id="z", depends=on, timing=timing)


def test_a_job_that_depends_on_others_waits_and_does_not_run_at_once() -> None:
    registration = made(depends("a"))
    assert registration.run_at is None
    assert (registration.job.state, registration.job.next_run_at) == (JobState.ACTIVE, None)


def test_itself_is_refused() -> None:
    with pytest.raises(BadInput, match="z depends on itself"):
        made(depends("a z"))


def test_a_schedule_needs_a_gate_and_a_gate_a_schedule() -> None:
    with pytest.raises(BadInput, match="needs `gate`"):
        made(depends("a"), Timing("* * * * *"))
    with pytest.raises(BadInput, match="this one has none"):
        made(depends("a", gate_ms=5))
    assert made(depends("a", gate_ms=5), Timing("* * * * *")).job.next_run_at is not None


@pytest.mark.parametrize(
    "on",
    [
        depends("a b/failed c/finished"),
        depends("s.a f:b e-c_d", Join.ANY),
        depends("sa/failed fa ea/finished", match=Match.LATEST),
    ],
)
def test_what_a_hash_holds_is_what_was_asked_for(on: Depends) -> None:
    assert load_job("z", hash_of(made(on).job)).depends == on
