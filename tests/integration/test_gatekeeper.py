"""The gatekeeper, stepped beside schedulers and consumers: what is limited stays within its limit,
what waits for it holds up nobody, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import redis.exceptions as driver
from fleet import Wire, expire_leases, history
from seeding import AT_ONCE, NOW, registration, result

from engine.clock import ManualClock
from engine.errors import BadInput, Fenced
from engine.execution import Delivery, Outcome, Record
from engine.gatekeeper import LOOK_MS, Gatekeeper
from engine.keys import Shard
from engine.model import HttpTarget, Target, WorkerTarget
from engine.names import Priority, streams_of
from engine.registration import Registration
from engine.scheduler import Scheduler
from engine.scripts import Call, Scripts
from engine.shards import ShardKeeper
from engine.store import Store
from engine.store.cancelling import cancel_executions
from engine.store.changes import replace_job
from engine.store.executions import Answer, complete_executions, read_ready
from engine.store.gates import Survey, grant_permits, survey_gates
from engine.store.jobs import create_jobs, get_job
from engine.store.leases import forget_scheduler
from engine.store.limits import (
    Limit,
    Limits,
    Pushback,
    QueueSettings,
    change_queue,
    note_pushback,
    read_limits,
    read_queue,
    write_host,
    write_queue,
)

TICK_MS = 50
CALM = "calm.example"
BUSY = "busy.example:8080"


@dataclass
class Deployment:
    """A scheduler with its gatekeeper, and a consumer that is told what to end."""

    store: Store
    queues: tuple[str, ...] = ("default",)
    name: str = "s1"
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    held: list[Delivery] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    """Execution ids in the order in which the consumer got them."""
    most: Counter[str] = field(default_factory=Counter)
    """By host or queue: the most that were held at once."""
    turn: int = 0

    def __post_init__(self) -> None:
        self.keeper = ShardKeeper(self.store, self.clock, self.name)
        self.gatekeeper = Gatekeeper(self.store, self.clock, self.keeper)
        self.scheduler = Scheduler(self.store, self.clock, self.keeper)

    async def tick(self, ticks: int = 1) -> None:
        """Let one tick go by, or several: permits are granted, and what is due is fired."""
        for _ in range(ticks):
            self.clock.advance(TICK_MS)
            await self.keeper.step()
            await self.gatekeeper.step()
            await self.scheduler.step()

    async def take(self, count: int = 1_000) -> list[Delivery]:
        """Read what is ready, at most `count`, the most urgent first."""
        taken: list[Delivery] = []
        for stream in [stream for queue in self.queues for stream in streams_of(queue)]:
            self.turn += 1  # no shard is read first each time
            shards = self.store.layout.shards
            for n in range(len(shards)):
                shard = shards[(self.turn + n) % len(shards)]
                if room := count - len(taken):
                    taken += await self._read(stream, shard, room)
        self.held += taken
        self.started += [delivery.execution_id for delivery in taken]
        for kind, number in Counter(kind_of(delivery) for delivery in self.held).items():
            self.most[kind] = max(self.most[kind], number)
        return taken

    async def _read(self, stream: str, shard: Shard, count: int) -> list[Delivery]:
        where = [(stream, shard)]
        # The first read of a stream only makes its group.
        found = await read_ready(self.store, where, self.name, count, block=False)
        return found or await read_ready(self.store, where, self.name, count, block=False)

    async def end(self, count: int | None = None, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        """Report that what is held has ended, the oldest first."""
        count = len(self.held) if count is None else count
        ending, self.held = self.held[:count], self.held[count:]
        results = [result(delivery, outcome) for delivery in ending]
        answers = await complete_executions(self.store, results, self.clock.now_ms())
        assert answers == [Answer.DONE] * len(ending)

    async def work(self, ticks: int = 1) -> None:
        """Let ticks go by with a consumer that ends at each what it took at the one before."""
        for _ in range(ticks):
            await self.tick()
            await self.end()
            await self.take()


def kind_of(delivery: Delivery) -> str:
    for host in (CALM, BUSY):
        if host.encode() in delivery.target:
            return host
    return delivery.queue


def job(
    job_id: str,
    *,
    host: str | None = None,
    queue: str = "default",
    group: str | None = None,
    priority: Priority = Priority.NORMAL,
) -> Registration:
    """Return a job that is to run at once."""
    made = registration(job_id, AT_ONCE, next_run_at=None, run_at=NOW, queue=queue)
    target: Target = HttpTarget(f"http://{host}/hook") if host else WorkerTarget()
    return replace(made, job=replace(made.job, target=target, group=group, priority=priority))


async def offer(store: Store, ids: Sequence[str], **more: Any) -> None:
    """Register jobs that are to run at once."""
    assert all(await create_jobs(store, [job(name, **more) for name in ids]))


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{n}" for n in range(count)]


async def look(store: Store) -> list[Survey]:
    found = await survey_gates(store)
    return [survey for survey in found if isinstance(survey, Survey)]


async def total(store: Store, name: str) -> int:
    """Return the sum of a field over the gates of all shards."""
    return sum(survey.fields.get(name, 0) for survey in await look(store))


async def succeeded(store: Store, ids: Sequence[str]) -> int:
    """Return how many jobs have succeeded, each exactly once."""
    count = 0
    for name in ids:
        records = [r for r in await history(store, name) if isinstance(r, Record)]
        assert len(records) <= 1, f"{name} ended more than once"
        count += len(records)
    return count


async def test_a_limited_host_is_never_called_more_often_at_once_while_another_goes_on(
    store: Store,
) -> None:
    fleet = Deployment(store)
    await write_host(store, BUSY, Limit(concurrency=3))
    await fleet.tick()
    limited, free = names("limited", 60), names("free", 60)
    await offer(store, limited, host=BUSY)
    await offer(store, free, host=CALM)

    await fleet.tick()
    await fleet.take()
    assert fleet.most[CALM] == 60
    await fleet.work(100)

    assert fleet.most[BUSY] == 3
    assert await succeeded(store, limited) == 60
    assert await succeeded(store, free) == 60
    assert await total(store, f"live:h/{BUSY}") == 0


async def test_a_queue_keeps_its_rate_within_the_bound_of_its_bucket(store: Store) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(rate=20, burst=5)))
    await fleet.tick()
    await offer(store, names("job", 60))

    counts = []
    for _ in range(60):
        await fleet.work()
        counts.append(len(fleet.started))

    assert counts[0] == 5
    for first in range(60):
        for last in range(first + 1, 60):
            ticks = last - first + 1
            assert counts[last] - counts[first] <= 5 + 20 * ticks * TICK_MS / 1000
    assert counts[50] >= 20 * 51 * TICK_MS / 1000  # it is no slower either
    await fleet.work(20)
    assert await succeeded(store, names("job", 60)) == 60


async def test_a_rate_does_not_pile_up_while_no_worker_reads(store: Store) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(rate=20, burst=5)))
    await write_host(store, BUSY, Limit(rate=10, burst=4))
    await fleet.tick()
    await offer(store, names("job", 30))
    await offer(store, names("call", 30), host=BUSY, queue="http")

    await fleet.tick(200)
    assert len(await fleet.take()) == 5
    fleet.queues = ("http",)
    assert len(await fleet.take()) == 4
    fleet.queues = ("default", "http")
    await fleet.work(4)
    assert len(fleet.started) <= 5 + 4 + 30 * 5 * TICK_MS / 1000
    await fleet.work(100)
    assert len(fleet.started) == 60
    await fleet.end()


async def test_ten_of_one_tenant_are_done_while_a_thousand_of_another_are_to_come(
    store: Store,
) -> None:
    fleet = Deployment(store)
    await change_queue(store, "default", fair=True)
    await fleet.tick()
    await offer(store, names("a", 1_000), group="a")
    for _ in range(20):
        await fleet.tick()
        await fleet.end()
        await fleet.take(10)

    before = len(fleet.started)
    await offer(store, names("b", 10), group="b")
    while {f"b-{n}@{NOW}" for n in range(10)} - {*fleet.started}:
        await fleet.tick()
        await fleet.end()
        await fleet.take(10)

    assert before >= 200  # one tenant alone has kept the consumer busy
    assert len(fleet.started) - before <= 100
    while len(fleet.started) < 1_010:
        await fleet.work()
    await fleet.end()
    assert await succeeded(store, [*names("a", 1_000), *names("b", 10)]) == 1_010


async def test_a_tenant_alone_is_not_held_back_by_fairness(store: Store) -> None:
    fleet = Deployment(store)
    await change_queue(store, "default", fair=True)
    await fleet.tick()
    await offer(store, names("a", 2_000), group="a")
    for _ in range(14):
        await fleet.work()
    assert len(fleet.started) == 2_000
    await fleet.end()


async def test_gates_do_not_remember_groups_that_have_nothing(store: Store) -> None:
    fleet = Deployment(store)
    await change_queue(store, "default", fair=True)
    await fleet.tick()
    for tenant in names("tenant", 30):
        await offer(store, names(tenant, 2), group=tenant)
    await fleet.work(3)
    await fleet.end()
    await fleet.tick()
    assert {name for survey in await look(store) for name in survey.fields} == {
        "fair:default",
        "token",
    }


async def test_a_queue_becomes_fair_by_the_first_job_of_a_group(store: Store) -> None:
    await offer(store, ["plain"])
    assert await read_queue(store, "default") == QueueSettings()
    await change_queue(store, "default", paused=True)
    stored = await get_job(store, "plain")
    await replace_job(store, stored, job("plain", group="a"), NOW)
    assert await read_queue(store, "default") == QueueSettings(paused=True, fair=True)
    await offer(store, ["first"], group="a", queue="other")
    assert (await read_queue(store, "other")).fair

    await change_queue(store, "other", fair=False)
    await offer(store, ["second"], group="b", queue="other")
    assert not (await read_queue(store, "other")).fair  # set by hand, it stays so
    fleet = Deployment(store, queues=("default", "other"))
    await change_queue(store, "default", paused=False)
    await fleet.work(10)
    await fleet.end()


async def test_a_paused_queue_lets_nothing_in_and_a_resumed_one_all(store: Store) -> None:
    fleet = Deployment(store)
    await offer(store, names("early", 5))
    await fleet.take()
    await change_queue(store, "default", paused=True)
    await fleet.tick()
    await offer(store, names("job", 20))
    await fleet.work(20)
    await fleet.end()
    assert len(fleet.started) == 5

    await change_queue(store, "default", paused=False)
    await fleet.work(12)
    assert len(fleet.started) == 25
    await fleet.end()
    assert await succeeded(store, [*names("early", 5), *names("job", 20)]) == 25
    assert [survey.fields for survey in await look(store)] == [{}] * 4


async def test_a_lowered_limit_is_kept_as_soon_as_enough_has_ended(store: Store) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=10)))
    await fleet.tick()
    await offer(store, names("job", 60))
    await fleet.tick(4)
    await fleet.take()
    assert len(fleet.held) == 10

    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=4)))
    await fleet.tick(10)
    for left in range(9, 3, -1):
        await fleet.end(1)
        await fleet.tick(4)
        assert await fleet.take() == []
        assert len(fleet.held) == left
    await fleet.end(1)
    await fleet.tick(4)
    assert len(await fleet.take()) == 1

    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=8)))
    await fleet.tick(10)
    assert len(await fleet.take()) == 4
    await fleet.work(60)
    await fleet.end()
    assert await succeeded(store, names("job", 60)) == 60


async def test_a_limit_that_was_lifted_and_set_again_knows_what_came_in_before(
    store: Store,
) -> None:
    fleet = Deployment(store)
    limited = QueueSettings(limit=Limit(concurrency=3))
    await write_queue(store, "default", limited)
    await fleet.tick()
    await offer(store, names("old", 3))
    await fleet.tick(4)
    await fleet.take()
    await write_queue(store, "default", QueueSettings())
    await fleet.tick(10)
    await write_queue(store, "default", limited)
    await fleet.tick(10)
    await offer(store, names("job", 20))

    await fleet.tick(10)
    assert await fleet.take() == []
    await fleet.work(30)
    assert fleet.most["default"] == 3
    await fleet.end()
    assert await succeeded(store, names("job", 20)) == 20


async def test_a_host_that_asked_for_less_gets_nothing_and_then_slowly_more(
    store: Store,
) -> None:
    fleet = Deployment(store)
    await note_pushback(store, BUSY, Pushback(NOW, wait_ms=2_060))
    await fleet.tick()
    await offer(store, names("job", 1_200), host=BUSY)
    await offer(store, names("free", 5), host=CALM)
    seconds = []
    for _ in range(11):
        fleet.most.clear()
        await fleet.work(20)
        seconds.append(fleet.most[BUSY])
    assert seconds[:2] == [0, 0]
    assert seconds[2:6] == [1, 2, 4, 8]
    assert len(fleet.started) == 1_205
    await fleet.end()
    assert await read_limits(store) == Limits({}, {}, {})
    await fleet.tick(10)
    assert [survey.fields for survey in await look(store)] == [{}] * 4


async def test_of_what_waits_for_a_permit_the_urgent_goes_first(store: Store) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=1)))
    await fleet.tick()
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        ids = [f"{priority}-{n}" for n in range(40) if in_shard(store, f"{priority}-{n}")][:3]
        await offer(store, ids, priority=priority)
    await fleet.work(40)
    await fleet.end()
    order = [name.partition("-")[0] for name in fleet.started]
    assert order == ["high"] * 3 + ["normal"] * 3 + ["low"] * 3


def in_shard(store: Store, job_id: str) -> bool:
    return store.layout.shard_of(job_id).index == 0


async def test_what_passes_two_gates_needs_both(store: Store) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(rate=40)))
    await write_host(store, BUSY, Limit(concurrency=1))
    await fleet.tick()
    await offer(store, names("busy", 12), host=BUSY)
    await offer(store, names("calm", 40), host=CALM)
    await fleet.work(40)
    assert sum("calm" in name for name in fleet.started) == 40
    await fleet.work(160)
    assert fleet.most[BUSY] == 1
    await fleet.end()
    assert await succeeded(store, [*names("busy", 12), *names("calm", 40)]) == 52


async def test_shards_have_a_slot_in_turns_where_there_are_fewer_than_shards(
    store: Store,
) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=1)))
    await fleet.tick()
    await offer(store, names("job", 400))
    await fleet.work(200)
    served = {store.layout.shard_of(name.partition("@")[0]).index for name in fleet.started}
    assert served == {0, 1, 2, 3}
    await write_queue(store, "default", QueueSettings())
    await fleet.work(12)
    await fleet.end()
    assert await succeeded(store, names("job", 400)) == 400


async def test_what_was_cancelled_while_it_waited_leaves_its_permit_to_others(
    store: Store,
) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=1)))
    await fleet.tick()
    await offer(store, names("job", 20))
    await fleet.work(4)
    for name in names("job", 10):
        await cancel_executions(store, name, NOW + 1)
    fleet.held = [d for d in fleet.held if d.job_id not in names("job", 10)]
    await fleet.work(60)
    await fleet.end()
    assert fleet.most["default"] == 1
    assert await succeeded(store, names("job", 20)) == 20  # succeeded or cancelled, each once
    assert await total(store, "live:q/default") == 0


# Who grants


class LateWire(Scripts):
    """Scripts over a wire that keeps grants back while `is_holding`, and delivers them later."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.client)
        self.is_holding = False
        self.kept: list[Call] = []

    async def run_many(self, calls: Sequence[Call]) -> list[Any]:
        if self.is_holding and any(str(arg).startswith("+") for call in calls for arg in call[2]):
            self.kept += calls
            raise driver.ConnectionError("on its way")
        return await super().run_many(calls)

    async def deliver(self) -> list[Any]:
        return await super().run_many(self.kept)


