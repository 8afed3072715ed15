"""What the load harness makes of two results, or of two revisions. No server is involved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from measured import put, result

from bench import against
from bench.__main__ import main
from bench.against import measure_against
from bench.compare import compare, table
from bench.result import Result
from bench.units import Better, better, written
from engine.errors import BadInput, Unusable

# Units


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("fires_per_s", Better.MORE),
        ("fires_per_s_at_20000", Better.MORE),
        ("executions_per_s_of_two", Better.MORE),
        ("ratio", Better.MORE),
        ("redis_ratio_of_1000_plans", Better.MORE),
        ("lag_ms_p99_at_20000", Better.LESS),
        ("redis_us_per_fire", Better.LESS),
        ("complete_s", Better.LESS),
        ("bytes_per_job", Better.LESS),
        ("memory_peak_mb", Better.LESS),
        ("idle_cpu_percent", Better.LESS),
        ("lost", Better.LESS),
        ("floor_fires_per_s", Better.NEITHER),
        ("bare_per_s", Better.NEITHER),
        ("nominal_times", Better.NEITHER),
        ("spike_triggers_per_s__waterclock", Better.MORE),
        ("spike_triggers_per_s__bullmq", Better.NEITHER),
    ],
)
def test_a_metrics_name_says_which_way_is_better(metric: str, expected: Better) -> None:
    assert better(metric) is expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0123456, "0.0123"),
        (0.8549, "0.855"),
        (25, "25"),
        (999.96, "1,000"),
        (93_421.7, "93,422"),
        (-3.14159, "-3.14"),
    ],
)
def test_a_figure_is_written_with_the_digits_that_count(value: float, text: str) -> None:
    assert written(value) == text


# Comparing


@pytest.mark.parametrize(
    ("metric", "before", "after", "lost"),
    [
        ("fires_per_s", 100, 90, 0.1),
        ("fires_per_s", 100, 110, -0.1),
        ("lag_ms_p99", 10, 11, 0.1),
        ("lost", 0, 1, float("inf")),
        ("lost", 0, 0, 0),
        ("fires_per_s", 0, 10, 0),
        ("floor_fires_per_s", 100, 50, 0),
    ],
)
def test_what_is_lost_is_a_part_of_what_was(
    metric: str, before: float, after: float, lost: float
) -> None:
    (row,) = compare([(result({metric: before}), result({metric: after}))])
    assert row.lost() == pytest.approx(lost)


def test_rounds_are_compared_by_the_median_of_their_ratios() -> None:
    # The machine was twice as fast in the second round: medians of all would say another thing.
    rounds = [(100, 90), (200, 180), (100, 120)]
    (row,) = compare([(result({"fires_per_s": a}), result({"fires_per_s": b})) for a, b in rounds])
    assert (row.before, row.after) == (100, 120)
    assert row.ratio == pytest.approx(0.9)
    assert row.ratios == pytest.approx((0.9, 0.9, 1.2))


@pytest.mark.parametrize(
    ("ratios", "mark", "is_worse"),
    [
        ((0.9, 0.8, 0.7), "worse", True),
        ((1.1, 0.8, 0.7), "worse?", False),
        ((1.1, 1.2), "better", False),
        ((0.9, 1.16), "", False),
        ((0.9, 1.4), "better?", False),
    ],
)
def test_a_change_on_which_rounds_do_not_agree_has_a_question_mark_and_does_not_count(
    ratios: tuple[float, ...], mark: str, is_worse: bool
) -> None:
    (row,) = compare([(result({"ratio": 1}), result({"ratio": ratio})) for ratio in ratios])
    assert table([row], 0.05).splitlines()[1].rpartition(")")[2].strip() == mark
    assert row.is_worse(0.05) is is_worse


def test_only_metrics_that_all_results_have_are_compared() -> None:
    rows = compare([(result({"a_per_s": 1, "b_per_s": 1}), result({"c_per_s": 1, "b_per_s": 2}))])
    assert [row.metric for row in rows] == ["b_per_s"]


def test_results_are_compared_as_a_table_that_marks_what_is_worse(tmp_path: Path) -> None:
    before = put(
        tmp_path / "a.json", result({"fires_per_s": 100_000, "lag_ms_p99": 20, "ratio": 0.9})
    )
    after = put(
        tmp_path / "b.json", result({"fires_per_s": 90_000, "lag_ms_p99": 10, "ratio": 0.9})
    )
    done = CliRunner().invoke(main, ["compare", before, after])
    assert [line.split() for line in done.stdout.splitlines() if line] == [
        ["spike"],
        ["before", "after", "ratio"],
        ["fires_per_s", "100,000", "90,000", "0.900", "worse"],
        ["lag_ms_p99", "20", "10", "0.500", "better"],
        ["ratio", "0.9", "0.9", "1.000"],
    ]
    assert done.exit_code == 0


@pytest.mark.parametrize(("worse_than", "code"), [("0.05", 1), ("0.2", 0)])
def test_a_check_fails_only_where_more_is_lost_than_allowed(
    tmp_path: Path, worse_than: str, code: int
) -> None:
    before = put(tmp_path / "a.json", result({"fires_per_s": 100}))
    after = put(tmp_path / "b.json", result({"fires_per_s": 90}))
    words = ["compare", before, after, "--check", "--worse-than", worse_than]
    assert CliRunner().invoke(main, words).exit_code == code


def test_conditions_that_differ_are_told(tmp_path: Path) -> None:
    before = put(tmp_path / "a.json", result({"ratio": 1}))
    after = put(tmp_path / "b.json", {**result({"ratio": 1}, server="redis 7.0.15"), "jobs": 200})
    done = CliRunner().invoke(main, ["compare", before, after])
    assert done.stderr.splitlines() == [
        "warning: not the same conditions: jobs: 100, then 200",
        "warning: not the same conditions: server: valkey 9.1.2, then redis 7.0.15",
    ]


def test_folders_are_compared_by_scenario(tmp_path: Path) -> None:
    for name, found in {"a": ["http", "spike"], "b": ["spike", "floor"]}.items():
        (tmp_path / name).mkdir()
        for scenario in found:
            put(tmp_path / name / f"{scenario}.json", result({"ratio": 1}, scenario))
    done = CliRunner().invoke(main, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert done.stdout.splitlines()[0] == "spike"
    assert done.stdout.count("ratio") == 2  # the heading, and the one figure


# Two revisions


STUB = """
import json, pathlib, sys
root = pathlib.Path(__file__).parents[1]
value = float((root / "value").read_text())
pathlib.Path({log!r}).open("a").write(f"{{value:.0f}} {{' '.join(sys.argv[1:-1])}}\\n")
assert value < 3, "three is too many"
result = {result!r}
result["metrics"] = {{"fires_per_s": value}}
pathlib.Path(sys.argv[-1]).write_text(json.dumps(result))
"""


def git(root: Path, *words: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
    command = ["git", "-C", str(root), *who, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose harness tells a number: 1 in its one commit, 2 in its tree."""
    root = tmp_path / "repository"
    (root / "bench").mkdir(parents=True)
    stub = STUB.format(log=str(tmp_path / "log"), result=result({}))
    (root / "bench/__init__.py").write_text("", "utf-8")
    (root / "bench/__main__.py").write_text(stub, "utf-8")
    (root / "value").write_text("1", "utf-8")
    git(root, "init", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--message=one")
    (root / "value").write_text("2", "utf-8")
    return root


def test_two_revisions_take_turns_and_who_begins_alternates(repository: Path) -> None:
    pairs = measure_against(repository, "main", "spike", 3, ["--quick"])
    assert [(a["metrics"], b["metrics"]) for a, b in pairs] == [
        ({"fires_per_s": 1}, {"fires_per_s": 2})
    ] * 3
    log = (repository.parent / "log").read_text("utf-8").splitlines()
    assert [line[0] for line in log] == ["1", "2", "2", "1", "1", "2"]
    assert {line[2:] for line in log} == {"spike --quick --json"}


def worktrees(root: Path) -> int:
    return git(root, "worktree", "list", "--porcelain").count("worktree ")


@pytest.mark.parametrize("error", [KeyboardInterrupt, Unusable])
def test_the_revision_that_was_checked_out_is_gone_whatever_happens(
    repository: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    seen = []

    def stop(tree: Path, *_: object) -> Result:
        seen.append((tree, worktrees(repository)))
        raise error("stop")

    monkeypatch.setattr(against, "_run", stop)
    with pytest.raises(error):
        measure_against(repository, "main", "spike", 1)
    ((tree, count),) = seen
    assert (count, worktrees(repository), tree.exists()) == (2, 1, False)


def test_what_is_no_revision_is_named(repository: Path) -> None:
    with pytest.raises(BadInput, match="'nowhere' cannot be checked out"):
        measure_against(repository, "nowhere", "spike", 1)


def test_a_run_that_fails_is_told_with_what_it_said(repository: Path) -> None:
    (repository / "value").write_text("3", "utf-8")
    with pytest.raises(Unusable, match="three is too many"):
        measure_against(repository, "main", "spike", 1)
