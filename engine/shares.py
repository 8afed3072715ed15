"""How permits are shared out: over shards, over time, and between the groups of a queue.

Pure arithmetic on what the gates of a lane hold in each shard; engine/gates.py reads and writes
their fields. In each answer a positive number is granted and a negative one taken back.

**Slots** limit concurrency. A slot is taken when an execution comes in and given back when it ends;
below zero it is a debt that the next ends pay. What may never pass the limit is
Σ live + max(0, slots): only grants raise it, whatever comes in or ends meanwhile. So grants may be
worked out on a survey that is old by the time they arrive. What was taken back may not be granted
elsewhere before another survey: until then nobody knows whether it had been used already.

**Tokens** limit a rate, and are used up. `full_at` is when the bucket will be full; it moves by
1/rate for each token that is granted, so that over any time t no more than rate·t + burst are. A
token that is taken back is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

GRAIN_MS = 200
"""A rate is held over times no shorter than this: gates are looked at, and what waits at them is
fired, once in a tick."""
EVEN_LOOKS = 10
"""Looks after which a lookahead that was never needed shrinks."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One lane's gate in one shard."""

    live: int = 0
    permits: int = 0
    """Slots or tokens that are left; slots below zero are a debt."""
    waiting: int = 0
    is_kept: bool = False
    """Idle permits stay here: something waits at another lane that may need one of this too."""

    @property
    def lack(self) -> int:
        """Permits without which something waits."""
        return max(0, self.waiting - self.permits) if self.waiting else 0

    @property
    def idle(self) -> int:
        """Permits that nothing waits for."""
        return max(0, self.permits - self.waiting)


def fill(
    budget: int, needs: Sequence[int], held: Sequence[int] | None = None, first: int = 0
) -> list[int]:
    """Return how a budget is shared out by max-min fairness: the lowest level of held + given is
    raised first, nobody above its need. What does not divide goes round from place `first` on."""
    levels = held or [0] * len(needs)
    budget = min(budget, sum(needs))
    if budget <= 0:
        return [0] * len(needs)
    low = min(levels)
    high = max(level + need for level, need in zip(levels, needs, strict=True))
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_up_to(middle, levels, needs)) <= budget:
            low = middle
        else:
            high = middle - 1
    given = _up_to(low, levels, needs)
    left = budget - sum(given)
    for n in range(len(needs)):
        at = (first + n) % len(needs)
        if left and given[at] < needs[at] and levels[at] + given[at] == low:
            given[at] += 1
            left -= 1
    return given


def _up_to(level: int, levels: Sequence[int], needs: Sequence[int]) -> list[int]:
    return [min(need, max(0, level - own)) for own, need in zip(levels, needs, strict=True)]


def share_slots(limit: int, gates: Sequence[Gate], turn: int = 0) -> list[int]:
    """Return the change of a lane's slots in each shard.

    Grants are within what is left of the limit now. Where shards lack slots, others give up what is
    above their fair part: what is idle at once, the rest as executions end. `turn` moves on with
    time: where the limit is below the number of shards in need, they have it in turns. While more
    is live than a limit that was lowered, none may come in anywhere.
    """
    held = [gate.live + gate.permits for gate in gates]
    free = limit - sum(gate.live + max(0, gate.permits) for gate in gates)
    if free < 0:
        return [-max(0, own) for own in held]
    fair = fill(limit, [gate.live + gate.waiting for gate in gates], first=turn)
    lack = [
        min(gate.lack, max(0, part - own))
        for gate, part, own in zip(gates, fair, held, strict=True)
    ]
    # To let a shard off its debt lets nothing in, so this is not of what is left.
    debt = [min(part, max(0, -gate.permits)) for gate, part in zip(gates, lack, strict=True)]
    given = fill(free, [part - own for part, own in zip(lack, debt, strict=True)], first=turn)
    # What lacks and cannot be granted is taken from where it is above the fair part.
    over = [max(0, own - part) for part, own in zip(fair, held, strict=True)]
    idle = [min(gate.idle, above) for gate, above in zip(gates, over, strict=True)]
    busy = [above - n for above, n in zip(over, idle, strict=True)]
    wanted = sum(held) + sum(lack) - limit
    at_once = fill(wanted, [0 if g.is_kept else n for g, n in zip(gates, idle, strict=True)])
    at_ends = fill(wanted - sum(at_once), busy)
    return [
        off + more - now - then
        for off, more, now, then in zip(debt, given, at_once, at_ends, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket: a rate, and how much comes at once after a pause."""

    rate: float
    """Tokens a second."""
    burst: int

    @classmethod
    def of(cls, rate: float, burst: int) -> Bucket:
        """Return the bucket for a limit. It is as large as what comes in `GRAIN_MS` at least."""
        return cls(rate, max(burst, math.ceil(rate * GRAIN_MS / 1000)))


def share_tokens(
    bucket: Bucket,
    full_at: float,
    gates: Sequence[Gate],
    unread: int,
    now: int,
    turn: int = 0,
) -> tuple[list[int], float]:
    """Return the change of a lane's tokens in each shard, and `full_at` as of now with it.

    Tokens that are not spent, and `unread` executions that no consumer has, count as if they left
    the bucket now: while workers are away nothing piles up beyond the burst.
    """
    each_ms = 1000 / bucket.rate
    unspent = sum(max(0, gate.permits) for gate in gates)
    # Less than empty it can only be because the clock was set back.
    empty = now + bucket.burst * each_ms
    base = max(min(full_at, empty), now + (unspent + unread) * each_ms)
    level = math.floor((empty - base) / each_ms + 1e-6)
    given = fill(level, [gate.lack for gate in gates], first=turn)
    back = [0 if gate.is_kept else gate.idle for gate in gates]
    shares = [more - less for more, less in zip(given, back, strict=True)]
    return shares, base + sum(given) * each_ms


@dataclass(slots=True)
class Lookahead:
    """How many executions of a fair queue shall be ready for its workers: enough that they never
    run dry, and no more, since whoever comes next waits behind them."""

    LEAST: ClassVar = 32
    MOST: ClassVar = 65_536

    size: int = LEAST
    _lowest: int = MOST
    _looks: int = 0

    def see(self, unread: int, waiting: int, unspent: int) -> None:
        """Take note of what one look found: how much was ready, waited, and may come in."""
        if waiting and not unread + unspent:
            self.size = min(self.MOST, self.size * 2)
            self._lowest, self._looks = self.MOST, 0
            return
        self._lowest = min(self._lowest, unread)
        self._looks += 1
        if self._looks >= EVEN_LOOKS:
            if self._lowest > self.size // 4:
                self.size = max(self.LEAST, self.size - self._lowest // 2)
            self._lowest, self._looks = self.MOST, 0


def share_fairly(
    budget: int, groups: Mapping[str, Mapping[int, Gate]], turn: int = 0
) -> dict[str, dict[int, int]]:
    """Return by group and shard the tokens that groups get, `budget` together.

    The group that was served least goes first: what counts is what it has live, and may let in.
    """
    names = sorted(groups)
    served = [
        sum(gate.live + max(0, gate.permits) for gate in groups[name].values()) for name in names
    ]
    needs = [sum(gate.lack for gate in groups[name].values()) for name in names]
    shares = {}
    for name, part in zip(names, fill(budget, needs, served, first=turn), strict=True):
        gates = groups[name]
        given = fill(part, [gate.lack for gate in gates.values()], first=turn)
        shares[name] = dict(zip(gates, given, strict=True))
    return shares