async def step_down(fleet: Deployment) -> None:
    """Let a scheduler's leases run out, and others take its shards."""
    await expire_leases(fleet.store, fleet.name)
    await forget_scheduler(fleet.store, fleet.name)


async def test_the_one_that_was_taken_over_from_changes_nothing(store: Store) -> None:
    old, new = Deployment(store), Deployment(store, name="s2")
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=2)))
    await old.tick(6)
    await step_down(old)
    await new.tick(2)
    before = [survey.fields for survey in await look(store)]
    await offer(store, names("job", 8))

    old.clock.advance(TICK_MS)
    assert await old.gatekeeper.step() == LOOK_MS
    assert [survey.fields for survey in await look(store)] == before
    assert 0 not in {lease.shard.index for lease in old.keeper.trusted()}
    await new.work(40)
    assert new.most["default"] == 2
    await new.end()
    assert await succeeded(store, names("job", 8)) == 8


async def test_gates_put_up_by_one_that_was_taken_over_from_are_closed_to_it(
    store: Store,
) -> None:
    old, new = Deployment(store), Deployment(store, name="s2")
    await old.tick(2)
    await step_down(old)
    await new.tick(2)  # there are no gates yet that could keep its number
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=2)))
    old.clock.advance(LOOK_MS)
    await old.gatekeeper.step()
    number = (await look(store))[1].fields["token"]

    new.clock.advance(LOOK_MS)
    for _ in range(2):
        await new.gatekeeper.step()
    for shard in store.layout.shards:
        with pytest.raises(Fenced):
            await grant_permits(store, [(shard, {"slots:q/default": "+1"})], str(number))


