"""peers: the same work on other schedulers and queues, in turns with ours.

Each workload (spike, recurring, steady, immediate) is run on each peer, several rounds, on servers
that the scenario starts itself: --server and --url have no say. `python -m bench.peers install`
installs the peers; those that are not there are left out. --jobs is the number that the fastest get
in a spike; the others' are in proportion. A small run has one round of spike and immediate beside
two peers, unless --only and --workloads say otherwise.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.peers.install import FOLDER, Installation
from bench.peers.peer import Peer
from bench.peers.rounds import WORKLOADS, Measured, plan, run_rounds
from bench.peers.table import PEERS
from bench.stage import Metrics, Scenario, Stage
from bench.units import PEER
from engine.errors import BadInput, Unusable

USUAL_SPIKE = 100_000
ROUNDS = 3
QUICK_PEERS = ("waterclock", "bee-queue", "bullmq")
QUICK_WORKLOADS = ("spike", "immediate")

FLAT = {
    "spike": ("triggers_per_s", "completed_per_s", "complete_s"),
    "recurring": ("triggers_per_s",),
    "steady": ("lag_ms_p50", "lag_ms_p99"),
    "immediate": ("executions_per_s",),
}
"""Workload → its figures that are metrics; all of them are in the notes."""


async def run(stage: Stage) -> Metrics:
    """Return each peer's figures, and put them into the notes, with versions and settings."""
    if stage.server is None:
        raise BadInput("peers runs on servers that it starts itself: leave --url out")
    on = Installation.find(Path(stage.options.get("folder", FOLDER)))
    quick_or_all = QUICK_PEERS if stage.is_quick else PEERS
    asked = _names(stage.options, "only", PEERS) or list(quick_or_all)
    names = _names(stage.options, "workloads", WORKLOADS) or list(
        QUICK_WORKLOADS if stage.is_quick else WORKLOADS
    )
    rounds = _rounds(stage)
    versions, skipped = _look_for([PEERS[name] for name in asked], on.folder)
    planned = plan((PEERS[name] for name in versions), names, stage.size / USUAL_SPIKE)
    with _ended_by_sigterm():
        await run_rounds(planned, rounds, on, _say)
    stage.notes["peers"] = [each.row(versions[each.peer.name]) for each in planned]
    stage.notes["skipped"] = skipped
    stage.notes["server"] = on.server()
    return _metrics(planned)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end this task, as Ctrl-C does: the peers' programs would outlive the process."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _names(options: Mapping[str, str], option: str, known: Iterable[str]) -> list[str]:
    """Return the names in an option, with commas between. Refuses with BadInput unknown ones."""
    names = [name.strip() for name in options.get(option, "").split(",") if name.strip()]
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"--{option}: there is no {unknown[0]!r}; there are {', '.join(known)}")
    return names


def _rounds(stage: Stage) -> int:
    text = stage.options.get("rounds", str(1 if stage.is_quick else ROUNDS))
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadInput(f"--rounds is a number from 1 on, not {text!r}")
    return int(text)


def _look_for(peers: Iterable[Peer], folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the peers that are installed, and of the others what is missing."""
    versions, skipped = {}, {}
    for peer in peers:
        try:
            peer.runtime.command(folder)
            versions[peer.name] = peer.runtime.version(folder)
        except Unusable as error:
            skipped[peer.name] = error.message
            _say(f"{peer.name} is left out: {error.message}")
    return versions, skipped


def _metrics(planned: Iterable[Measured]) -> Metrics:
    metrics: Metrics = {}
    for each in planned:
        rate = f"_at_{each.amount}" if each.workload == "steady" else ""
        who = each.peer.name.replace("-", "_")
        figures = each.figures()
        for name in FLAT[each.workload]:
            if name in figures:
                metrics[f"{each.workload}_{name}{rate}{PEER}{who}"] = figures[name]
    return metrics


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


SCENARIO = Scenario(
    run,
    size=USUAL_SPIKE,
    quick_size=5_000,
    options={
        "only": "names of peers, with commas between",
        "workloads": "of spike, recurring, steady, immediate those to run",
        "rounds": f"how often each is run; {ROUNDS} unless set, 1 in a small run",
        "folder": "where the peers are installed, if not in ~/.cache/waterclock-peers",
    },
)
