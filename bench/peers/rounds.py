"""All workloads on all peers, in turns: the machine is as busy for one as for the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.peers import workloads
from bench.peers.install import Installation
from bench.peers.peer import Peer
from bench.peers.workloads import Figures
from engine.errors import Unusable

Workload = Callable[[Peer, int, Installation], Awaitable[Figures]]

WORKLOADS: Mapping[str, Workload] = {
    "spike": workloads.spike,
    "recurring": workloads.recurring,
    "steady": workloads.steady,
    "immediate": workloads.immediate,
}
FEWEST = 50
"""Jobs of a run, however small a part of the usual number is asked for."""
TO_THE_WORST = ("doubled", "lost")
"""Of these the rounds' largest is kept, of all others the median."""


@dataclass(slots=True)
class Measured:
    """One workload on one peer: what each round gave."""

    peer: Peer
    workload: str
    amount: int
    """Jobs, or of the steady workload jobs a second."""
    runs: list[Figures] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def figures(self) -> Figures:
        """Return each figure's median."""
        names = dict.fromkeys(name for run in self.runs for name in run)
        return {
            name: (max if name in TO_THE_WORST else median)([run[name] for run in self.runs])
            for name in names
        }

    def row(self, version: str) -> dict[str, Any]:
        """Return it as it stands in a result."""
        what = "rate_per_s" if self.workload == "steady" else "jobs"
        return {
            "peer": self.peer.name,
            "version": version,
            "settings": self.peer.settings,
            "workload": self.workload,
            what: self.amount,
            "rounds": len(self.runs),
            "figures": {name: round(value, 3) for name, value in self.figures().items()},
            "errors": self.errors,
        }


def plan(peers: Iterable[Peer], names: Sequence[str], share: float) -> list[Measured]:
    """Return what is to be measured, `share` of the usual jobs each, workload by workload."""
    chosen = list(peers)
    return [
        Measured(peer, name, amount)
        for name in names
        for peer in chosen
        for amount in _amounts(peer, name, share)
    ]


def _amounts(peer: Peer, workload: str, share: float) -> Sequence[int]:
    if workload == "steady":
        return peer.sizes.rates
    usual = int(getattr(peer.sizes, workload))
    return (max(FEWEST, round(usual * share)),) if usual else ()


async def run_rounds(
    planned: Sequence[Measured],
    rounds: int,
    on: Installation,
    say: Callable[[str], None],
) -> None:
    """Run each workload of each peer once a round; note figures, and errors of what failed."""
    for number in range(1, rounds + 1):
        # Backwards in every other round, so that nobody always follows the same one.
        for each in planned if number % 2 else reversed(planned):
            say(f"{number}/{rounds} {each.workload} {each.amount:,} {each.peer.name}")
            try:
                run = WORKLOADS[each.workload](each.peer, each.amount, on)
                each.runs.append(await run)
            except Unusable as error:
                each.errors.append(error.message)
                say(f"failed: {error.message}")
