"""Runs of peers: Waterclock's own programs, and small ones that behave as peers should not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.peers import workloads
from bench.peers.contract import Jobs
from bench.peers.install import Installation
from bench.peers.peer import Commands, Peer, Sizes, lengths
from bench.peers.programs import programs
from bench.peers.rounds import WORKLOADS
from bench.peers.waterclock import EMBEDDED
from engine.errors import Unusable

NOWHERE = Installation(Path("/nowhere"), Path("/nowhere/redis"))
COUNT = 60
NOTHING_WAITS = lengths("DBSIZE")

PROGRAM = """
import os, signal, struct, subprocess, sys, time
role, kind, count, at_ms, over_ms = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
folder, mode = os.environ["PEER_RECORDS"], os.environ["MODE"]
if role == "register":
    if mode == "refuse":
        sys.exit("no room")
    print(0.5)
    sys.exit()
if mode == "end":
    sys.exit("I give up")
if mode == "late" and not os.path.exists(os.environ["TRIED"]):
    open(os.environ["TRIED"], "w").close()
    signal.pause()
if mode == "child":
    child = subprocess.Popen(["sleep", "60"])
    open(f"{folder}/child", "w").write(str(child.pid))
open(f"{folder}/{os.getpid()}.ready", "w").close()
if mode == "child":
    signal.pause()
time.sleep(max(0, at_ms / 1000 - time.time()))
ran = [(number, time.time()) for number in range(count)]
with open(f"{folder}/{os.getpid()}.records", "wb") as records:
    for record in ran + (ran[:3] if mode == "double" else []):
        records.write(struct.pack("<qd", *record))
signal.pause()
"""


@dataclass(frozen=True)
class Script:
    """A runtime that needs no installation."""

    path: Path

    def install(self, folder: Path) -> None: ...

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, str(self.path)]

    def version(self, folder: Path) -> str:
        return "1.0"


Make = Callable[..., Peer]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, "utf-8")

    def made(mode: str, waiting: Commands = NOTHING_WAITS) -> Peer:
        return Peer(
            "small",
            Script(path),
            "as it comes",
            Sizes(spike=1, recurring=0, immediate=0),
            registers_per_s=1_000,
            waiting=waiting,
            startup_s=1,
            is_embedded=True,
            environment={"MODE": mode, "TRIED": str(tmp_path / "tried")},
        )

    return made


@pytest.mark.parametrize("workload", ["spike", "recurring", "immediate"])
async def test_our_own_programs_run_each_job_once(workload: str) -> None:
    figures = await WORKLOADS[workload](EMBEDDED, COUNT, NOWHERE)
    assert {name: figures[name] for name in ("executed", "doubled", "lost")} == {
        "executed": COUNT,
        "doubled": 0,
        "lost": 0,
    }
    assert figures["executions_per_s" if workload == "immediate" else "triggers_per_s"] > 0


async def test_figures_are_those_of_what_was_recorded(make: Make) -> None:
    figures = await workloads.spike(make("plain"), COUNT, NOWHERE)
    assert figures["registered_per_s"] == COUNT / 0.5
    assert figures["completed_per_s"] == pytest.approx(COUNT / figures["complete_s"])
    complete_ms = figures["complete_s"] * 1000 + 0.01  # a time since 1970 has no more digits
    assert 0 <= figures["lag_ms_p50"] <= figures["lag_ms_p99"] <= complete_ms


async def test_handlers_that_ran_twice_are_seen(make: Make) -> None:
    figures = await workloads.immediate(make("double"), COUNT, NOWHERE)
    assert (figures["executed"], figures["doubled"]) == (COUNT + 3, 3)


async def test_jobs_that_wait_for_ever_are_an_error(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workloads, "LIMIT_S", 1)
    with pytest.raises(Unusable, match=f"{COUNT} of {COUNT} jobs of small ran in time"):
        await workloads.spike(make("plain", lengths("INCR never-zero")), COUNT, NOWHERE)


async def test_a_run_that_was_not_ready_in_time_is_made_again(make: Make) -> None:
    figures = await workloads.spike(make("late"), COUNT, NOWHERE)
    assert figures["executed"] == COUNT


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("refuse", "small could not store its jobs: no room"),
        ("end", "a process of small ended: .*I give up"),
    ],
)
async def test_programs_that_fail_are_told_with_what_they_said(
    make: Make, mode: str, message: str
) -> None:
    with pytest.raises(Unusable, match=f"(?s){message}"):
        await workloads.immediate(make(mode), COUNT, NOWHERE)


async def test_what_a_program_has_started_ends_with_it(make: Make) -> None:
    async with programs(make("child"), "", NOWHERE.folder) as program:
        async with program.running(Jobs("immediate", 1)):
            child = program.folder / "child"
            await eventually(lambda: child.exists() and child.read_text() != "")
            pid = int(child.read_text())
        await eventually(lambda: not is_running(pid))


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within five seconds")


def is_running(pid: int) -> bool:
    """Return whether a process is there that is no zombie: not every init waits for orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
