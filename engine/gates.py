"""What the gates of all shards are to hold: from limits, time and a survey to changes.

Pure: engine/gatekeeper.py looks and sends, engine/lanes.py says what is limited to how much,
engine/shares.py has the arithmetic, and lua/lib/gates.lua says what the fields mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.lanes import lane_of, queue_of
from engine.names import streams_of
from engine.shares import Bucket, Gate, Lookahead, share_fairly, share_slots, share_tokens
from engine.store.gates import Survey
from engine.store.limits import Limit

FAIR_SHARE = 4
"""Executions of one group that are let in at once in each shard, however busy the queue."""
TURN_MS = 500
"""How long a shard keeps what others wait for as well."""

Changes = list[dict[str, str]]
"""For each shard what grant_permits is to change: field → change."""


class View:
    """What is known of one shard's gates: the last survey, and what was changed since."""

    def __init__(self, survey: Survey) -> None:
        self.fields = dict(survey.fields)
        self.unread = survey.unread
        self.waiting: dict[str, int] = {}
        self.is_fresh = True
        """False: the shard cannot be asked now, and nothing is known of what waits there."""
        for bucket, count in survey.waiting.items():
            if lane := lane_of(bucket):
                self.waiting[lane] = self.waiting.get(lane, 0) + count

    def change(self, changes: Mapping[str, str], *, is_certain: bool) -> None:
        """Take over changes that were sent, as far as they can only leave less to grant, unless it
        is certain that they were made. The next survey tells the rest: what was taken back may have
        been used before, and what was put up unless it was there may have been there."""
        for name, change in changes.items():
            if change == "" and is_certain:
                self.fields.pop(name, None)
            elif change[:1] == "+" or (change[:1] == "-" and is_certain and name[:5] == "full:"):
                self.fields[name] = self.fields.get(name, 0) + int(change)

    def lose_touch(self) -> None:
        """Go on without what may have changed by itself."""
        self.is_fresh = False
        self.waiting = {}

    @property
    def has_gates(self) -> bool:
        """Whether anything is limited here; a `live:` that is left counts down by itself."""
        return any(name.partition(":")[0] not in ("live", "token") for name in self.fields)

    def gate(self, kind: str, lane: str, *, unknown: int = 0, is_turn: bool = False) -> Gate:
        """Return the gate of a lane; `kind` is `slots` or `tokens`."""
        waiting = self.waiting.get(lane, 0)
        has_others = len(self.waiting) > (waiting > 0)
        return Gate(
            self.fields.get(f"live:{lane}", 0),
            self.fields.get(f"{kind}:{lane}", unknown),
            waiting,
            is_kept=not self.is_fresh or (has_others and not is_turn),
        )

    def groups(self) -> set[str]:
        """Return the lanes of groups that have something live, or waiting."""
        names = (name.removeprefix("live:") for name in [*self.fields, *self.waiting])
        return {name for name in names if name.startswith("g/")}


@dataclass
class Decision:
    """What is to change: `prepare` first, and `grant` only when it was worked out on a survey that
    has seen what `prepare` did."""

    prepare: Changes
    grant: Changes
    full_at: dict[str, float] = field(default_factory=dict)
    """Lanes with a rate → when their buckets will be full (ms UTC)."""

    def note(self, name: str, shard: int, share: int) -> None:
        if share > 0:
            self.grant[shard][name] = f"+{share}"
        elif share < 0:
            self.prepare[shard][name] = str(share)