async def test_a_takeover_is_no_more_generous_than_the_rate(store: Store) -> None:
    old = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(rate=1, burst=6)))
    await old.tick()
    await offer(store, names("job", 20))
    await old.work(2)
    await old.end()
    assert len(old.started) == 6
    await step_down(old)

    new = Deployment(store, name="s2", clock=ManualClock(old.clock.now_ms()))
    await new.work(40)
    assert len(new.started) == 2
    await write_queue(store, "default", QueueSettings())
    await new.work(12)
    await new.end()


async def test_an_answer_that_was_lost_lets_no_more_in_than_the_limit(store: Store) -> None:
    fleet = Deployment(store)
    wire = Wire(store)
    fleet.gatekeeper = Gatekeeper(replace(store, scripts=wire), fleet.clock, fleet.keeper)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=5)))
    await fleet.tick(2)
    await offer(store, names("job", 60))
    for _ in range(10):
        wire.deaf = True
        fleet.clock.advance(LOOK_MS)
        with pytest.raises(driver.ConnectionError):
            await fleet.gatekeeper.step()
        wire.deaf = False
        await fleet.work(2)
    await fleet.work(30)
    assert fleet.most["default"] == 5
    await fleet.end()
    assert await succeeded(store, names("job", 60)) == 60


async def test_a_grant_that_was_lost_on_its_way_is_refused_when_it_comes_late(
    store: Store,
) -> None:
    fleet = Deployment(store)
    late = LateWire(store)
    fleet.gatekeeper = Gatekeeper(replace(store, scripts=late), fleet.clock, fleet.keeper)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=2)))
    await fleet.tick(2)
    await offer(store, names("job", 30))
    late.is_holding = True
    with pytest.raises(driver.ConnectionError):
        await fleet.gatekeeper.step()
    late.is_holding = False
    await fleet.work(2)
    assert late.kept
    assert {type(reply) for reply in await late.deliver()} == {Fenced}
    await fleet.work(30)
    assert fleet.most["default"] == 2
    await fleet.end()
    assert await succeeded(store, names("job", 30)) == 30


