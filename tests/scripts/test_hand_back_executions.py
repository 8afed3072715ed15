"""hand_back_executions: what its holder does not start waits again, in its stream or for a
permit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from invariants import changes, read_shard
from seeding import (
    LAPSES_AT,
    NOW,
    at_once,
    fire,
    grant,
    http,
    registration,
    result,
    seed,
    start,
    take,
)

from engine.execution import Delivery, Outcome
from engine.model import Rules
from engine.names import Priority
from engine.store import Store
from engine.store.due import Fired
from engine.store.executions import Answer, complete_executions, hand_back_executions
from engine.store.jobs import delete_job

LANES = [("q/default", "default"), ("h/a.test", "default:high"), ("g/default/blue", "default:low")]


async def test_what_is_handed_back_is_as_if_nobody_had_read_it(any_store: Store) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    assert await hand_back_executions(any_store, [delivery]) == [True]
    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert changes(before, after) == {
        "job:job-0": {f"x:{NOW}": f"ready:1:{entry}"},
        "ready:default": {
            delivery.entry_id: None,
            entry: before["ready:default"][delivery.entry_id],
        },
        "pending:default": {delivery.entry_id: None},
    }
    [again] = await take(any_store, "w2")
    assert again == replace(delivery, entry_id=entry, consumer="w2", deliveries=1)


@pytest.mark.parametrize(("lane", "stream"), LANES)
async def test_for_a_lane_it_waits_in_the_index_for_a_permit(
    any_store: Store, lane: str, stream: str
) -> None:
    priority = Priority(stream.partition(":")[2] or "normal")
    shard = await seed(any_store, at_once("job-0", priority=priority))
    [delivery] = await take(any_store, stream=stream)
    before = await read_shard(any_store, shard)

    assert await hand_back_executions(any_store, [delivery], lane=lane) == [True]

    bucket = f"@{lane}{stream.removeprefix('default')}"
    assert changes(before, await read_shard(any_store, shard)) == {
        "job:job-0": {f"x:{NOW}": f"due:1:{NOW}"},
        f"due:{bucket}": {f"job-0@{NOW}": NOW},
        "due:@": {f"job-0@{NOW}": bucket},
        "buckets": {bucket: float("inf")},
        f"ready:{stream}": {delivery.entry_id: None},
        f"pending:{stream}": {delivery.entry_id: None},
    }
    # Nobody limits the lane by now, so the next look offers it.
    assert await fire(any_store, shard) == Fired(fired=1)
    [again] = await take(any_store, "w2", stream=stream)
    assert replace(again, entry_id=delivery.entry_id, consumer="w1") == delivery


async def test_a_permit_goes_back_with_it_and_is_taken_again(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    await grant(any_store, shard, {"slots:h/a.test": "1", "slots:q/default": "5"})
    await seed(any_store, at_once("job-0", target=http("a.test")))
    [delivery] = await take(any_store)
    await hand_back_executions(any_store, [delivery], lane="h/a.test")
    gates = (await read_shard(any_store, shard))["gates"]
    assert gates == {"slots:h/a.test": "1", "slots:q/default": "5", "token": "1"}
    assert await fire(any_store, shard) == Fired(fired=1)
    gates = (await read_shard(any_store, shard))["gates"]
    assert (gates["slots:h/a.test"], gates["live:h/a.test"]) == ("0", "1")


async def test_a_permit_stays_with_what_goes_back_into_its_stream(any_store: Store) -> None:
    shard = any_store.layout.shard_of("job-0")
    await grant(any_store, shard, {"slots:q/default": "1"})
    await seed(any_store, at_once("job-0"))
    [delivery] = await take(any_store)
    before = await read_shard(any_store, shard)
    await hand_back_executions(any_store, [delivery])
    after = await read_shard(any_store, shard)
    [entry] = after["ready:default"]
    assert after["job:job-0"][f"x:{NOW}"] == f"ready:1:{entry};q/default"
    assert after["gates"] == before["gates"]


@pytest.mark.parametrize("lane", ["", "q/default"])
async def test_a_retry_keeps_when_its_first_attempt_began(any_store: Store, lane: str) -> None:
    first = await start(any_store, "job-0")
    await complete_executions(any_store, [result(first, Outcome.FAILED, NOW + 900)], NOW)
    shard = any_store.layout.shards[first.shard]
    await fire(any_store, shard, NOW + 900)
    [delivery] = await take(any_store)
    assert (delivery.began_at, delivery.due_at) == (NOW + 500, NOW + 900)
    await hand_back_executions(any_store, [delivery], lane=lane)
    await fire(any_store, shard, NOW + 900)
    [again] = await take(any_store)
    assert replace(again, entry_id=delivery.entry_id) == delivery
    place = (await read_shard(any_store, shard))["job:job-0"][f"x:{NOW}"]
    assert place == f"ready:2:{again.entry_id}:{NOW + 500}.0"


@pytest.mark.parametrize("lane", ["", "q/default"])
async def test_a_first_attempt_keeps_its_expiry(any_store: Store, lane: str) -> None:
    shard = await seed(any_store, registration("job-0", rules=Rules(expires_after_ms=5_000)))
    await fire(any_store, shard)
    [delivery] = await take(any_store)
    await hand_back_executions(any_store, [delivery], lane=lane)
    await fire(any_store, shard)
    [again] = await take(any_store)
    assert again.expires_at == delivery.expires_at == NOW + 5_000


async def test_one_whose_target_fell_silent_takes_no_permit_to_be_ended(any_store: Store) -> None:
    first = await start(any_store, "job-0")
    await complete_executions(any_store, [result(first, Outcome.ACCEPTED)], NOW)
    shard = any_store.layout.shards[first.shard]
    await fire(any_store, shard, LAPSES_AT)
    [lapsed] = await take(any_store)
    assert await hand_back_executions(any_store, [lapsed], lane="q/default") == [True]
    [again] = await take(any_store)
    assert again.lapsed
    assert "due:@" not in await read_shard(any_store, shard)


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param({"consumer": "w2"}, id="another consumer"),
        pytest.param({"deliveries": 2}, id="another delivery count"),
        pytest.param({"entry_id": "1-1"}, id="an entry that is not there"),
        pytest.param({"execution_id": f"job-0@{NOW + 1}"}, id="another execution"),
        pytest.param({"attempt": 2}, id="another attempt"),
        pytest.param({"queue": "unheard"}, id="a queue that nobody has read"),
    ],
)
@pytest.mark.parametrize("lane", ["", "q/default"])
async def test_who_does_not_hold_the_delivery_changes_nothing(
    any_store: Store, claim: dict[str, str | int], lane: str
) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    before = await read_shard(any_store, shard)
    forged: Delivery = replace(delivery, **claim)  # type: ignore[arg-type]
    assert await hand_back_executions(any_store, [forged], lane=lane) == [False]
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("lane", ["", "q/default"])
async def test_handing_back_twice_is_refused_the_second_time(any_store: Store, lane: str) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    assert await hand_back_executions(any_store, [delivery, delivery], lane=lane) == [True, False]
    before = await read_shard(any_store, shard)
    assert await hand_back_executions(any_store, [delivery], lane=lane) == [False]
    assert await complete_executions(any_store, [result(delivery)], NOW) == [Answer.STALE]
    assert await read_shard(any_store, shard) == before


@pytest.mark.parametrize("lane", ["", "q/default"])
async def test_of_a_job_that_is_gone_nothing_waits_again(any_store: Store, lane: str) -> None:
    delivery = await start(any_store, "job-0")
    shard = any_store.layout.shards[delivery.shard]
    await delete_job(any_store, "job-0")
    assert await hand_back_executions(any_store, [delivery], lane=lane) == [True]
    assert (await read_shard(any_store, shard)).keys() == {"plans", "ledger", "ran_at"}


async def test_a_batch_goes_over_shards_and_answers_in_its_order(any_store: Store) -> None:
    started = [await start(any_store, f"job-{n}") for n in range(8)]
    assert len({delivery.shard for delivery in started}) > 1
    lost = replace(started[3], deliveries=9)
    batch = [*started[:3], lost, *started[4:]]
    assert await hand_back_executions(any_store, batch) == [True] * 3 + [False] + [True] * 4
    assert len(await take(any_store)) == 7
