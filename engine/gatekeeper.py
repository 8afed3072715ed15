"""The gatekeeper: grants the permits of what is limited, for all shards."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping

from engine.clock import Clock
from engine.errors import Fenced
from engine.gates import TURN_MS, Changes, Decision, Moment, View
from engine.lanes import fair_queues, lanes_of, recovered, streams_to_watch
from engine.loop import keep_stepping
from engine.shards import Lease, ShardKeeper
from engine.shares import Lookahead
from engine.store import Store, gates, limits

LOOK_MS = 250
"""The time between two looks at what is limited: a change takes effect within two."""
IDLE_MS = 5_000
"""The time between two surveys while nothing is limited. What an older gatekeeper has sent may come
so late that the gates, empty by then, do not know its number for an old one: it is put away."""
ROUNDS = 1_000
"""Numbers that one lease has for its grants."""

log = logging.getLogger("waterclock.gatekeeper")


class Gatekeeper:
    """Grants permits while its keeper holds the lease of the first shard, so that there is one.

    1. Looks at what is limited, and forgets that a host asked for less when it has recovered.
    2. Surveys the gates of all shards; puts up what is missing, takes down what is left over, and
       takes back what is better used elsewhere; then surveys again and grants.
    3. Numbers its grants. After a takeover, or a grant whose answer was lost, it first makes the
       gates refuse whatever is still under way with an older number: only then does a survey show
       all that was granted.
    4. Keeps in the first shard when the bucket of each rate will be full, before it grants any of
       it: whoever takes over is no more generous.
    """

    name = "gatekeeper"

    def __init__(self, store: Store, clock: Clock, keeper: ShardKeeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper
        self._limits = limits.Limits({}, {}, {})
        self._look_at = 0
        self._survey_at = 0
        self._fair: dict[str, Lookahead] = {}
        self._begin("")

    def _begin(self, token: str) -> None:
        """Know nothing, and grant under this lease."""
        self._token = token
        self._round = 0
        self._views: list[View | None] = [None] * len(self._store.layout.shards)
        self._numbered: dict[int, int] = {}
        """Shards whose gates refuse what was sent under an older number than this."""
        self._full_at: dict[str, float] = {}
        self._turn = 0
        self._failures: list[Exception] = []

    @property
    def _number(self) -> int:
        return int(self._token) * ROUNDS + min(self._round, ROUNDS - 1)

    async def run(self, stop: asyncio.Event) -> None:
        await keep_stepping(self.name, self.step, stop)

    async def step(self) -> float:
        """Grant once what may be granted now; return the ms until the next look.

        Raises what a shard failed with, after the others had their turn.
        """
        trusted = self._keeper.trusted()
        lease = next((lease for lease in trusted if lease.shard.index == 0), None)
        if lease is None:
            self._begin("")
            return LOOK_MS
        if lease.token != self._token:
            self._begin(lease.token)
        self._failures = []
        try:
            await self._look()
            is_busy = await self._grant(lease)
        except Fenced:
            log.warning("another scheduler grants permits now")
            self._keeper.drop(lease)
            self._begin("")
            return LOOK_MS
        if self._failures:
            raise self._failures[0]
        return self._store.config.tick_ms if is_busy else LOOK_MS

    async def _look(self) -> None:
        """Read what is limited, if it is time to."""
        if self._clock.monotonic_ms() < self._look_at:
            return
        self._limits = await limits.read_limits(self._store)
        self._look_at = self._clock.monotonic_ms() + LOOK_MS
        for host in recovered(self._limits, self._clock.now_ms()):
            await limits.forget_pushback(self._store, host)
            del self._limits.pushbacks[host]
        fair = fair_queues(self._limits)
        self._fair = {queue: self._fair.get(queue) or Lookahead() for queue in fair}

    async def _grant(self, lease: Lease) -> bool:
        """Bring the gates up to date; return whether there are any."""
        lanes = lanes_of(self._limits, self._clock.now_ms())
        is_idle = not lanes and not self._fair and all(v and not v.has_gates for v in self._views)
        if is_idle and self._clock.monotonic_ms() < self._survey_at:
            return False
        self._survey_at = self._clock.monotonic_ms() + IDLE_MS
        await self._survey()
        moment = self._moment(lanes)
        moment.see()
        decision = moment.decide()
        if any(decision.prepare) and self._keeper.is_trusted(lease):
            await self._send(decision.prepare)
            await self._survey()
            decision = self._moment(lanes).decide()
        if self._keeper.is_trusted(lease) and await self._keep(decision):
            await self._send(decision.grant)
        self._turn = self._clock.now_ms() // TURN_MS
        return True

    def _moment(self, lanes: Mapping[str, limits.Limit]) -> Moment:
        now = self._clock.now_ms()
        if first := self._views[0]:
            self._full_at = {
                lane: self._full_at.get(lane, first.fields.get(f"full:{lane}", 0)) for lane in lanes
            }
        is_turn = now // TURN_MS != self._turn
        return Moment(self._views, lanes, self._fair, self._full_at, now, is_turn)

    async def _survey(self) -> None:
        """Look at the gates of all shards; go on with what is known of those that do not answer."""
        await self._number_shards()
        found = await gates.survey_gates(self._store, streams_to_watch(self._limits))
        for at, survey in enumerate(found):
            if isinstance(survey, Exception):
                self._failures.append(survey)
            elif survey.fields and survey.fields.get("token", 0) < self._numbered.get(at, 0):
                # The gates were empty when they got this number, and did not keep it.
                del self._numbered[at]
            elif at in self._numbered:
                self._views[at] = View(survey)
                continue
            if view := self._views[at]:
                view.lose_touch()

    async def _number_shards(self) -> None:
        """Make the gates refuse older numbers where they may not do so yet."""
        shards, number = self._store.layout.shards, self._number
        unsure = [at for at in range(len(shards)) if at not in self._numbered]
        nothing: dict[str, str] = {}
        if unsure:
            failed = await gates.grant_permits(
                self._store, [(shards[at], nothing) for at in unsure], str(number)
            )
            for at, error in zip(unsure, failed, strict=True):
                if error is None:
                    self._numbered[at] = number
                else:
                    self._failures.append(error)

    async def _keep(self, decision: Decision) -> bool:
        """Keep when the buckets of those rates will be full of which something is granted; return
        whether that is kept."""
        granted = {name for changes in decision.grant for name in changes}
        lanes = [lane for lane in decision.full_at if f"tokens:{lane}" in granted]
        first = self._views[0]
        if first is None:
            return not lanes
        self._full_at |= decision.full_at
        if not lanes:
            return True
        moved = {}
        for lane in lanes:
            name, full_at = f"full:{lane}", math.ceil(decision.full_at[lane])
            moved[name] = f"{full_at - first.fields.get(name, 0):+d}"
        await self._send([moved, *({} for _ in self._views[1:])])
        return 0 in self._numbered

    async def _send(self, changes: Changes) -> None:
        """Make changes, and know of each shard what they leave to grant, whatever happens."""
        sent = [(at, fields) for at, fields in enumerate(changes) if fields]
        if not sent:
            return
        shards = self._store.layout.shards
        failed: list[Exception | None] = [None] * len(sent)
        is_answered = False
        try:
            failed = await gates.grant_permits(
                self._store, [(shards[at], fields) for at, fields in sent], str(self._number)
            )
            is_answered = True
        finally:
            is_unsure = False
            for (at, fields), error in zip(sent, failed, strict=True):
                is_certain = is_answered and error is None
                if view := self._views[at]:
                    view.change(fields, is_certain=is_certain)
                if not is_certain:
                    self._numbered.pop(at, None)
                    is_unsure = True
            self._round += is_unsure
        self._failures += [error for error in failed if error is not None]