async def test_a_shard_that_cannot_be_asked_does_not_stop_the_others(store: Store) -> None:
    fleet = Deployment(store)
    await write_queue(store, "default", QueueSettings(limit=Limit(concurrency=8)))
    await fleet.tick(2)
    broken = store.layout.shards[3]
    others = [n for n in names("job", 40) if store.layout.shard_of(n) is not broken]
    await offer(store, others)
    fields = await store.client.hgetall(broken.gates)
    await store.client.delete(broken.gates)
    await store.client.set(broken.gates, "in the way")
    for _ in range(30):
        fleet.clock.advance(TICK_MS)
        await fleet.keeper.step()
        with pytest.raises(driver.ResponseError):
            await fleet.gatekeeper.step()
        await fleet.scheduler.step()
        await fleet.end()
        await fleet.take()
    assert await succeeded(store, others) == len(others)
    assert fleet.most["default"] <= 8

    await store.client.delete(broken.gates)
    await store.client.hset(broken.gates, mapping=fields)
    await fleet.tick(2)


async def test_a_deployment_without_limits_is_left_alone(store: Store) -> None:
    fleet, wire = Deployment(store), Wire(store)
    fleet.gatekeeper = Gatekeeper(replace(store, scripts=wire), fleet.clock, fleet.keeper)
    await fleet.tick(2)
    wire.down = True  # it sends no script
    assert await fleet.gatekeeper.step() == LOOK_MS
    assert [survey.fields for survey in await look(store)] == [{}] * 4


@pytest.mark.parametrize(
    "wrong", [{"concurrency": -1}, {"rate": 0}, {"rate": float("inf")}, {"burst": 0}]
)
def test_a_limit_that_nothing_could_be_held_to_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refused:
        Limit(**wrong)
    assert refused.value.field == next(iter(wrong))


async def test_a_host_is_limited_however_its_name_is_spelled(store: Store) -> None:
    await write_host(store, "Busy.Example:8080", Limit(concurrency=1))
    assert (await read_limits(store)).hosts == {BUSY: Limit(concurrency=1)}
