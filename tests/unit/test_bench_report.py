"""The report of the load harness: goals, table, plots. No server is involved."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import put, result, rows_of, stands_for

from bench.goals import GOALS, Goal, judge
from bench.report import BEGIN, END, write_report
from bench.scenarios.peers import FLAT
from engine.errors import BadInput


def test_goals_are_judged_by_the_figures_and_the_server() -> None:
    found = {
        "memory": result({"bytes_per_job": 310, "bytes_per_history_record": 60}, "memory"),
        "spike": result({"ratio": 0.9}),
    }
    verdicts = {(v.goal.metric, v.goal.server): v.is_reached for v in judge(found)}
    assert verdicts == {
        ("ratio", ""): True,
        ("bytes_per_job", "valkey"): False,
        ("bytes_per_history_record", ""): True,
    }


def test_a_goal_may_be_the_best_peer_of_the_same_run() -> None:
    goal = Goal("peers", "spike_per_s__waterclock", "", ">", "best peer")
    figures = {"waterclock": 90, "waterclock_valkey": 200, "bullmq": 100, "bee_queue": 10}
    found = result({f"spike_per_s__{who}": value for who, value in figures.items()}, "peers")
    (verdict,) = judge({"peers": found}, (goal,))
    assert (verdict.bound, verdict.target(), verdict.is_reached) == (
        100,
        "more than 100 (bullmq)",
        False,
    )


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.scenario} {goal.metric}")
def test_every_goal_is_for_a_metric_that_the_harness_describes(goal: Goal) -> None:
    assert any(stands_for(row, goal.metric) for row in rows_of(goal.scenario))


def test_every_metric_of_peers_stands_in_the_table() -> None:
    names = {
        f"{workload}_{figure}{'_at_RATE' if workload == 'steady' else ''}__PEER"
        for workload, figures in FLAT.items()
        for figure in figures
    }
    assert {*rows_of("peers")} == names


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "README.md"
    path.write_text(f"above\n\n{BEGIN}\n\nold\n\n{END}\n\nbelow\n", "utf-8")
    return path


def test_the_report_is_written_between_the_marks_and_nowhere_else(page: Path) -> None:
    folder = page.parent / "results"
    folder.mkdir()
    put(folder / "spike.json", result({"ratio": 0.9, "fires_per_s": 93_000.4, "stall_ms_max": 31}))
    lags = {f"lag_ms_{p}_at_20000": lag for p, lag in (("p50", 2), ("p99", 30), ("max", 50))}
    put(folder / "steady.json", {**result(lags, "steady"), "is_quick": True})
    write_report(folder, page)
    text = page.read_text("utf-8")
    above, begin, rest = text.partition(BEGIN)
    report, end, below = rest.partition(END)
    assert (above, begin, end, below) == ("above\n\n", BEGIN, END, "\n\nbelow\n")
    assert "| `spike` | fires, beside the floor's (`ratio`) | 0.85 or more | 0.9 ✓ |\n" in report
    assert "(`stall_ms_max`) | 20 or less | 31 ✗ |\n" in report
    assert "(`fires_per_s`) |  | 93,000 |\n" in report
    assert "in a small run (`--quick`) on 2026-11-30" in report
    assert (
        "![How late recurring jobs fire, by how many are due a second](results/lag.svg)" in report
    )
    assert sorted(path.name for path in folder.glob("*.svg")) == ["lag.svg", "ratios.svg"]
    assert "old" not in report


def test_the_same_results_give_the_same_report(page: Path) -> None:
    rates = {f"spike_triggers_per_s__{who}": n for n, who in enumerate(("waterclock", "rq"), 5)}
    put(page.parent / "peers.json", result(rates, "peers"))
    files = page, page.parent / "peers.svg"
    reports = []
    for _ in range(2):
        write_report(page.parent, page)
        reports.append([path.read_bytes() for path in files])
    assert reports[0] == reports[1]
    assert b"waterclock" in reports[0][1]


def test_a_page_without_marks_is_left_alone(page: Path) -> None:
    put(page.parent / "spike.json", result({"ratio": 1}))
    page.write_text("nothing here\n", "utf-8")
    with pytest.raises(BadInput, match="has no lines"):
        write_report(page.parent, page)
    assert page.read_text("utf-8") == "nothing here\n"