@dataclass
class Moment:
    """All that a decision is made on."""

    views: Sequence[View | None]
    """None: a shard that was never seen."""
    lanes: Mapping[str, Limit]
    fair: Mapping[str, Lookahead]
    """Queues that groups share."""
    full_at: Mapping[str, float]
    now: int
    is_turn: bool = False
    """A new turn of `TURN_MS` has begun."""

    def decide(self) -> Decision:
        """Return what is to change in each shard."""
        decision = Decision([{} for _ in self.views], [{} for _ in self.views])
        for changes, view in self._known(decision.prepare):
            changes.update((name, str(count)) for name, count in self._missing(view))
            changes.update((name, "") for name in self._left_over(view))
        for lane, limit in self.lanes.items():
            if limit.concurrency is not None:
                self._share_slots(decision, lane, limit.concurrency)
            if limit.rate is not None:
                self._share_tokens(decision, lane, Bucket.of(limit.rate, limit.burst))
        for queue in self.fair:
            self._share_queue(decision, queue)
        return decision

    def _known(self, changes: Changes) -> Iterator[tuple[dict[str, str], View]]:
        return ((c, view) for c, view in zip(changes, self.views, strict=True) if view)

    # What is there

    @cached_property
    def _wanted(self) -> dict[str, int]:
        """Names of the fields that each shard is to have, and what they are put up with: limits
        are closed at first."""
        wanted = {f"fair:{queue}": FAIR_SHARE for queue in self.fair}
        for lane, limit in self.lanes.items():
            if limit.concurrency is not None:
                wanted[f"slots:{lane}"] = 0
            if limit.rate is not None:
                wanted[f"tokens:{lane}"] = 0
        return wanted

    def _missing(self, view: View) -> Iterator[tuple[str, int]]:
        names = self._wanted.keys() - view.fields.keys()
        return ((name, self._wanted[name]) for name in names)

    def _left_over(self, view: View) -> Iterator[str]:
        """Yield the gates that nothing asks for. `live:` stays and counts down by itself: when the
        lane is limited again, what came in before is known."""
        for name in view.fields.keys() - self._wanted.keys():
            kind, _, lane = name.partition(":")
            if kind in ("live", "token"):
                continue
            if kind == "full" and f"tokens:{lane}" in self._wanted:
                continue
            if kind == "tokens" and lane.startswith("g/") and queue_of(lane) in self.fair:
                # A group without anything begins anew: gates do not remember all there ever were.
                is_idle = not view.waiting.get(lane) and f"live:{lane}" not in view.fields
                if not (is_idle and view.is_fresh):
                    continue
            yield name

    @cached_property
    def _waited_for(self) -> set[str]:
        """Lanes at which something waits, in any shard."""
        return {lane for view in self.views if view for lane in view.waiting}

    # Limits

    def _share_slots(self, decision: Decision, lane: str, limit: int) -> None:
        """Share slots out where all shards are known and have their gate: else the sum of what is
        live and what is granted is not known."""
        name = f"slots:{lane}"
        if lane not in self._waited_for and self._sum(f"live:{lane}") + self._sum(name) <= limit:
            return
        if all(view and name in view.fields for view in self.views):
            shares = share_slots(limit, self._gates("slots", lane), self._turn)
            for shard, share in enumerate(shares):
                decision.note(name, shard, share)

    def _share_tokens(self, decision: Decision, lane: str, bucket: Bucket) -> None:
        name = f"tokens:{lane}"
        if lane not in self._waited_for and not self._sum(name) and not self._all_unread:
            return
        if not all(name in view.fields for view in self.views if view):
            return
        gates, full_at = self._gates("tokens", lane), self.full_at.get(lane, 0)
        unread = self._unread_of(lane, gates)
        shares, full_at = share_tokens(bucket, full_at, gates, unread, self.now, self._turn)
        for shard, share in enumerate(shares):
            decision.note(name, shard, share)
        decision.full_at[lane] = full_at

    def _sum(self, name: str) -> int:
        """Return the sum of what a field has above 0."""
        return sum(max(0, view.fields.get(name, 0)) for view in self.views if view)

    @property
    def _turn(self) -> int:
        return self.now // TURN_MS

    def _gates(self, kind: str, lane: str) -> list[Gate]:
        return [
            view.gate(kind, lane, is_turn=self.is_turn) if view else Gate(is_kept=True)
            for view in self.views
        ]

    def _unread_of(self, lane: str, gates: Sequence[Gate]) -> int:
        """Return how many executions of a lane were let in and have not been started, as far as is
        known: whose host it is cannot be seen, so of a host it is what waits in the streams that
        are watched, up to what is live of it."""
        kind, _, name = lane.partition("/")
        if kind == "q":
            return self._unread(name)
        return min(self._all_unread, sum(gate.live for gate in gates))

    @cached_property
    def _all_unread(self) -> int:
        return sum(sum(view.unread.values()) for view in self.views if view)

    def _unread(self, queue: str) -> int:
        streams = streams_of(queue)
        return sum(view.unread.get(name, 0) for view in self.views if view for name in streams)

    # Fair queues

    @cached_property
    def _groups(self) -> dict[str, dict[str, dict[int, Gate]]]:
        """Queue → lane of a group → shard → gate, where the group has anything."""
        queues: dict[str, dict[str, dict[int, Gate]]] = {queue: {} for queue in self.fair}
        for shard, view in enumerate(self.views):
            for lane in view.groups() if view else ():
                if view and (groups := queues.get(queue_of(lane))) is not None:
                    gate = view.gate("tokens", lane, unknown=FAIR_SHARE)
                    groups.setdefault(lane, {})[shard] = gate
        return queues

    def _unspent(self, queue: str) -> int:
        """Return the tokens that something waits with: they will be spent at the next tick."""
        return sum(min(max(0, gate.permits), gate.waiting) for gate in self._gates_in(queue))

    def _gates_in(self, queue: str) -> Iterable[Gate]:
        return (gate for gates in self._groups[queue].values() for gate in gates.values())

    def see(self) -> None:
        """Let each fair queue's lookahead learn from this look."""
        for queue, lookahead in self.fair.items():
            waiting = sum(gate.waiting for gate in self._gates_in(queue))
            lookahead.see(self._unread(queue), waiting, self._unspent(queue))

    def _share_queue(self, decision: Decision, queue: str) -> None:
        budget = self.fair[queue].size - self._unread(queue) - self._unspent(queue)
        shares = share_fairly(budget, self._groups[queue], self._turn)
        for lane, gates in self._groups[queue].items():
            name = f"tokens:{lane}"
            for shard, gate in gates.items():
                view = self.views[shard]
                # A group without this field has its first tokens, whatever is granted.
                if view and name in view.fields:
                    decision.note(name, shard, shares[lane][shard] or _top_up(gate))


def _top_up(gate: Gate) -> int:
    """Return the tokens of a group that has little live in a shard and nothing waiting there, so
    that its next execution need not wait."""
    return 0 if gate.waiting else max(0, FAIR_SHARE - gate.live - max(0, gate.permits))
