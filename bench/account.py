"""What became of each nominal time, and when: read from the ledger once all is over. Pure.

The ledger stamps what it tells with the server's time, so nothing has to look on while the load
runs, and a server that comes back tells what it kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.execution import Outcome, Record, SkipRecord
from engine.store.ledger import LedgerEvent

ON_TIME_MS = 100
"""A fire that comes later has come late: two scheduler ticks."""
UNDER_WAY_MS = 50
"""What was sent before a kill may still be carried out for so long."""


@dataclass(slots=True)
class Account:
    """All that the ledgers tell of a run, added shard by shard with `add`."""

    on_time: dict[int, list[int]] = field(default_factory=dict)
    """By shard, when its fires that were on time came, oldest first."""
    fires: Counter[str] = field(default_factory=Counter)
    """First attempts by execution."""
    ends: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[str] = field(default_factory=Counter)
    """Of all attempts of an execution, as far as they were recorded."""
    taken_over: list[int] = field(default_factory=list)
    """When those that had needed a second delivery ended."""
    skips: dict[str, list[SkipRecord]] = field(default_factory=dict)

    def add(self, shard: int, event: LedgerEvent) -> None:
        """Take one event of a shard's ledger in."""
        if event.word == "fired" and event.lag_ms is not None:
            self.fires[event.subject] += 1
            if event.lag_ms <= ON_TIME_MS:
                self.on_time.setdefault(shard, []).append(event.at)
        match event.record:
            case SkipRecord() as skipped:
                self.skips.setdefault(event.subject, []).append(skipped)
            case Record(outcome=outcome, deliveries=deliveries):
                self.deliveries[event.subject] += deliveries
                self.ends[event.subject] += outcome is not Outcome.FAILED
                if deliveries > 1:
                    self.taken_over.append(event.at)

    @property
    def skipped(self) -> int:
        """How many nominal times were skipped with a reason."""
        return sum(one.count for records in self.skips.values() for one in records)

    @property
    def on_time_ratio(self) -> float:
        """The share of all fires that came on time."""
        return sum(map(len, self.on_time.values())) / max(1, self.fires.total())

    def on_time_again(self, since: int, shards: Iterable[int]) -> list[int]:
        """Return the ms from `since` to the next on-time fire in each of `shards`, the soonest
        first. Raises RuntimeError for a shard that has none."""
        waits = []
        for shard in shards:
            fires = self.on_time.get(shard, [])
            at = next((at for at in fires if at >= since + UNDER_WAY_MS), None)
            if at is None:
                raise RuntimeError(f"shard {shard} fired nothing on time any more")
            waits.append(at - since)
        return sorted(waits)

    def taken_over_between(self, since: int, until: int) -> list[int]:
        """Return the ms from `since` to the end of each execution that was delivered once more,
        the soonest first."""
        return sorted(at - since for at in self.taken_over if since <= at < until)

    def lost(self, owed: Mapping[str, range]) -> int:
        """Return how many of each job's nominal times were neither fired nor skipped with a reason,
        or were fired and never came to an end."""
        never = 0
        for job_id, times in owed.items():
            left_out = {
                at
                for one in self.skips.get(job_id, [])
                for at in range(one.first_at, one.last_at + 1, times.step)
            }
            never += sum(at not in left_out and f"{job_id}@{at}" not in self.fires for at in times)
        return never + sum(not self.ends[name] for name in self.fires)

    def doubled(self, calls: Counter[str]) -> int:
        """Return how many executions were fired twice, ended twice, or called more often than they
        were delivered. A delivery to a worker that was killed may have called."""
        return sum(
            self.fires[name] > 1 or self.ends[name] > 1 or calls[name] > self.deliveries[name]
            for name in self.fires.keys() | self.ends.keys() | calls.keys()
        )
